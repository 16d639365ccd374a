"""The classifier whose rules are given, or read from a tree."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sklearn.base import clone

from arraylearn.backend.errors import warn_caller
from arraylearn.checks import check_choice
from arraylearn.rules.decide import CONFLICTS, Conflict
from arraylearn.rules.from_tree import leaf_rules, post_prune
from arraylearn.rules.given_rules import UNKNOWN, find_scalar, read_rules, resolve_rule
from arraylearn.rules.rule import CodedRule
from arraylearn.rules.rule_classifier import RuleClassifier, TrainingRows
from arraylearn.tree import DecisionTreeClassifier, c45

__all__ = ["RuleSetClassifier"]


@dataclass(kw_only=True, eq=False, repr=False)
class RuleSetClassifier(RuleClassifier):
    """Rules given by hand, or read from a decision tree.

    Parameters
    ----------
    rules : str, sequence of Rule and str, DecisionTreeClassifier or None, default None
        Rules as text (one per line, see `arraylearn.rules.parse_rule`) or as objects, on the columns of
        the data frame, or ``x0``, ``x1``, ... of an array. A decision tree is cloned and fitted in `fit`,
        with the `categorical_features` and the `backend` of this classifier; its leaves become rules.
        None: `arraylearn.c45`.
    default : label, optional
        The class where no rule fires; default: that of a last rule without literals
        (``otherwise -> label``), else the most frequent class of the training rows that no rule matches.
    conflict : {"first", "strictest", "vote"}, default "first"
        What decides where several rules fire: the first one, the one with most literals, or the majority.
    post_prune : bool, default True
        Whether rules read from a tree lose the literals that do not lower their pessimistic error on the
        training rows; they are then ordered by that error.
    categorical_features : "from_dtype", None, or sequence of int, bool or str, default "from_dtype"
        Which columns are nominal. By default the string, categorical and boolean columns of a data frame, and
        none of an array of numbers.
    verbose : int
        1: a progress bar of the rules.
    backend : str, optional
        Where to compute, for example ``"cupy"``; default: where the data is.

    Attributes
    ----------
    rules_ : tuple of Rule
        The rules.
    default_ : label
        The class where no rule fires.
    coverage_, accuracy_ : array (r,)
        Weight of the training rows that each rule decides, and the share of its class among them.
    classes_ : array (k,)
        Class labels, sorted.
    schema_ : Schema
        The columns.

    Warns
    -----
    UserWarning
        Where a rule names a category that is not in the training rows: it can match no row.

    Notes
    -----
    A missing value meets no literal.

    References
    ----------
    J. R. Quinlan, "C4.5: programs for machine learning", Morgan Kaufmann 1993, chapter 5.

    Examples
    --------
    >>> import arraylearn as al
    >>> people = al.datasets.load_people()
    >>> clf = al.RuleSetClassifier(["x1 = Red -> C1", "x1 = Blonde and x2 = Blue -> C1", "otherwise -> C2"])
    >>> clf = clf.fit(people.X, people.y)
    >>> clf.predict([["Tall", "Red", "Brown"], ["Tall", "Dark", None]])
    array(['C1', 'C2'], dtype='<U2')
    >>> clf.fired_rules([["Tall", "Red", "Brown"]])
    [Explanation(label='C1', rule=0, fired=(0,))]
    """

    rules: Any = field(default=None, kw_only=False)
    default: Any = None
    conflict: Conflict = "first"
    post_prune: bool = True
    categorical_features: Any = "from_dtype"
    verbose: int = 0
    backend: str | None = None

    def _check_parameters(self) -> None:
        check_choice("conflict", self.conflict, CONFLICTS)

    def _learn(
        self, rows: TrainingRows, X: Any, y: Any, sample_weight: Any
    ) -> tuple[list[CodedRule], int | None]:
        default = None if self.default is None else self._code_of(self.default, "`default`")
        if self.rules is None or isinstance(self.rules, DecisionTreeClassifier):
            found = self._read_tree(rows, X, y, sample_weight)
        else:
            found, last = self._read_given()
            default = last if default is None else default
        for _ in found:
            rows.report()
        return found, default

    def _read_tree(self, rows: TrainingRows, X: Any, y: Any, sample_weight: Any) -> list[CodedRule]:
        tree = c45() if self.rules is None else clone(self.rules)
        tree.set_params(categorical_features=self.categorical_features, backend=self.backend)
        tree.fit(X, y, sample_weight=sample_weight)
        found = leaf_rules(tree.model_, self.schema_)
        found = [(conditions, code) for conditions, code in found if conditions]
        return post_prune(rows, found, self.schema_) if self.post_prune else found

    def _read_given(self) -> tuple[list[CodedRule], int | None]:
        """Return the rules by hand, and the class of a last one without literals."""
        rules = read_rules(self.rules)
        if not rules:
            raise ValueError("`rules` must hold at least one rule; got none. Pass None to learn them.")
        found, unknown = [], []
        for rule in rules:
            conditions, not_there = resolve_rule(rule, self.schema_)
            found.append((conditions, self._code_of(rule.label, f"rule {str(rule)!r}")))
            unknown += not_there
        if unknown:
            warn_caller(
                f"rules name categories that the training rows do not have: {', '.join(unknown)}; "
                "these literals match no row.",
                UserWarning,
            )
        if not found[-1][0]:
            return found[:-1], found[-1][1]
        return found, None

    def _code_of(self, label: Any, where: str) -> int:
        classes = self.classes_.tolist()
        code = find_scalar(label, classes)
        if code == UNKNOWN:
            raise ValueError(
                f"{where} names the class {label!r}; the classes are {', '.join(map(repr, classes))}."
            )
        return code
