"""Numba as the bodies for CPUs use it: how functions are compiled and kept, and how threads share loops."""

import importlib

from arraylearn.backend.threads import run_to_the_end

run_to_the_end(lambda: importlib.import_module("numba.extending"))
