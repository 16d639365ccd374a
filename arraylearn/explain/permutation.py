"""Permutation importance: how much worse a fitted classifier gets when a column is shuffled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import get_scorer

from arraylearn._typing import HostArray
from arraylearn.backend.namespace import HOST, from_host, is_array, locate, to_host
from arraylearn.backend.random import RandomState, as_generator
from arraylearn.backend.threads import limited_threads
from arraylearn.checks import check_integer
from arraylearn.folds import Answers
from arraylearn.table.frames import as_frame
from arraylearn.weights import read_weights

__all__ = ["Importances", "permutation_importance"]


class Importances(NamedTuple):
    """Decreases of the score by shuffling each column, on the host."""

    importances_mean: HostArray  # (d,)
    importances_std: HostArray  # (d,)
    importances: HostArray  # (d, repeats)


def permutation_importance(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    n_repeats: int = 5,
    sample_weight: Any = None,
    scoring: str | Callable[..., float] | None = None,
    n_jobs: int | None = None,
    random_state: RandomState = None,
) -> Importances:
    r"""Judge each column by what the score of a fitted classifier loses when the column is shuffled.

    .. math:: i_{jr} = s - s_{jr},

    where s is the score on the rows, and :math:`s_{jr}` the score on the rows with column j in the order of
    the r-th permutation. On rows that the classifier was not trained on, a column that it does not need has
    the mean importance 0.

    Parameters
    ----------
    estimator : classifier
        Fitted; any that has `predict` (or that `scoring` takes).
    X : array of any library, data frame or list of lists (n, d)
        Rows.
    y : array-like (n,)
        Their true classes.
    n_repeats : int
        Permutations of each column.
    sample_weight : array-like (n,), optional
        Weights of the rows in the score.
    scoring : str or callable (estimator, X, y) -> float, optional
        The score, the higher the better: the name of a metric of scikit-learn, or a function, which takes
        `sample_weight` where that is given; by default the accuracy.
    n_jobs : int, optional
        Threads of the predictions: a number, or -1 for all; None: `set_num_threads`.
    random_state : int, Generator, optional
        Seed of the permutations, which are the same on every backend.

    Returns
    -------
    Importances
        ``importances_mean`` and ``importances_std`` (d,), and all ``importances`` (d, n_repeats).

    References
    ----------
    L. Breiman, "Random forests", 2001.

    Examples
    --------
    >>> import numpy as np
    >>> import arraylearn as al
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> y = X[:, 1] > 0
    >>> tree = al.DecisionTreeClassifier().fit(X, y)
    >>> al.permutation_importance(tree, X, y, random_state=0).importances_mean.round(1).tolist()
    [0.0, 0.5, 0.0]
    """
    check_integer("n_repeats", n_repeats, 1)
    truth = to_host(y) if is_array(y) else np.asarray(y)
    n_rows = int(truth.shape[0])
    weights = read_weights(sample_weight, n_rows, HOST)

    given = {} if weights is None else {"sample_weight": weights}

    def score(X: Any) -> float:
        if callable(scoring):
            return float(scoring(estimator, X, y, **given))
        answers = Answers.of(estimator, X)
        if scoring is None:
            return float(np.average(answers.answer("predict") == truth, weights=weights))
        return float(get_scorer(scoring)(answers, truth, truth, **given))

    table = _Shuffler(X)
    if table.n_rows != n_rows:
        raise ValueError(f"`y` must have one class per row; got {n_rows} for {table.n_rows} rows of `X`.")
    generator = as_generator(random_state)
    orders = [generator.permutation(n_rows) for _ in range(n_repeats)]
    with limited_threads(n_jobs):
        base = score(X)
        losses = [
            [base - score(shuffled) for shuffled in table.shuffle(j, orders)] for j in range(table.n_columns)
        ]
    importances = np.asarray(losses, dtype=np.float64).reshape(table.n_columns, n_repeats)
    return Importances(importances.mean(axis=1), importances.std(axis=1), importances)


class _Shuffler:
    """Rows of any kind, of which one column after the other is put into another order."""

    def __init__(self, X: Any) -> None:
        self.frame = None if is_array(X) else as_frame(X)
        if self.frame is None:
            X = X if is_array(X) else np.asarray(X)
            self.place = locate(X)
            self.rows = self.place.xp.asarray(X, copy=True)
        self.n_rows, self.n_columns = self.rows.shape if self.frame is None else self.frame.shape

    def shuffle(self, j: int, orders: list[HostArray]) -> Iterator[Any]:
        """Yield the rows with column j in each of the orders, in one array that is written anew each time."""
        if self.frame is not None:
            column = self.frame[:, j]
            for order in orders:
                yield self.frame.with_columns(column[order]).to_native()
            return
        xp, column = self.place.xp, self.place.xp.asarray(self.rows[:, j], copy=True)
        for order in orders:
            self.rows[:, j] = xp.take(column, from_host(order, self.place, xp.int64), axis=0)
            yield self.rows
        self.rows[:, j] = column
