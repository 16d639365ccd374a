"""The session that runs under chosen kernels of OpenBLAS knows which one it got."""

import pytest

from tests.backends import blas_kernel

ALL = {"pni", "avx", "avx2", "fma", "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


@pytest.mark.parametrize(
    ("wanted", "flags", "builds", "told", "is_right"),
    [
        ("Haswell", ALL, ("Haswell", "Haswell"), "numpy Haswell, scipy Haswell", True),
        ("Haswell", ALL, ("Haswell", "SkylakeX"), "numpy Haswell, scipy SkylakeX", False),
        ("Zen", ALL, ("Zen", "Haswell"), "numpy Zen, scipy Haswell", True),
        ("Prescott", ALL, ("Katmai", "Prescott"), "numpy Katmai, scipy Prescott", True),
        ("SkylakeX", {"avx2", "fma"}, ("Haswell", "Haswell"), "left out: this CPU has no avx512bw", True),
        ("Sandybridge", ALL, (), "no OpenBLAS", False),
        ("Sandybridge", ALL, ("Sandybridge",), "numpy Sandybridge", False),
        ("Hasvell", ALL, ("SkylakeX", "SkylakeX"), "unknown kernel Hasvell", False),
    ],
)
def test_judgement(wanted, flags, builds, told, is_right):
    found = blas_kernel.judge(wanted, flags, dict(zip(("numpy", "scipy"), builds, strict=False)))
    assert found[0].startswith(told)
    assert found[1] == is_right
