"""Solvers of the dual problem; they know kernel matrices and bounds, and nothing of classes."""
