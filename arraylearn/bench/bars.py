"""What each job should reach: the peer's time / ours, the geometric mean over the job's cases."""

from __future__ import annotations

from typing import NamedTuple

from arraylearn.bench.case import SIZES, Size

__all__ = ["BARS", "Against", "Bar"]


class Against(NamedTuple):
    """A bar beside the fastest of some peers."""

    peers: tuple[str, ...]
    least: float  # peer's time / ours


class Bar(NamedTuple):
    """What a job should reach. Second threads and memory are judged from 100,000 rows on."""

    job: str
    against: tuple[Against, ...]
    sizes: tuple[Size, ...] = SIZES  # that it judges
    is_each: bool = False  # whether every case should reach it, rather than their mean
    enough: float = 0.0  # seconds in which a case reaches it, whatever the peer takes
    second: float | None = None  # our time with one thread / with two
    memory: float | None = None  # bytes of the input / those allocated in a fit, the model's included


def _over(peers: str, least: float) -> Against:
    return Against(tuple(peers.split(" or ")), least)


_SKLEARN, _BOOSTING = "scikit-learn", "lightgbm or xgboost or scikit-learn"
_LARGER: tuple[Size, ...] = ("medium", "large")

BARS: dict[str, Bar] = {
    "exact tree": Bar("exact tree, 2-3 classes", (_over(_SKLEARN, 15),), second=1.7, memory=1 / 4),
    "hard tree": Bar("exact tree, 10 classes or 16 values", (_over(_SKLEARN, 10),)),
    "binned tree": Bar(
        "binned tree, depth 8", (_over(_SKLEARN, 60),), sizes=_LARGER, second=1.7, memory=1 / 2
    ),
    "tree prediction": Bar("prediction, one full tree", (_over(_SKLEARN, 2.5),)),
    "criteria": Bar("other criteria, each, beside Gini", (_over("gini", 1 / 2.5),), is_each=True),
    "c45": Bar("c45(), 100k mixed rows", (_over("J48", 5),), sizes=("large",)),
    "forest": Bar("random forest", (_over(_SKLEARN, 6),), second=1.7, memory=1 / 2),
    "extra trees": Bar("extremely randomized trees", (_over(_SKLEARN, 3),)),
    "forest prediction": Bar("prediction, 100 full trees", (_over(_SKLEARN, 4),)),
    "boosting": Bar("gradient boosting, depth 6", (_over(_BOOSTING, 2),), second=1.7, memory=1 / 2),
    "nominal boosting": Bar(
        "gradient boosting, half of the columns nominal, each",
        (_over("lightgbm or xgboost", 1),),
        is_each=True,
    ),
    "boosted prediction": Bar("prediction, 100 trees of depth 6", (_over(_BOOSTING, 5),)),
    "gaussian machine": Bar(
        "SVC gaussian, 5k-20k rows", (_over("libsvm", 3), _over("onedal", 2.5)), sizes=_LARGER
    ),
    "steep machine": Bar("SVC gaussian, C = 10", (_over("libsvm", 2.5),), sizes=_LARGER),
    "many classes": Bar("SVC, 10-26 classes", (_over("libsvm", 1.5),)),
    "linear machine": Bar("SVC linear", (_over("libsvm", 30), _over("onedal", 30))),
    "decision function": Bar("SVC decision function", (_over("libsvm", 12), _over("onedal", 1.3))),
    "machine search": Bar("SVC search, folds x C", (_over("libsvm", 6),)),
    "bayes": Bar("naive, full Bayes, 10k rows", (_over(_SKLEARN, 3),), sizes=("small",)),
    "large bayes": Bar("naive, full Bayes, 1M rows", (_over(_SKLEARN, 6),), sizes=("large",), second=1.5),
    "nominal rules": Bar("RIPPER, nominal", (_over("wittgenstein", 20),)),
    "ripper": Bar("RIPPER, 100k rows", (_over("JRip", 10),), sizes=("large",)),
    "covering": Bar("covering, 100k rows, each", (_over("3 s", 1),), sizes=("large",), is_each=True),
    "gram matrix": Bar("gram matrix", (_over("matmul", 0.7),)),
    "log density": Bar("log density", (_over("matmul", 0.7),), second=1.5),
    "histogram": Bar("class histogram", (_over("bincount", 1.2),)),
    "few rows": Bar(
        "iris, wine, breast cancer, digits, each", (_over(_SKLEARN, 1),), is_each=True, enough=3e-3
    ),
    "one row": Bar("one row, each", (_over(_SKLEARN, 1), _over("150 us", 1)), is_each=True),
    "torch input": Bar("tensors of torch on the CPU, each", (_over("numpy", 1 / 1.3),), is_each=True),
    "first fit": Bar("first fit, nothing compiled, each", (_over("5 s", 1),), is_each=True),
}
