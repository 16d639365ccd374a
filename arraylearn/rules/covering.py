"""Sequential covering: rules for one class after the other, each grown on the rows not covered yet."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Literal

from arraylearn.checks import check_choice, check_integer, check_number
from arraylearn.rules.counts import Counts, Target, weigh
from arraylearn.rules.decide import CONFLICTS, Conflict
from arraylearn.rules.grow_rule import GrownRule, RuleGrowth, Shape, grow_rule
from arraylearn.rules.literals import (
    Candidates,
    LiveRows,
    all_rows,
    condense,
    prepare,
    restrict,
    satisfies_all,
    settle_thresholds,
)
from arraylearn.rules.rule import CodedRule, Conditions
from arraylearn.rules.rule_classifier import RuleClassifier, TrainingRows

__all__ = ["SequentialCoveringClassifier", "learn_covering"]

# Of each rule, for each value of the numeric columns.
_SECONDS_PER_VALUE = 3e-9


@dataclass(kw_only=True, eq=False, repr=False)
class SequentialCoveringClassifier(RuleClassifier):
    r"""Rules for one class after the other, each grown greedily on the rows not covered yet.

    A rule starts empty and takes the literal with the best gain until it covers no other class or no literal
    helps; the rows it covers are removed; the next rule follows until the class is covered or no rule is good
    enough. Every class starts from all rows, so that its rules hold by themselves. All values and
    thresholds of all attributes are scored in one pass.

    Parameters
    ----------
    gain : {"accuracy", "foil"}, default "accuracy"
        ``"accuracy"``: :math:`p / (p + n)` of the rule with the literal; ties go to coverage, then to the
        attribute with fewer values. ``"foil"``:
        :math:`p' (\log_2 \frac{p'}{p' + n'} - \log_2 \frac{p}{p + n})`, which weighs accuracy by coverage.
    conflict : {"first", "strictest", "vote"}, default "first"
        What decides where several rules fire: the first one, the one with most literals, or the majority.
    min_accuracy : float, default 0.5
        A rule of less accuracy ends the rules of its class.
    min_coverage : float, optional
        Least number of rows of its class that a rule covers; default: a thousandth of all rows, at least 1.
    max_literals, max_rules : int, optional
        Most literals of a rule, and most rules of a class.
    categorical_features : "from_dtype", None, or sequence of int, bool or str, default "from_dtype"
        Which columns are nominal. By default the string, categorical and boolean columns of a data frame, and
        none of an array of numbers. Where one has more than 16 categories, or more than 8 with fewer than 5
        rows for each, those of too few rows to learn from count as missing.
    verbose : int
        1: a progress bar of the rules.
    backend : str, optional
        Where to compute, for example ``"cupy"``; default: where the data is.

    Attributes
    ----------
    rules_ : tuple of Rule
        In the order in which they were learned; empty if none was good enough.
    default_ : label
        The class where no rule fires: the most frequent one of the training rows that none covers.
    coverage_, accuracy_ : array (r,)
        Weight of the training rows that each rule decides, and the share of its class among them.
    classes_ : array (k,)
        Class labels, sorted.
    schema_ : Schema
        The columns.

    Warns
    -----
    LongRunWarning
        Where learning will take two minutes or more, by a rough estimate.

    Notes
    -----
    A missing value meets no literal. A factor that all sample weights share changes nothing, a row of weight
    0 is left out, and `min_coverage` counts rows, whatever they weigh.

    Rules are not pruned: noise, and borders that are not parallel to the axes, give very many of them, each
    for a few rows, the more so with ``gain="accuracy"``. `min_coverage` bounds their number;
    `RipperClassifier` does better there.

    References
    ----------
    J. Cendrowska, "PRISM: an algorithm for inducing modular rules", Int. J. Man-Machine Studies 27, 1987;
    J. R. Quinlan, "Learning logical definitions from relations", Machine Learning 5, 1990.

    Examples
    --------
    >>> import arraylearn as al
    >>> people = al.datasets.load_people()
    >>> clf = al.SequentialCoveringClassifier().fit(people.X, people.y)
    >>> print(clf.to_text())
    x1 = Red -> C1                  # 1 rows, 0 wrong
    x1 = Blonde and x2 = Blue -> C1 # 2 rows, 0 wrong
    x2 = Brown -> C2                # 3 rows, 0 wrong
    x1 = Dark -> C2                 # 2 rows, 0 wrong
    otherwise -> C2
    """

    _leaves_out_rare: ClassVar[bool] = True

    gain: Literal["accuracy", "foil"] = "accuracy"
    conflict: Conflict = "first"
    min_accuracy: float = 0.5
    min_coverage: float | None = None
    max_literals: int | None = None
    max_rules: int | None = None
    categorical_features: Any = "from_dtype"
    verbose: int = 0
    backend: str | None = None

    def _check_parameters(self) -> None:
        check_choice("gain", self.gain, ("accuracy", "foil"))
        check_choice("conflict", self.conflict, CONFLICTS)
        check_number("min_accuracy", self.min_accuracy, 0)
        check_number("min_coverage", self.min_coverage, 0, optional=True)
        check_integer("max_literals", self.max_literals, 1, optional=True)
        check_integer("max_rules", self.max_rules, 1, optional=True)

    def _least(self, rows: TrainingRows) -> float:
        """Return the least number of rows of its class that a rule covers."""
        return 0.001 * rows.table.n_rows if self.min_coverage is None else self.min_coverage

    def _seconds(self, rows: TrainingRows) -> float:
        # as many rules as cover all rows, each with twice the least coverage
        n_rules = min(rows.table.n_rows / (2 * max(1.0, self._least(rows))), self.max_rules or math.inf)
        return _SECONDS_PER_VALUE * rows.n_numbers * n_rules * len(rows.class_weights)

    def _learn(self, rows: TrainingRows, X: Any, y: Any, sample_weight: Any) -> tuple[list[CodedRule], None]:
        growth = RuleGrowth(
            self.gain,
            must_gain=self.gain == "foil",
            least=self._least(rows),
            max_literals=self.max_literals,
        )
        return learn_covering(rows, growth, self.min_accuracy, self.max_rules), None


def learn_covering(
    rows: TrainingRows, growth: RuleGrowth, min_accuracy: float, max_rules: int | None
) -> list[CodedRule]:
    """Learn rules for every class, in the order of the classes.

    For each class, rules are grown on all rows: the next rule shall cover rows of the class that none of its
    rules covers yet, and avoid all other rows. A rule is kept if its accuracy is above that of the empty rule
    and at least `min_accuracy`; no class has more than `max_rules` of them.
    """
    candidates = prepare(rows.place, rows.table)
    rules: list[CodedRule] = []
    for code, class_weight in enumerate(rows.class_weights):
        if class_weight <= 0 or class_weight == sum(rows.class_weights):
            continue
        covering = _cover_class(candidates, rows.target(code), growth, min_accuracy)
        for conditions in islice(covering, max_rules):
            rules.append((conditions, code))
            rows.report()
    return settle_thresholds(candidates, rules)


def _cover_class(
    candidates: Candidates, target: Target, growth: RuleGrowth, min_accuracy: float
) -> Iterator[Conditions]:
    """Learn the rules of a class."""
    live = all_rows(candidates, target)
    counts, _ = weigh(candidates.place.xp, target, [live.is_live])[0]
    share = counts.accuracy
    before: dict[Shape, LiveRows] = {}
    while True:
        grown = grow_rule(live, growth, counts=counts, before=before)
        before = grown.left
        conditions, accuracy = _shortest(grown)
        if not conditions or accuracy <= share or accuracy < min_accuracy:
            return
        yield conditions
        keep = ~satisfies_all(live.candidates, conditions)
        if target.weights is None:  # the counts are known
            gone = grown.counts[len(conditions) - 1]
            counts = left = Counts(counts.positive - gone.positive, counts.covered - gone.covered)
        else:
            counts, left = weigh(candidates.place.xp, live.target, [live.is_live & keep])[0]
        live = restrict(live, keep, int(left.covered))
        if 2 * live.size < live.candidates.n_rows:
            live = condense(live)


def _shortest(grown: GrownRule) -> tuple[Conditions, float]:
    """Cut off the last literals that did not raise the accuracy, and return the accuracy."""
    if not grown.counts:
        return (), 0.0
    accuracy = [counts.accuracy for counts in grown.counts]
    best = max(accuracy)
    length = next(i for i, value in enumerate(accuracy) if value >= best - 1e-12) + 1
    return grown.conditions[:length], best
