"""Bodies of the primitives of `backend.arrays` for torch and CuPy, under the same names."""
