"""A CUDA driver and compiler on the CPU: what the emulated CuPy and torch's fake device run kernels with."""
