"""What each job should reach: the peer's time / ours, the geometric mean over the job's cases."""

from __future__ import annotations

from typing import NamedTuple

from arraylearn.bench.case import SIZES, Size

__all__ = ["BARS", "Against", "Bar"]


class Against(NamedTuple):
    """A bar beside the fastest of some peers."""

    peers: tuple[str, ...]
    least: float  # peer's time / ours
    goal: float


class Bar(NamedTuple):
    """What a job should reach."""

    job: str
    against: tuple[Against, ...]
    sizes: tuple[Size, ...] = SIZES  # for which it was set


_TREE = ("scikit-learn",)
_BOOSTING = ("lightgbm", "xgboost", "scikit-learn")
_LARGER: tuple[Size, ...] = ("medium", "large")

BARS: dict[str, Bar] = {
    "exact tree": Bar("exact tree, numeric, 2-3 classes", (Against(_TREE, 7, 12),)),
    "exact tree, hard": Bar("exact tree, 10 classes or few distinct values", (Against(_TREE, 2, 6),)),
    "binned tree": Bar("binned tree, depth 8, 100k rows and more", (Against(_TREE, 20, 50),), _LARGER),
    "forest": Bar("random forest, 100 trees", (Against(_TREE, 2.5, 6),)),
    "boosting": Bar("gradient boosting, depth 6, 100k rows and more", (Against(_BOOSTING, 1.0, 1.5),)),
    "boosting, few rows": Bar("gradient boosting, depth 6, 10k rows", (Against(_BOOSTING, 0.8, 1.2),)),
    "boosted prediction": Bar("prediction, 100 trees of depth 6", (Against(_BOOSTING, 1.3, 3),)),
    "forest prediction": Bar("prediction, forest of 100 full trees", (Against(_TREE, 1, 3),)),
    "tree prediction": Bar("prediction, one full tree", (Against(_TREE, 1, 3),)),
    "gaussian machine": Bar(
        "SVC gaussian, 5k-20k rows, C 0.1-10",
        (Against(("libsvm",), 1.8, 4), Against(("onedal",), 1.2, 2)),
        _LARGER,
    ),
    "linear machine": Bar("SVC linear", (Against(("libsvm",), 10, 50), Against(("onedal",), 10, 50))),
    "decision function": Bar(
        "SVC decision function, 100k queries",
        (Against(("libsvm",), 5, 15), Against(("onedal",), 1, 2)),
        _LARGER,
    ),
    "machine search": Bar("SVC search: folds x C, 2k-10k rows", (Against(("libsvm",), 3, 20),), _LARGER),
    "bayes": Bar(
        "naive and full Bayes, fit + predict, 1M rows", (Against(("scikit-learn",), 3, 10),), ("large",)
    ),
    "kernel": Bar(
        "gram matrix, log density: time of a bare matmul / ours", (Against(("matmul",), 0.5, 1 / 1.3),)
    ),
    "histogram": Bar("class histogram: time of bare bincounts / ours", (Against(("bincount",), 1 / 1.5, 1),)),
    "rules": Bar("RIPPER", (Against(("wittgenstein",), 20, 20),)),
}
