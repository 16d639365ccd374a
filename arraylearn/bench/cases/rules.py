"""Rule learners beside wittgenstein's RIPPER."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from arraylearn.bench.case import Learners, learner_case, shapes_of
from arraylearn.bench.data import Shape, interval_rules, nominal_rules
from arraylearn.bench.peers import load_peer
from arraylearn.rules import RipperClassifier, SequentialCoveringClassifier

__all__ = ["CASES"]


class _Wittgenstein:
    """RIPPER of wittgenstein in scikit-learn's manner: it takes a data frame and no classes but 0 and 1."""

    def fit(self, X: Any, y: Any) -> _Wittgenstein:
        self.model = load_peer("wittgenstein", "RIPPER")(random_state=1)
        self.model.fit(self._frame(X), y=y, pos_class=1)
        return self

    def predict(self, X: Any) -> Any:
        return load_peer("numpy", "asarray")(self.model.predict(self._frame(X))).astype(int)

    @staticmethod
    def _frame(X: Any) -> Any:
        frame = load_peer("pandas", "DataFrame")(X)
        frame.columns = [f"x{j}" for j in range(frame.shape[1])]
        # wittgenstein puts numbers of few values into bins unless they are text
        return frame.astype(str) if X.dtype.kind == "i" else frame


def _covering(gain: Literal["accuracy", "foil"], shape: Shape) -> SequentialCoveringClassifier:
    return SequentialCoveringClassifier(gain=gain)


_GAINS: tuple[Literal["accuracy", "foil"], ...] = ("accuracy", "foil")
_NOMINAL = shapes_of(1000, 5000, 20_000, 20)

CASES = [
    learner_case(
        "rules",
        "RIPPER, nominal",
        Learners(
            lambda shape: RipperClassifier(random_state=1, categorical_features=range(shape.n_columns)),
            {"wittgenstein": lambda shape, n_threads: _Wittgenstein()},
        ),
        bars=("nominal rules",),
        shapes=_NOMINAL,
        data=nominal_rules,
    ),
    learner_case(
        "rules",
        "RIPPER, numeric",
        # JRip's own build time
        Learners(lambda shape: RipperClassifier(random_state=1), {}, {"JRip": 34.7}),
        bars=("ripper",),
        shapes=shapes_of(2000, 20_000, 100_000, 20),
        data=interval_rules,
    ),
    learner_case(
        "rules",
        "covering by FOIL's gain, nominal",
        Learners(
            lambda shape: SequentialCoveringClassifier(
                gain="foil", categorical_features=range(shape.n_columns)
            ),
            {},
        ),
        bars=(),
        shapes=_NOMINAL,
        data=nominal_rules,
    ),
    *(
        learner_case(
            "rules",
            f"covering by {gain}, numeric",
            Learners(partial(_covering, gain), {}, {"3 s": 3.0}),
            bars=("covering",),
            shapes={"large": Shape(100_000, 20)},
            data=interval_rules,
        )
        for gain in _GAINS
    ),
]
