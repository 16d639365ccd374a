"""Random under- and over-sampling."""

from __future__ import annotations

from typing import Any

import numpy as np

from arraylearn.backend.random import RandomState, as_generator
from arraylearn.selection.resampling.strategy import Sampler, Strategy, target_counts
from arraylearn.table.subsets import take_rows

__all__ = ["RandomOverSampler", "RandomUnderSampler"]


class RandomUnderSampler(Sampler):
    """Drop random rows of the larger classes.

    Parameters
    ----------
    sampling_strategy : "auto", "majority", float or dict
        "auto": every class shrinks to the smallest; "majority": only the largest does. A number, for two
        classes: smaller over larger count afterwards. A dict: the count of each class named.
    replacement : bool
        Whether a row may be drawn twice.
    random_state : int, generator or None
        Seed; drawn on the host, so that every backend keeps the same rows.

    Attributes
    ----------
    sample_indices_ : int array
        Positions of the rows that were kept, ascending.

    Examples
    --------
    >>> import numpy as np, arraylearn as al
    >>> X, y = np.arange(6.0)[:, None], ["a", "a", "a", "a", "b", "b"]
    >>> X_new, y_new = al.resample.RandomUnderSampler(random_state=0).fit_resample(X, y)
    >>> list(y_new)
    ['a', 'a', 'b', 'b']
    """

    def __init__(
        self,
        *,
        sampling_strategy: Strategy = "auto",
        replacement: bool = False,
        random_state: RandomState = None,
    ) -> None:
        self.sampling_strategy = sampling_strategy
        self.replacement = replacement
        self.random_state = random_state

    def fit_resample(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return the rows and labels that stay, in their old order."""
        codes, classes, counts = self._encode(X, y)
        targets = target_counts(self.sampling_strategy, classes, counts, grow=False)
        rng = as_generator(self.random_state)
        keep = []
        for c, target in enumerate(targets):
            rows = (codes == c).nonzero()[0]
            keep += (
                rows.tolist()
                if target == counts[c] and not self.replacement
                else rng.choice(rows, target, replace=self.replacement).tolist()
            )
        self.sample_indices_ = np.asarray(sorted(keep))
        return take_rows(X, self.sample_indices_), take_rows(y, self.sample_indices_)


class RandomOverSampler(Sampler):
    """Repeat random rows of the smaller classes.

    Parameters
    ----------
    sampling_strategy : "auto", "minority", float or dict
        "auto": every class grows to the largest; "minority": only the smallest does. A number, for two
        classes: smaller over larger count afterwards. A dict: the count of each class named.
    random_state : int, generator or None
        Seed; drawn on the host, so that every backend repeats the same rows.

    Attributes
    ----------
    sample_indices_ : int array
        All rows in their order, then the repeated ones.

    Examples
    --------
    >>> import numpy as np, arraylearn as al
    >>> X, y = np.arange(6.0)[:, None], np.array([0, 0, 0, 0, 1, 1])
    >>> X_new, y_new = al.resample.RandomOverSampler(random_state=0).fit_resample(X, y)
    >>> np.bincount(y_new)
    array([4, 4])
    """

    def __init__(self, *, sampling_strategy: Strategy = "auto", random_state: RandomState = None) -> None:
        self.sampling_strategy = sampling_strategy
        self.random_state = random_state

    def fit_resample(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return all rows and labels, and the repeated ones after them."""
        codes, classes, counts = self._encode(X, y)
        targets = target_counts(self.sampling_strategy, classes, counts, grow=True)
        rng = as_generator(self.random_state)
        drawn = list(range(codes.shape[0]))
        for c, target in enumerate(targets):
            drawn += rng.choice((codes == c).nonzero()[0], target - counts[c]).tolist()
        self.sample_indices_ = np.asarray(drawn)
        return take_rows(X, self.sample_indices_), take_rows(y, self.sample_indices_)
