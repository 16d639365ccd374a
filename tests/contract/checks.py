"""scikit-learn's checks of an estimator, without those that never run here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

__all__ = ["over_checks"]


def over_checks(
    estimators: Sequence[Any], expected_failures: Callable[[Any], Mapping[str, str]] | None = None
) -> pytest.MarkDecorator:
    """Parametrize a test by ``estimator`` and ``check``.

    The checks of other array libraries are left out: they skip themselves unless SciPy is told to look at
    arrays, and the contract has its own on every rung.
    """
    mark = parametrize_with_checks(list(estimators), expected_failed_checks=expected_failures)
    names, cases = mark.args
    kept = [case for case in cases if not _check_name(case).startswith("check_array_api")]
    return pytest.mark.parametrize(names, kept, **mark.kwargs)


def _check_name(case: Any) -> str:
    _, check = getattr(case, "values", case)  # a case with marks has its values inside
    while hasattr(check, "func"):
        check = check.func
    name: str = check.__name__
    return name
