"""Every learner learns and predicts what it did when the digests were recorded.

Trees, forests, boosting, rules and counts are compared to the bit, and the array programs and the compiled
bodies must give the same: one digest is recorded for both. Entropies of C4.5, and the weights of AdaBoost,
go through the logarithms of the machine: where its library rounds another way, equal
gains can be told apart, and a digest can differ. The weights of ``tree/balanced`` are no whole numbers: its
counts may change by rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from arraylearn.backend.dispatch import is_numba_installed, use_compiled
from tests.digests.case import modes_of, run
from tests.digests.cases import CASES
from tests.digests.record import read

pytestmark = pytest.mark.digests

# (relative, absolute) differences of what is made of float sums. Support vector machines are solved to 1e-6
# (many rows: 1e-4) of their optimality conditions, which bounds the objective much closer than the rest.
TOLERANCES = {
    "objective": (1e-6, 1e-9),
    "support": (0.02, 2.0),
    "coefficients": (1e-3, 1e-6),
    "decision": (1e-3, 1e-2),
    "shares": (1e-3, 1e-2),
    "radius": (1e-5, 0.0),
    "joint": (1e-7, 1e-3),  # sums over all rows, in float32 for rows of float32
    "confusion": (0.0, 1.0),
    "error": (0.0, 0.02),
    "scores": (0.0, 0.05),
}
CLOSE = (1e-7, 1e-9)  # all others: moments, probabilities, importances


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return read()


RUNS = [
    pytest.param(case, mode, id=f"{case.name}-{mode}") for case in CASES.values() for mode in modes_of(case)
]


@pytest.mark.parametrize(("case", "mode"), RUNS)
def test_same_as_recorded(case: Any, mode: Any, expected: dict[str, Any]) -> None:
    if mode != "never" and not is_numba_installed():
        pytest.skip("Numba is not installed")
    with use_compiled(mode):
        found = {name: run(case, name) for name in case.sets}
    wrong = [
        f"{case.name}/{name}: {problem}"
        for name in case.sets
        for problem in differences(found[name], expected.get(f"{case.name}/{name}"))
    ]
    assert not wrong, "\n".join(wrong)


def test_nothing_else_is_recorded(expected: dict[str, Any]) -> None:
    assert set(expected) == {f"{case.name}/{name}" for case in CASES.values() for name in case.sets}


def differences(found: Any, wanted: Any) -> list[str]:
    """Say what differs."""
    if wanted is None:
        return ["not recorded"]
    if isinstance(found, str):
        pairs = zip(("model", "predictions"), found.split(), wanted.split(), strict=True)
        return [f"{what} {new}, recorded {old}" for what, new, old in pairs if new != old]
    if set(found) != set(wanted):
        return [f"has {sorted(found)}, recorded {sorted(wanted)}"]
    return [
        f"{name} {found[name]}, recorded {wanted[name]}"
        for name in found
        if not _is_same(name, found[name], wanted[name])
    ]


def _is_same(name: str, found: Any, wanted: Any) -> bool:
    if isinstance(found, str):
        return bool(found == wanted)
    relative, absolute = TOLERANCES.get(name, CLOSE)
    return len(found) == len(wanted) and bool(
        np.allclose(found, wanted, rtol=relative, atol=absolute, equal_nan=True)
    )
