"""CUDA C on the arrays and the stream of a library."""
