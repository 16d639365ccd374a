"""Rules from a decision tree: one per leaf, without the literals that do not help, the best first."""

from __future__ import annotations

import math
from typing import Any

from arraylearn._typing import Array
from arraylearn.grow.trees import NO_PARENT, NOTHING, NUMERIC, Trees, tree_on_host
from arraylearn.rules.literals import Candidates, prepare, satisfies
from arraylearn.rules.rule import CodedRule, Condition, Conditions, Relation, Rule
from arraylearn.rules.rule_classifier import TrainingRows, state_rule, weigh_decisions
from arraylearn.table import Schema

__all__ = ["leaf_rules", "pessimistic_error", "post_prune", "rules_from_tree"]

# The normal quantile of a confidence of 25 %, C4.5's default.
_QUANTILE = 0.6744897501960817


def rules_from_tree(tree: Any) -> tuple[Rule, ...]:
    """Read one rule per leaf from a fitted decision tree.

    Parameters
    ----------
    tree : DecisionTreeClassifier
        Fitted, of any kind: `arraylearn.id3`, `arraylearn.c45`, `arraylearn.cart`, ...

    Returns
    -------
    tuple of Rule
        The conjunction of the branches that lead to each leaf, and the leaf's most frequent class; leaves
        that no training row reached, or none with known values, are left out. Most accurate first, then by
        coverage. Together they decide as the tree does, but for missing values, which meet no literal.

    Examples
    --------
    >>> import arraylearn as al
    >>> people = al.datasets.load_people()
    >>> for rule in al.rules.rules_from_tree(al.id3().fit(people.X, people.y)):
    ...     print(rule)
    x1 = Dark -> C2
    x1 = Blonde and x2 = Blue -> C1
    x1 = Blonde and x2 = Brown -> C2
    x1 = Red -> C1
    """
    found = leaf_rules(tree.model_, tree.schema_)
    labels = tree.classes_.tolist()
    return tuple(state_rule(conditions, labels[code], tree.schema_) for conditions, code in found)


def leaf_rules(tree: Trees, schema: Schema) -> list[CodedRule]:
    """Return the conditions and the class of each leaf, the most accurate first, then by coverage."""
    host = tree_on_host(tree)
    kinds, parents, features = host.kind.tolist(), host.parent.tolist(), host.feature.tolist()
    first, counts = host.first_child.tolist(), host.counts.tolist()
    n_values = dict(zip(schema.nominal_idx, schema.n_values, strict=True))
    found = []
    for leaf, kind in enumerate(kinds):
        if kind != NOTHING or sum(counts[leaf]) <= 0:
            continue
        path: list[Condition] = []
        node = leaf
        while (parent := parents[node]) != NO_PARENT:
            branch, column = node - first[parent], features[parent]
            if kinds[parent] == NUMERIC:
                relation: Relation = "<=" if branch == 0 else ">"
                path.append(Condition(column, relation, float(host.threshold[parent])))
            else:
                start = int(host.map_start[parent])
                branches = host.category_branch[start : start + n_values[column]].tolist()
                path.append(_category_condition(column, [v for v, b in enumerate(branches) if b == branch]))
            node = parent
        if any(one.relation == ">" and one.value == math.inf for one in path):
            continue  # a leaf of missing values, which meet no literal
        path = [one for one in path if one.value != math.inf]
        weight, code = sum(counts[leaf]), counts[leaf].index(max(counts[leaf]))
        found.append((tuple(reversed(path)), code, counts[leaf][code] / weight, weight))
    # sums of float weights that are equal but for their rounding keep the order of the leaves
    total = sum(weight for *_, weight in found)
    found.sort(key=lambda one: (-round(one[2], 12), -round(one[3] / total, 12)))
    return [(conditions, code) for conditions, code, _, _ in found]


def _category_condition(column: int, codes: list[int]) -> Condition:
    return Condition(column, "=", codes[0]) if len(codes) == 1 else Condition(column, "in", tuple(codes))


def pessimistic_error(wrong: float, covered: float) -> float:
    r"""Upper limit of an error rate, at C4.5's confidence of 25 %.

    .. math:: \frac{f + \frac{z^2}{2N} + z \sqrt{\frac{f}{N} - \frac{f^2}{N} + \frac{z^2}{4N^2}}}
              {1 + \frac{z^2}{N}}, \qquad f = \frac{\text{wrong}}{N}, \quad z = 0.674

    1 where nothing is covered.
    """
    if covered <= 0:
        return 1.0
    rate, z2 = wrong / covered, _QUANTILE**2
    spread = max(0.0, rate / covered - rate * rate / covered + z2 / (4 * covered * covered))
    return (rate + z2 / (2 * covered) + _QUANTILE * math.sqrt(spread)) / (1 + z2 / covered)


def post_prune(rows: TrainingRows, rules: list[CodedRule], schema: Schema) -> list[CodedRule]:
    """Drop the literals of each rule that do not lower its pessimistic error, then sort the rules.

    Parameters
    ----------
    rows : TrainingRows
        Training rows.
    rules : list of (conditions, class)
        From `leaf_rules`.
    schema : Schema
        The columns.

    Returns
    -------
    list of (conditions, class)
        Least pessimistic error first; without repetitions and without rules that decide no training row.
    """
    candidates = prepare(rows.place, rows.table)
    judged: dict[tuple[frozenset[Condition], int], tuple[float, float, Conditions]] = {}
    for conditions, code in rules:
        kept, error, covered = _shorten(rows, candidates, conditions, code)
        judged.setdefault((frozenset(kept), code), (error, -covered, kept))
    ordered = sorted(judged.items(), key=lambda item: item[1][:2])
    found = [(kept, code) for (_, code), (_, _, kept) in ordered if kept]
    _, by_rule = weigh_decisions(rows, [one for one, _ in found], schema)
    return [rule for rule, weights in zip(found, by_rule, strict=False) if sum(weights) > 0]


def _shorten(
    rows: TrainingRows, candidates: Candidates, conditions: Conditions, code: int
) -> tuple[Conditions, float, float]:
    """Drop literals while the error does not rise; return the rest, its error and its coverage."""
    masks = [satisfies(candidates, one) for one in conditions]
    kept = list(range(len(conditions)))
    while True:
        counts = _count_without_each(rows, [masks[i] for i in kept], code)
        errors = [pessimistic_error(covered - right, covered) for right, covered in counts]
        # the last entry is the rule as it stands
        best = min(range(len(kept)), key=lambda i: errors[i], default=None)
        if best is None or errors[best] > errors[-1] + 1e-12:
            return tuple(conditions[i] for i in kept), errors[-1], counts[-1][1]
        del kept[best]


def _count_without_each(rows: TrainingRows, masks: list[Array], code: int) -> list[tuple[float, float]]:
    """Weigh what a conjunction covers (right rows, all rows) without each condition, then with all.

    Weights are in rows.
    """
    xp, n, is_right = rows.place.xp, len(masks), rows.codes == code
    if n:
        is_broken = xp.astype(~xp.stack(masks), xp.int8)
        n_broken = xp.sum(is_broken, axis=0, dtype=xp.int64)
        # group i < n: covered once condition i is dropped; n: covered anyway; n + 1: breaks two or more
        group = xp.where(n_broken == 0, n, xp.where(n_broken == 1, xp.argmax(is_broken, axis=0), n + 1))
    else:
        group = xp.zeros(is_right.shape, dtype=xp.int64, device=rows.place.device)
    sums = rows.weigh(group * 2 + xp.astype(is_right, xp.int64), 2 * (n + 2))
    wrong, right = ([one * rows.rows_per_unit for one in part] for part in (sums[::2], sums[1::2]))
    pairs = [(right[i], wrong[i] + right[i]) for i in range(n + 1)]
    return [*((pairs[n][0] + p, pairs[n][1] + covered) for p, covered in pairs[:n]), pairs[n]]
