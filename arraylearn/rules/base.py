"""The base of the rule classifiers: rules with the user's names, decisions, explanations."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple, Self

from sklearn.utils.validation import check_is_fitted

from arraylearn._typing import Array
from arraylearn.backend.namespace import HOST, read_flags, to_host
from arraylearn.estimator import ArrayClassifier, Batch, move_model
from arraylearn.rules.match import compile_rules, fired, first_rule, match_rows
from arraylearn.rules.resolve import (
    Conflict,
    RuleModel,
    class_weights_by_rule,
    decide,
    make_model,
    order_rules,
)
from arraylearn.rules.rule import CodedRule, Conditions, Literal, Rule, sort_literals
from arraylearn.rules.training_rows import TrainingRows, gather_rows
from arraylearn.table import Schema

__all__ = ["Explanation", "RuleClassifier", "state_rule"]


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
            shown = domain[value] if relation == "=" else tuple(domain[code] for code in value)
            literals[column, relation] = Literal(name, relation, shown)
        elif before is None or (value < before.value) == (relation == "<="):
            literals[column, relation] = Literal(name, relation, value)
    return Rule(sort_literals(literals.values(), schema), label)


class RuleClassifier(ArrayClassifier):
    """Base of the rule classifiers: `_learn` finds rules; the rest follows from them."""

    conflict: Conflict
    rules_: tuple[Rule, ...]
    default_: Any
    coverage_: list[float]
    accuracy_: list[float]

    # ---- what each classifier defines

    @abstractmethod
    def _check_parameters(self) -> None:
        """Refuse parameters that break a rule."""

    @abstractmethod
    def _learn(self, rows: TrainingRows, X: Any, y: Any, sample_weight: Any) -> tuple[list[CodedRule], int]:
        """Return rules (conditions and class) and the default class."""

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
            found, default = self._learn(rows, X, y, sample_weight)
            self._keep(rows, found, default)
        return self

    def _keep(self, rows: TrainingRows, found: list[CodedRule], default: int) -> None:
        """Count what each rule decides, and keep rules and model."""
        xp, k = rows.place.xp, len(rows.class_weights)
        labels = self.classes_.tolist()
        self.rules_ = tuple(state_rule(one, labels[code], self.schema_) for one, code in found)
        self.default_ = labels[default]
        order = order_rules([one for one, _ in found], self.conflict)
        matcher = compile_rules(rows.place, [found[i][0] for i in order], self.schema_)
        position = first_rule(xp, match_rows(xp, matcher, rows.table), len(found))
        counts = class_weights_by_rule(xp, position, rows.codes, len(found), k, rows.weights)
        by_rule = [[float(one) for one in weights] for weights in to_host(counts).tolist()]
        self.model_ = make_model(
            rows.place, found, default, self.schema_, by_rule, rows.class_weights, self.conflict
        )
        covered, right = [0.0] * len(found), [0.0] * len(found)
        for weights, i in zip(by_rule, order, strict=False):  # the last weights are those of the default
            covered[i], right[i] = sum(weights), weights[found[i][1]]
        self.coverage_ = covered
        self.accuracy_ = [
            good / weight if weight > 0 else float("nan") for good, weight in zip(right, covered, strict=True)
        ]

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
            correction, or shares of the votes; columns in the order of ``classes_``.
        """
        batch, model = self._ready(X)
        probability = decide(batch.place.xp, model, batch.table)[1]
        return self._deliver(batch.place.xp.astype(probability, batch.float_dtype), batch)

    def explain(self, X: Any) -> list[Explanation]:
        """Find which rules fired, and which of them decided.

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
            for rule, weight, share in zip(self.rules_, self.coverage_, self.accuracy_, strict=True)
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
