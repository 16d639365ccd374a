"""`python -m tests.backends.cupy_on_cpu`: show and check the build, which importing the package has made."""

import cupy

from . import build

print("build:", build.ensure_built())
print("CuPy", cupy.__version__, "on", cupy.cuda.runtime.getDeviceProperties(0)["name"].decode())
print("self-check: 1 + 2 + 3 =", int(cupy.sum(cupy.asarray([1, 2, 3]))))
