"""Numba as the bodies for CPUs use it: how functions are compiled and kept, and how threads share loops."""
