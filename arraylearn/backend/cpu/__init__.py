"""Numba for the CPU bodies: compiling and caching, and instructions that Python cannot express."""

import importlib

from arraylearn.backend.threads import run_to_the_end

run_to_the_end(lambda: importlib.import_module("numba.extending"))
