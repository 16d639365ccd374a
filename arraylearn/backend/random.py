"""Random numbers are drawn on the host, so that the same seed gives the same numbers on every backend."""

from __future__ import annotations

import numpy as np
from sklearn.utils import check_random_state

from arraylearn._typing import Array
from arraylearn.backend.namespace import Place, from_host

__all__ = ["RandomState", "as_generator", "permutation", "spawn"]

RandomState = int | np.random.Generator | np.random.RandomState | None


def as_generator(random_state: RandomState) -> np.random.Generator:
    """Turn what users pass as ``random_state`` into a NumPy generator."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None or isinstance(random_state, int | np.integer):
        return np.random.default_rng(random_state)
    legacy = check_random_state(random_state)  # raises scikit-learn's own message for anything else
    return np.random.default_rng(legacy.randint(0, 2**31 - 1, size=4))


def spawn(random_state: RandomState, n: int) -> list[np.random.Generator]:
    """Make `n` independent generators; the first m are the same whatever `n` >= m is."""
    seed = int(as_generator(random_state).integers(2**63 - 1))
    return [np.random.default_rng([seed, index]) for index in range(n)]


def permutation(place: Place, rng: np.random.Generator, n: int) -> Array:
    """Draw an order of ``range(n)`` and bring it to `place` as int64."""
    return from_host(rng.permutation(n).astype(np.int64), place)
