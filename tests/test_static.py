"""Rung 0: every ``xp.`` call of the package exists everywhere, fits the standard, and does not wait."""

from pathlib import Path

import arraylearn
from tests.backends import static_check


def test_every_call_of_the_namespace():
    assert static_check.check([Path(arraylearn.__file__).parent]) == []
