"""Say which kernels OpenBLAS picked, and fail where they are not the one named.

``OPENBLAS_CORETYPE=Haswell python -m tests.backends.blas_kernel Haswell``

NumPy and SciPy bring a build each, and a build ignores a name that it does not know without a word.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy  # noqa: F401  (loads its OpenBLAS)
import scipy.linalg  # noqa: F401  (loads its own)
import threadpoolctl

__all__ = ["KERNELS", "Kernel", "judge", "main"]


class Kernel(NamedTuple):
    """A kernel by the name that OPENBLAS_CORETYPE takes."""

    flags: frozenset[str]  # what the CPU must have, as Linux calls it
    reported: frozenset[str]  # the names by which builds report it


KERNELS = {
    "Haswell": Kernel(frozenset({"avx2", "fma"}), frozenset({"Haswell"})),
    # builds without kernels of its own take Haswell's, from which they are made
    "Zen": Kernel(frozenset({"avx2", "fma"}), frozenset({"Zen", "Haswell"})),
    "SkylakeX": Kernel(
        frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}), frozenset({"SkylakeX"})
    ),
    "Sandybridge": Kernel(frozenset({"avx"}), frozenset({"Sandybridge"})),
    # builds without kernels for Katmai give that name to the same table
    "Prescott": Kernel(frozenset({"pni"}), frozenset({"Prescott", "Katmai"})),
}


def cpu_flags() -> frozenset[str]:
    """What the CPU can do, according to Linux; nothing elsewhere and on other machines than x86."""
    path = Path("/proc/cpuinfo")
    if not path.exists() or platform.machine() not in ("x86_64", "AMD64"):
        return frozenset()
    lines = path.read_text(encoding="utf-8").splitlines()
    found = next((line for line in lines if line.startswith("flags")), ":")
    return frozenset(found.partition(":")[2].split())


def picked() -> dict[str, str]:
    """Return the architecture of each package's OpenBLAS."""
    builds = [each for each in threadpoolctl.threadpool_info() if each["internal_api"] == "openblas"]
    return {
        package: each["architecture"]
        for package in ("numpy", "scipy")
        for each in builds
        if f"/{package}.libs/" in Path(each["filepath"]).as_posix()
    }


def judge(wanted: str, flags: Collection[str], builds: Mapping[str, str]) -> tuple[str, bool]:
    """Return what to print, and whether the kernel asked for is there or cannot be here."""
    if wanted not in KERNELS:
        return f"unknown kernel {wanted}; choose from {', '.join(KERNELS)}", False
    kernel = KERNELS[wanted]
    if missing := sorted(kernel.flags - set(flags)):
        return f"left out: this CPU has no {', '.join(missing)}", True
    told = ", ".join(f"{package} {architecture}" for package, architecture in builds.items())
    is_there = len(builds) == 2 and all(name in kernel.reported for name in builds.values())
    return told or "no OpenBLAS of NumPy or SciPy found", is_there


def main(arguments: Sequence[str]) -> int:
    """Print the kernels of this process; 1 where they are not the one named."""
    told, is_right = judge(arguments[0], cpu_flags(), picked())
    print(told)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
