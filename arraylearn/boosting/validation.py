"""Rows that decide when boosting stops: how they are chosen, and how their scores are judged."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import get_scorer

from arraylearn._typing import Array, HostArray
from arraylearn.backend.namespace import Place, from_host, to_host
from arraylearn.boosting.log_loss import mean_log_loss
from arraylearn.boosting.rounds import Holdout
from arraylearn.boosting.staged import StagedClassifier
from arraylearn.checks import refuse
from arraylearn.estimator import Batch
from arraylearn.table.subsets import count_rows

__all__ = ["Held", "Part", "check_given", "judge_rows", "share_rows", "take_part"]


class Part(NamedTuple):
    """Binned rows, for growing trees or for judging them."""

    bins: Array  # (d, n)
    codes: Array  # (n,) int64
    weights: Array | None  # (n,) float32 in [0, 1]
    scores: Array  # (k, n) int32: before the first round


class Held(NamedTuple):
    """Rows that decide when to stop, and how a scorer gets them."""

    part: Part
    rows: Any  # the same rows in the user's kind of table, for a scorer
    batch: Batch  # of these or of all rows; it knows where results go


def take_part(place: Place, part: Part, rows: HostArray) -> Part:
    """Return some of the rows."""
    xp, idx = place.xp, from_host(rows, place, place.xp.int64)
    return Part(
        xp.take(part.bins, idx, axis=1),
        xp.take(part.codes, idx, axis=0),
        None if part.weights is None else xp.take(part.weights, idx, axis=0),
        xp.take(part.scores, idx, axis=1),
    )


def check_given(early_stopping: bool, X: Any, y: Any) -> None:
    """Raise for rows for validation that nothing would use."""
    if X is None or y is None:
        raise refuse("X_val` and `y_val", "must be given together", "one of them")
    if not early_stopping:
        raise ValueError("`early_stopping` must be True where `X_val` and `y_val` are given; got False.")
    if count_rows(X) != count_rows(y):
        raise refuse(
            "y_val", f"must have a label for each of the {count_rows(X)} rows of `X_val`", count_rows(y)
        )


def share_rows(
    codes: HostArray, n_classes: int, share: float, generator: np.random.Generator
) -> tuple[HostArray, HostArray]:
    """Draw the rows to hold out, class by class; return the kept rows and the held-out ones."""
    is_held = np.zeros(codes.shape[0], dtype=np.bool)
    for code in range(n_classes):
        rows = generator.permutation((codes == code).nonzero()[0])
        n_held = round(share * rows.shape[0])
        is_held[rows[: max(n_held, 1) if rows.shape[0] > 1 else 0]] = True
    present = set(codes[is_held].tolist())
    if len(present) < min(n_classes, 2):
        raise ValueError(
            "The validation part must hold at least two classes; of "
            f"{codes.shape[0]} rows it got {len(present)} of {n_classes} classes. "
            "Give more rows of each class, or use early_stopping=False."
        )
    return (~is_held).nonzero()[0], is_held.nonzero()[0]


def judge_rows(model: StagedClassifier, held: Held, start: Array) -> Holdout:
    """Let the log loss, or the scorer of `model`, judge held-out rows; their scores begin at `start`."""
    (bins, codes, weights, scores), rows, batch = held
    first = scores + start[:, None]
    if model.scoring == "loss":
        place = batch.place
        return Holdout(bins, first, lambda found: mean_log_loss(place, found, codes, weights))
    scoring = "accuracy" if model.scoring is None else model.scoring
    scorer = get_scorer(scoring) if isinstance(scoring, str) else scoring
    labels = model.classes_.take(to_host(codes))
    weighted = {} if weights is None else {"sample_weight": to_host(weights)}

    def judge(found: Array) -> float:
        return -float(scorer(model.answer(found, batch), rows, labels, **weighted))

    return Holdout(bins, first, judge)
