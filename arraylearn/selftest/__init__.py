"""Every kernel and estimator on a backend compared with NumPy: the test for a user's own machine."""

from arraylearn.selftest.against_numpy import Comparison, run_selftest

__all__ = ["Comparison", "run_selftest"]
