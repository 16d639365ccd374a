"""The base of the rule classifiers: training rows, rules with the user's names, decisions, explanations."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from arraylearn._typing import Array, HostArray
from arraylearn.backend.arrays.segments import histogram
from arraylearn.backend.namespace import HOST, Place, from_host, is_on_host, read_flags, to_host
from arraylearn.estimator import ArrayClassifier, Batch, move_model
from arraylearn.progress import LONG_RUN, Advance, advance_nothing, warn_of_cost
from arraylearn.rules.counts import Target, pack_weights, units_of
from arraylearn.rules.decide import (
    Conflict,
    Matcher,
    RuleModel,
    compile_rules,
    decide,
    fired,
    first_rule,
    make_model,
    match_rows,
    order_rules,
)
from arraylearn.rules.literals import choose_body
from arraylearn.rules.rule import CodedRule, Conditions, Literal, Rule
from arraylearn.table import Schema, Table
from arraylearn.table.rare import leave_out_rare
from arraylearn.weights import grid_weights, read_weights, repeat_weights

__all__ = [
    "Explanation",
    "RuleClassifier",
    "TrainingRows",
    "gather_rows",
    "state_rule",
    "weigh_decisions",
]

# How many times as long the array program takes as the compiled search.
_PROGRAM = 10
_CHEAPER = (
    "A sample of the rows, or a tree (DecisionTreeClassifier with splitter='hist'), takes far less; "
    "`max_rules` and `min_coverage` bound the number of rules; verbose=1 shows the rules as they are found."
)
# Literals on one column are shown in this order: lower bounds first.
_SHOWN = {"=": 0, "in": 0, ">": 1, "<=": 2}


# ---- training rows


class TrainingRows(NamedTuple):
    """Training rows at the place where they are learned from; rows of weight 0 are left out."""

    place: Place
    table: Table
    codes: Array  # (n,) int64: the class of each row
    class_weights: list[int]  # (k,) weight of the rows of each class, in units
    weights: Array | None = None  # (n,) from `pack_weights`; None: every row weighs one unit
    unit: float = 1.0  # what a unit of weight is in the user's weights
    rows_per_unit: float = 1.0  # rows per unit of weight, as evidence; see `repeat_weights`
    report: Advance = advance_nothing  # is called for each rule that is found

    @property
    def n_numbers(self) -> int:
        """Number of values of the numeric columns."""
        return int(math.prod(self.table.numeric.shape))

    def target(self, code: int) -> Target:
        """Return the rows of a class as the target of its rules."""
        return Target(self.codes == code, self.weights, self.rows_per_unit)

    def weigh(self, keys: Array, n: int) -> list[int]:
        """Sum the weights, in units, of the rows of each key (n_rows,) of ``range(n)``; one sync."""
        sums = to_host(histogram(self.place.xp, keys, n, self.weights))
        weights: list[int] = (sums if self.weights is None else units_of(sums)).tolist()
        return weights


def gather_rows(batch: Batch, host_codes: HostArray, n_classes: int, sample_weight: Any) -> TrainingRows:
    """Collect rows, classes and weights at the place of computation, without the rows of weight 0."""
    place, table = batch.place, batch.table
    xp, units, unit = place.xp, None, 1.0
    weights = read_weights(sample_weight, table.n_rows, HOST)
    if weights is not None:
        if (weights == 0).any():
            kept = weights.nonzero()[0]
            weights, host_codes = weights[kept], host_codes[kept]
            idx = from_host(kept, place, xp.int64)
            table = Table(
                xp.take(table.numeric, idx, axis=0), xp.take(table.codes, idx, axis=1), table.schema
            )
        units, unit = grid_weights(weights)
    rows = TrainingRows(place, table, from_host(host_codes, place, xp.int64), [], unit=unit)
    if weights is not None and units is not None and units.max() > 1:
        packed, coarser = pack_weights(units, place)
        share = float(repeat_weights(weights).sum()) / float(units.sum())
        rows = rows._replace(weights=packed, unit=unit * coarser, rows_per_unit=share * coarser)
    return rows._replace(class_weights=rows.weigh(rows.codes, n_classes))


def weigh_decisions(
    rows: TrainingRows, rules: Sequence[Conditions], schema: Schema
) -> tuple[Matcher, list[list[int]]]:
    """Weigh the rows that each rule decides, by class, where the first rule that matches decides.

    Returns
    -------
    matcher : Matcher
        The rules.
    by_rule : (r + 1) x k integers
        Weights by rule and class, in units; last those of the rows that no rule matches. One sync.
    """
    xp, r, k = rows.place.xp, len(rules), len(rows.class_weights)
    matcher = compile_rules(rows.place, rules, schema)
    position = first_rule(xp, match_rows(xp, matcher, rows.table), r)
    weights = rows.weigh(position * k + rows.codes, (r + 1) * k)
    return matcher, [weights[i : i + k] for i in range(0, (r + 1) * k, k)]


# ---- the classifiers


class Explanation(NamedTuple):
    """Why a row got its class."""

    label: Any
    rule: int | None  # position in ``rules_`` of the rule that decided; None: the default, or a vote
    fired: tuple[int, ...]  # positions of all rules that match


def state_rule(conditions: Conditions, label: Any, schema: Schema) -> Rule:
    """Turn conditions into a rule with the user's names, sorted by column, with only the tightest bounds."""
    literals: dict[tuple[int, str], Literal] = {}
    for column, relation, value in conditions:
        name = schema.names[column]
        before = literals.get((column, relation))
        if relation in ("=", "in"):
            domain = schema.columns[column].domain or ()
            named = domain[value] if relation == "=" else tuple(domain[code] for code in value)
            literals[column, relation] = Literal(name, relation, named)
        elif before is None or (value < before.value) == (relation == "<="):
            literals[column, relation] = Literal(name, relation, value)
    shown = sorted(literals, key=lambda key: (key[0], _SHOWN[key[1]]))
    return Rule(tuple(literals[key] for key in shown), label)


class RuleClassifier(ArrayClassifier):
    """Base of the rule classifiers: `_learn` finds rules; the rest follows from them."""

    conflict: Conflict
    rules_: tuple[Rule, ...]
    default_: Any
    coverage_: HostArray
    accuracy_: HostArray
    # whether categories of too few rows count as missing
    _leaves_out_rare: ClassVar[bool] = False

    # ---- what each classifier defines

    @abstractmethod
    def _check_parameters(self) -> None:
        """Refuse parameters that break a rule."""

    @abstractmethod
    def _learn(
        self, rows: TrainingRows, X: Any, y: Any, sample_weight: Any
    ) -> tuple[list[CodedRule], int | None]:
        """Return rules (conditions and class) and the default class.

        None: the most frequent class of the rows that no rule matches; of all rows, where there are none.
        """

    def _seconds(self, rows: TrainingRows) -> float:
        """Estimate how long `_learn` takes on one core with the compiled search; 0: not long."""
        return 0.0

    # ---- learning

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from labelled rows.

        Parameters
        ----------
        X : array, data frame or list of lists, (n, d)
            Rows, of any supported array or data frame library.
        y : array-like (n,)
            Class labels.
        sample_weight : array-like (n,), optional
            Weights of the rows, not negative.

        Returns
        -------
        self
            The fitted classifier.
        """
        self._check_parameters()
        with self._fitting():
            batch, labels = self._open_fit(X, y)
            self._refuse_bad(*read_flags(batch.place, batch.is_bad))
            rows = gather_rows(batch, labels.codes, len(labels.classes), sample_weight)
            if self._leaves_out_rare:
                table = leave_out_rare(rows.place, rows.table, rows.codes, len(labels.classes))
                rows, self.schema_ = rows._replace(table=table), table.schema
            if is_on_host(rows.place):
                slower = _PROGRAM if isinstance(choose_body(rows.place, rows.n_numbers), str) else 1
                if (seconds := slower * self._seconds(rows)) >= LONG_RUN:
                    warn_of_cost(type(self).__name__, seconds, _CHEAPER)
            with self._progress("rules", None) as report:
                found, default = self._learn(rows._replace(report=report), X, y, sample_weight)
            self._keep(rows, found, default)
        return self

    def _keep(self, rows: TrainingRows, found: list[CodedRule], default: int | None) -> None:
        """Count what each rule decides, and keep rules and model."""
        labels = self.classes_.tolist()
        self.rules_ = tuple(state_rule(one, labels[code], self.schema_) for one, code in found)
        order = order_rules([one for one, _ in found], self.conflict)
        matcher, by_rule = weigh_decisions(rows, [found[i][0] for i in order], self.schema_)
        if default is None:
            left = by_rule[-1] if any(by_rule[-1]) else rows.class_weights
            default = left.index(max(left))
        self.default_ = labels[default]
        codes, is_vote = [*(found[i][1] for i in order), default], self.conflict == "vote"
        counts = [[weight * rows.rows_per_unit for weight in weights] for weights in by_rule]
        self.model_ = make_model(
            rows.place, matcher, order, codes, counts, rows.class_weights, is_vote=is_vote
        )
        covered, right = np.zeros((2, len(found)))
        for weights, i in zip(by_rule, order, strict=False):  # the last weights are those of the default
            covered[i], right[i] = sum(weights), weights[found[i][1]]
        self.coverage_ = covered * rows.unit
        self.accuracy_ = np.where(covered > 0, right / np.where(covered > 0, covered, 1.0), np.nan)

    # ---- deciding

    def predict(self, X: Any) -> Array:
        """Predict the class of each row.

        Parameters
        ----------
        X : array, data frame or list of lists, (n, d)
            Rows.

        Returns
        -------
        array (n,)
            Labels, in the library and on the device of `X`; text always as a NumPy array.
        """
        batch, model = self._ready(X)
        return self._deliver_labels(decide(batch.place.xp, model, batch.table)[0], batch)

    def predict_proba(self, X: Any) -> Array:
        """Estimate the probabilities of the classes.

        Parameters
        ----------
        X : array, data frame or list of lists, (n, d)
            Rows.

        Returns
        -------
        array (n, k)
            Shares of the classes among the training rows that the deciding rule decided, with a Laplace
            correction, or shares of the votes; columns in the order of ``classes_``. The correction takes
            weights that are multiples of the least as repetitions, others as if their mean were 1.
        """
        batch, model = self._ready(X)
        probability = decide(batch.place.xp, model, batch.table)[1]
        return self._deliver(batch.place.xp.astype(probability, batch.float_dtype), batch)

    def fired_rules(self, X: Any) -> list[Explanation]:
        """Find for each row which rules fired, and which of them decided.

        Parameters
        ----------
        X : array, data frame or list of lists, (n, d)
            Rows.

        Returns
        -------
        list of n Explanation
            Positions of rules refer to ``rules_``.
        """
        batch, model = self._ready(X)
        xp, n_rules = batch.place.xp, len(self.rules_)
        codes, _, words = decide(xp, model, batch.table)
        self._refuse_bad(*read_flags(batch.place, batch.is_bad))
        labels = self.classes_.take(to_host(codes)).tolist()
        decided = to_host(first_rule(xp, words, n_rules)).tolist()
        is_fired = to_host(fired(xp, words, n_rules)).tolist()
        explanations = []
        for label, first, bits in zip(labels, decided, is_fired, strict=True):
            positions = sorted(model.order[i] for i, bit in enumerate(bits) if bit)
            by = None if model.is_vote or first == n_rules else model.order[first]
            explanations.append(Explanation(label, by, tuple(positions)))
        return explanations

    def to_text(self) -> str:
        """Write the rules, one per line, with the weight of the training rows each decides and the errors.

        Returns
        -------
        str
            The default comes last. `arraylearn.rules.parse_rules` reads it.
        """
        check_is_fitted(self)
        width = max((len(str(rule)) for rule in self.rules_), default=0)
        lines = [
            f"{rule!s:{width}}  # {weight:g} rows, {weight - weight * share if weight else 0.0:.6g} wrong"
            for rule, weight, share in zip(
                self.rules_, self.coverage_.tolist(), self.accuracy_.tolist(), strict=True
            )
        ]
        return "\n".join([*lines, str(Rule((), self.default_))])

    def _ready(self, X: Any) -> tuple[Batch, RuleModel]:
        batch = self._open(X)
        return batch, self._model_at(batch.place)

    def __getstate__(self) -> dict[str, Any]:
        # moved to the host, so that what was learned on a GPU can be read on a machine without one
        state = super().__getstate__()
        if "model_" in state:
            state["model_"] = move_model(state["model_"], HOST)
        return state
