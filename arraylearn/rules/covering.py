"""Sequential covering: rules for one class after the other, each grown on the rows not covered yet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Literal

from arraylearn._typing import Array
from arraylearn.checks import check_choice, check_integer, check_number
from arraylearn.rules.decide import CONFLICTS, Conflict
from arraylearn.rules.find_literal import GAINS
from arraylearn.rules.grow_rule import (
    GrownRule,
    LiveRows,
    RuleGrowth,
    all_rows_in_blocks,
    grow_rule,
    lay_out_again,
    restrict,
)
from arraylearn.rules.literals import (
    Candidates,
    Counts,
    Target,
    prepare,
    satisfies_all,
    settle_thresholds,
    weigh,
)
from arraylearn.rules.row_blocks import lay_out
from arraylearn.rules.rule import CodedRule, Conditions
from arraylearn.rules.rule_classifier import RuleClassifier, TrainingRows, default_class

__all__ = ["SequentialCoveringClassifier", "learn_covering"]


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
        none of an array of numbers. Where one has more than 16 categories, those of too few rows to learn
        from count as missing.
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

    def _learn(self, rows: TrainingRows, X: Any, y: Any, sample_weight: Any) -> tuple[list[CodedRule], int]:
        least = self.min_coverage
        growth = RuleGrowth(
            GAINS[self.gain],
            must_gain=self.gain == "foil",
            least=0.001 * rows.table.n_rows if least is None else least,
            max_literals=self.max_literals,
        )
        return learn_covering(rows, growth, self.min_accuracy, self.max_rules)


def learn_covering(
    rows: TrainingRows, growth: RuleGrowth, min_accuracy: float, max_rules: int | None
) -> tuple[list[CodedRule], int]:
    """Learn rules for every class, in the order of the classes.

    For each class, rules are grown on all rows: the next rule shall cover rows of the class that none of its
    rules covers yet, and avoid all other rows. A rule is kept if its accuracy is above that of the empty rule
    and at least `min_accuracy`; no class has more than `max_rules` of them.

    Returns
    -------
    rules : list of (conditions, class)
        In the order in which they were learned.
    default : int
        The most frequent class of the rows that no rule covers; of all rows, where there are none.
    """
    (xp, device), class_weights = rows.place, rows.class_weights
    candidates = prepare(rows.place, rows.table)
    layout = lay_out(candidates, candidates.lists)
    rules: list[CodedRule] = []
    is_covered = xp.zeros((candidates.n_rows,), dtype=xp.bool, device=device)
    for code, class_weight in enumerate(class_weights):
        if class_weight <= 0 or class_weight == sum(class_weights):
            continue
        target = rows.target(code)
        live = all_rows_in_blocks(candidates, layout, target)
        covering = _cover_class(candidates, live, target, growth, min_accuracy)
        for conditions, mask in islice(covering, max_rules or candidates.n_rows):
            rules.append((conditions, code))
            is_covered = is_covered | mask
            rows.report()
    return settle_thresholds(candidates, rules), default_class(rows, is_covered)


def _cover_class(
    candidates: Candidates, live: LiveRows, target: Target, growth: RuleGrowth, min_accuracy: float
) -> Iterator[tuple[Conditions, Array]]:
    """Learn the rules of a class, and which rows (n,) each of them matches."""
    xp = candidates.place.xp
    counts, _ = weigh(xp, target, [live.is_live])[0]
    share = counts.accuracy
    while True:
        grown = grow_rule(candidates, live, target, growth, counts=counts)
        conditions, accuracy = _shortest(grown)
        if not conditions or accuracy <= share or accuracy < min_accuracy:
            return
        mask = satisfies_all(candidates, conditions)
        yield conditions, mask
        if target.weights is None:  # the counts are known
            gone = grown.counts[len(conditions) - 1]
            counts = left = Counts(counts.positive - gone.positive, counts.covered - gone.covered)
        else:
            counts, left = weigh(xp, target, [live.is_live & ~mask])[0]
        live = lay_out_again(candidates, restrict(candidates, live, ~mask, int(left.covered)))


def _shortest(grown: GrownRule) -> tuple[Conditions, float]:
    """Cut off the last literals that did not raise the accuracy, and return the accuracy."""
    if not grown.counts:
        return (), 0.0
    accuracy = [counts.accuracy for counts in grown.counts]
    best = max(accuracy)
    length = next(i for i, value in enumerate(accuracy) if value >= best - 1e-12) + 1
    return grown.conditions[:length], best
