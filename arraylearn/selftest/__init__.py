"""The proof a user can run on their own machine: every kernel and estimator on a backend, beside NumPy."""

from arraylearn.selftest.run import Outcome, run_selftest

__all__ = ["Outcome", "run_selftest"]
