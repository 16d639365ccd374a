"""The classifiers that learn rules: sequential covering and RIPPER."""

from __future__ import annotations

from typing import Any, Literal

from arraylearn.backend.random import as_generator
from arraylearn.checks import check_choice, check_integer, check_number
from arraylearn.rules.base import RuleClassifier
from arraylearn.rules.covering import CoveringSettings, learn_covering
from arraylearn.rules.literals.gains import GAINS
from arraylearn.rules.resolve import CONFLICTS, Conflict
from arraylearn.rules.ripper.learn import RipperSettings, learn_ripper
from arraylearn.rules.rule import CodedRule
from arraylearn.rules.training_rows import TrainingRows

__all__ = ["RipperClassifier", "SequentialCoveringClassifier"]


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
        Least weight of rows of its class that a rule covers; default: a thousandth of the weight of all rows,
        at least 1.
    max_literals, max_rules : int, optional
        Most literals of a rule, and most rules of a class.
    categorical_features : "from_dtype", None, or sequence of int, bool or str, default "from_dtype"
        Which columns are nominal. By default the string, categorical and boolean columns of a data frame, and
        none of an array of numbers.
    backend : str, optional
        Where to compute, for example ``"cupy"``; default: where the data is.

    Attributes
    ----------
    rules_ : tuple of Rule
        In the order in which they were learned; empty if none was good enough.
    default_ : label
        The class where no rule fires: the most frequent one of the training rows that none covers.
    coverage_, accuracy_ : list of float
        Weight of the training rows that each rule decides, and the share of its class among them.
    classes_ : array (k,)
        Class labels, sorted.
    schema_ : Schema
        The columns.

    Notes
    -----
    A missing value meets no literal. Rules are not pruned: noise, and borders that are not parallel to the
    axes, give very many of them, each for a few rows, the more so with ``gain="accuracy"``. `min_coverage`
    bounds their number; `RipperClassifier` does better there.

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

    def __init__(
        self,
        *,
        gain: Literal["accuracy", "foil"] = "accuracy",
        conflict: Conflict = "first",
        min_accuracy: float = 0.5,
        min_coverage: float | None = None,
        max_literals: int | None = None,
        max_rules: int | None = None,
        categorical_features: Any = "from_dtype",
        backend: str | None = None,
    ) -> None:
        self.gain = gain
        self.conflict = conflict
        self.min_accuracy = min_accuracy
        self.min_coverage = min_coverage
        self.max_literals = max_literals
        self.max_rules = max_rules
        self.categorical_features = categorical_features
        self.backend = backend

    def _check_parameters(self) -> None:
        check_choice("gain", self.gain, ("accuracy", "foil"))
        check_choice("conflict", self.conflict, CONFLICTS)
        check_number("min_accuracy", self.min_accuracy, 0)
        check_number("min_coverage", self.min_coverage, 0, optional=True)
        check_integer("max_literals", self.max_literals, 1, optional=True)
        check_integer("max_rules", self.max_rules, 1, optional=True)

    def _learn(self, rows: TrainingRows, X: Any, y: Any, sample_weight: Any) -> tuple[list[CodedRule], int]:
        settings = CoveringSettings(
            GAINS[self.gain],
            must_gain=self.gain == "foil",
            min_accuracy=self.min_accuracy,
            min_coverage=max(1.0, 0.001 * sum(rows.class_weights))
            if self.min_coverage is None
            else self.min_coverage,
            max_literals=self.max_literals,
            max_rules=self.max_rules,
        )
        return learn_covering(rows, settings)


class RipperClassifier(RuleClassifier):
    r"""RIPPER: rules grown, pruned at once on rows held back, and revised by description length.

    Classes are learned from the rarest up, each against those still to come; the most frequent one is the
    default. A rule grows by FOIL's gain on two thirds of the rows and is cut to the prefix with the largest
    :math:`(p - n) / (p + n + 2 s)` on the others. Rules are added until the description length is 64 bits
    above its minimum or a rule is wrong half of the time. Then each rule competes, `rounds` times, with a
    replacement grown from the empty rule and a revision grown from itself; rules that do not save bits are
    deleted.

    Parameters
    ----------
    rounds : int, default 2
        Rounds of optimization.
    folds : int, default 3
        One of so many parts of the rows is held back for pruning.
    min_weight : float, default 2.0
        A rule does not grow to cover less weight of rows of its class.
    smoothing : float, default 1.0
        The :math:`s` above; 0 is Cohen's :math:`(p - n) / (p + n)`, 1 is what Weka's JRip does.
    random_state : int, Generator, RandomState or None
        Draws the rows that are held back, on the host: the same for every backend.
    categorical_features : "from_dtype", None, or sequence of int, bool or str, default "from_dtype"
        Which columns are nominal. By default the string, categorical and boolean columns of a data frame, and
        none of an array of numbers.
    backend : str, optional
        Where to compute, for example ``"cupy"``; default: where the data is.

    Attributes
    ----------
    rules_ : tuple of Rule
        The first that matches decides; empty if no rule saves bits: then every row gets the default.
    default_ : label
        The most frequent class.
    coverage_, accuracy_ : list of float
        Weight of the training rows that each rule decides, and the share of its class among them.
    classes_ : array (k,)
        Class labels, sorted.
    schema_ : Schema
        The columns.

    Notes
    -----
    A missing value meets no literal. Thresholds are searched exactly, among all neighbouring values of the
    rows that a rule covers.

    References
    ----------
    W. W. Cohen, "Fast effective rule induction", ICML 1995;
    J. Fürnkranz, G. Widmer, "Incremental reduced error pruning", ICML 1994.

    Examples
    --------
    >>> import arraylearn as al
    >>> iris = al.datasets.load_iris()
    >>> clf = al.RipperClassifier(random_state=0).fit(iris.X, iris.y)
    >>> len(clf.rules_), bool(clf.score(iris.X, iris.y) > 0.93)
    (2, True)
    """

    conflict: Conflict = "first"

    def __init__(
        self,
        *,
        rounds: int = 2,
        folds: int = 3,
        min_weight: float = 2.0,
        smoothing: float = 1.0,
        random_state: Any = None,
        categorical_features: Any = "from_dtype",
        backend: str | None = None,
    ) -> None:
        self.rounds = rounds
        self.folds = folds
        self.min_weight = min_weight
        self.smoothing = smoothing
        self.random_state = random_state
        self.categorical_features = categorical_features
        self.backend = backend

    def _check_parameters(self) -> None:
        check_integer("rounds", self.rounds, 0)
        check_integer("folds", self.folds, 2)
        check_number("min_weight", self.min_weight, 0)
        check_number("smoothing", self.smoothing, 0)

    def _learn(self, rows: TrainingRows, X: Any, y: Any, sample_weight: Any) -> tuple[list[CodedRule], int]:
        settings = RipperSettings(self.rounds, self.folds, self.min_weight, self.smoothing)
        return learn_ripper(rows, as_generator(self.random_state), settings)
