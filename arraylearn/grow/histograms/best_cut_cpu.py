"""The best cut of a node in compiled growth, and whether it is good enough."""

from __future__ import annotations

from typing import Any

import numpy as np

from arraylearn.backend.cpu.jit import Host, Int, compiled_part, index, part
from arraylearn.grow import formulas
from arraylearn.grow.histograms.records_cpu import (
    FEATURE,
    FIRST,
    GINI,
    LOWER,
    NEWTON,
    NEWTON_BOUNDED,
    NODE,
    NONE,
    STOP,
    TABLE,
    ColumnSums,
    GrowthPlan,
    GrowthScratch,
    NodeSlots,
    RowOrder,
)
from arraylearn.grow.histograms.score_cut_cpu import score_two, sort_small

__all__ = ["find_class_cut", "find_pair_cut", "judge", "may_split", "pass_bounds"]

# A sum over so many rows at a time runs in vectors.
_LANES = 8
_NO_BIN = np.int32(2**31 - 1)
# Up to here the Gini score sums the surplus of each class, beyond it the squared counts.
_SURPLUS_CLASSES = 4
# The score of what bounds forbid.
_NEVER = np.float32(-1e38)
# Where categories without rows, and missing values, come in the order of categories: beyond all ratios.
_EMPTY_RATIO, _MISSING_RATIO = np.float32(1e30), np.float32(2e30)
_ALL_BUT_SIGN = (1 << 63) - 1

_gini_pair = part(formulas.gini_pair)
_gini_surplus = part(formulas.gini_surplus)
_gini_squares = part(formulas.gini_squares)
_pair_gain = part(formulas.pair_gain)
_surplus_gain = part(formulas.surplus_gain)
_squares_gain = part(formulas.squares_gain)
_newton_score = part(formulas.newton_score)
_newton_value = part(formulas.newton_value)
_newton_gain = part(formulas.newton_gain)
_unpack = part(formulas.unpack)


@part
def _is_newton(criterion: Int) -> Any:
    return (criterion == NEWTON) | (criterion == NEWTON_BOUNDED)


@part
def may_split(plan: GrowthPlan, sums: Host, size: Int, depth: Int) -> Any:
    """Whether a node may be split."""
    if depth == plan.max_depth or size < plan.least_rows:
        return False
    if _is_newton(plan.criterion):
        return (sums[0] >> 32) * plan.newton.unit >= plan.least_weight
    total, most = np.int64(0), np.int64(0)
    if sums.shape[0] == 1:
        total, most = sums[0] >> 32, sums[0] & LOWER
        most = most if 2 * most > total else total - most
    else:
        for c in range(sums.shape[0]):
            total += sums[c]
            most = sums[c] if sums[c] > most else most
    return most < total and total >= plan.least_weight


# ---- pairs


@part
def _score_pairs(plan: GrowthPlan, column: ColumnSums, running: Host, scores: Host) -> None:
    """Score the running sums of a column; below 0, 0 for NEWTON, where a side is too light."""
    start, n, total = index(column.first), column.n, column.total
    if plan.criterion == GINI:
        n_all, held, lightest = np.float64(total >> 32), np.float64(total & LOWER), plan.least_side
        for i in range(n):
            packed = running[start + index(i)]
            n_left, inside = np.float64(np.int32(packed >> 32)), np.float64(np.int32(packed))
            n_right = n_all - n_left
            score = _gini_pair(n_left, n_right, inside, held - inside)
            scores[i] = score if (n_left >= lightest) & (n_right >= lightest) else -1.0
        return
    if not _is_newton(plan.criterion):
        score_two(plan, column, running, scores)
        return
    ridge, half, zero, missing = column.ridge, np.float32(0.5), np.float32(0), column.missing
    gradient, hessian = np.float32(np.int32(total)), np.float32(total >> 32)
    ridged = hessian + np.float32(2) * ridge
    slope = gradient / (ridged if ridged > half else half)
    share, least = np.float32(plan.newton.least_leaf / column.size) * hessian, np.float32(plan.least_side)
    least = share if share > least else least
    if plan.criterion == NEWTON:
        for i in range(n):
            packed = running[start + index(i)] + missing
            left = np.float32(packed >> 32)
            right = hessian - left
            is_heavy = (left >= least) & (right >= least)
            left += ridge
            area = left * (right + ridge)
            score = _newton_score(np.float32(np.int32(packed)), left, slope, area if area > half else half)
            scores[i] = score if is_heavy else zero
        return
    low, high, trend = column.low, column.high, np.float32(column.trend)
    for i in range(n):
        packed = running[start + index(i)] + missing
        left, left_gradient = np.float32(packed >> 32), np.float32(np.int32(packed))
        right, right_gradient = hessian - left, gradient - left_gradient
        is_heavy = (left >= least) & (right >= least)
        left, right = left + ridge, right + ridge
        left, right = left if left > half else half, right if right > half else half
        left_value, right_value = -left_gradient / left, -right_gradient / right
        left_value = _clip(left_value, low, high)
        right_value = _clip(right_value, low, high)
        score = _newton_gain(left_gradient, left, left_value) + _newton_gain(
            right_gradient, right, right_value
        )
        scores[i] = score if is_heavy & (trend * (right_value - left_value) >= zero) else _NEVER


@part
def _clip(value: Any, low: Any, high: Any) -> Any:
    value = value if value > low else low
    return value if value < high else high


@part
def _order_signed(bits: Host, n: Int) -> None:
    """Turn the bits of any floats into integers of the same order; once more turns them back."""
    for i in range(n):
        bits[i] ^= (bits[i] >> 63) & _ALL_BUT_SIGN


@part
def _order_categories(plan: GrowthPlan, sums: Host, first: Int, scratch: GrowthScratch) -> None:
    """Write the bins of a nominal column by smoothed gradient per hessian, empty ones, then the missing last.

    `found` takes the bins, `running` their running sums.
    """
    n, smoothing = plan.n_bins, np.float32(plan.newton.smoothing)
    found, ratios, before = scratch.found, scratch.ratios, np.int64(0)
    for i in range(n):
        own = sums[first + i] - before
        before = sums[first + i]
        gradient, hessian = _unpack(own)
        ratio = np.float32(gradient) / (np.float32(hessian) + smoothing) if own != 0 else _EMPTY_RATIO
        ratio = _MISSING_RATIO if i == n - 1 else ratio
        at = i
        while at > 0 and ratios[at - 1] > ratio:
            ratios[at], found[at] = ratios[at - 1], found[at - 1]
            at -= 1
        ratios[at], found[at] = ratio, np.int32(i)
    total = np.int64(0)
    for i in range(n):
        own = index(first) + index(found[i])
        total += sums[own] - (sums[own - index(1)] if found[i] > 0 else 0)
        scratch.running[i] = total


@part
def _search_pairs(
    rows: RowOrder,
    plan: GrowthPlan,
    nodes: NodeSlots,
    scratch: GrowthScratch,
    job: Host,
    is_nominal: bool,
    missing_left: bool,
) -> tuple[Int, Int, Int, Any]:
    """Search the numeric or the nominal columns of a node: its table, or, without one, its rows.

    With `missing_left` only columns with missing values are looked at, these on the left side of all cuts.
    Return column, the bins beside the cut (NONE: there is no cut) and what columns compete with; the left sum
    is left in ``side[1]``, the right bins of a nominal column in ``sets[missing_left]``.
    """
    scores, bits, n_bins, table = scratch.scores, scratch.bits, plan.n_bins, job[TABLE]
    node, first, size = job[NODE], job[FIRST], job[STOP] - job[FIRST]
    total = nodes.sums[node, 0]
    is_gini, is_bounded, weight = (
        plan.criterion == GINI,
        plan.criterion == NEWTON_BOUNDED,
        np.float64(total >> 32),
    )
    is_newton = _is_newton(plan.criterion)
    low_value, high_value, ridge = np.float32(0), np.float32(0), np.float32(plan.newton.ridge)
    if is_bounded:
        low_value, high_value = np.float32(nodes.bounds[node, 0]), np.float32(nodes.bounds[node, 1])
    if is_nominal:
        ridge += np.float32(plan.newton.smoothing)
    gain = _NEVER if is_bounded else np.float32(0)
    best = np.int64(0) if is_newton else np.int64(-1)
    if is_bounded:
        scores[0] = _NEVER
        _order_signed(bits, 1)
        best = bits[0]
    feature, low, high = np.int64(0), np.int64(NONE), np.int64(NONE)
    columns = plan.use_missing if missing_left else plan.is_used
    for j in range(plan.n_numeric if is_nominal else 0, columns.shape[0] if is_nominal else plan.n_numeric):
        if not columns[j]:
            continue
        start, missing, n, running = np.int64(j * n_bins), np.int64(0), n_bins, scratch.tables[table]
        if table == NONE:
            _sum_small(rows, columns.shape[0], j, first, size, scratch.found, scratch.running)
            running, start, n = scratch.running, np.int64(0), size
        elif missing_left:
            missing = running[start + n_bins - 1] - running[start + n_bins - 2]
        if is_nominal:
            _order_categories(plan, running, start, scratch)
            running, start = scratch.running, np.int64(0)
        trend = np.int64(plan.trend[j])
        column = ColumnSums(start, n, total, size, missing, ridge, trend, low_value, high_value)
        _score_pairs(plan, column, running, scores)
        if is_bounded:
            _order_signed(bits, n)
        top = bits[0]
        for i in range(n):
            top = bits[i] if bits[i] > top else top
        if top <= best:
            continue
        at = np.int64(0)
        if table == NONE:  # rows are in any order: of equal scores the least bin
            lowest = _NO_BIN
            for i in range(n):
                if bits[i] == top and scratch.found[i] < lowest:
                    lowest, at = scratch.found[i], np.int64(i)
        else:
            while bits[at] != top:
                at += 1
        if is_bounded:
            _order_signed(bits, n)
        reached = np.float32(_pair_gain(scores[at], weight)) if is_gini else np.float32(scores[at])
        if low != NONE and reached <= gain:
            continue
        best, gain, feature, low, high = top, reached, np.int64(j), at, at + 1
        scratch.side[1, 0] = running[start + at] + missing
        if table == NONE:
            low, next_bin = np.int64(scratch.found[at]), _NO_BIN
            for i in range(n):
                if low < scratch.found[i] < next_bin:
                    next_bin = scratch.found[i]
            high = np.int64(next_bin)
        elif is_nominal:
            right_bins = scratch.sets[1 if missing_left else 0]
            for i in range(n_bins):
                right_bins[scratch.found[i]] = i > at
        else:
            while high < n_bins - 1 and running[start + high] == running[start + at]:
                high += 1
    return feature, low, high, gain


@part
def _full_score(plan: GrowthPlan, total: Int, ridge: Any, score: Any) -> Any:
    """Make scores with different ridges comparable: what is left of q**2 / area is multiplied back."""
    half, zero = np.float32(0.5), np.float32(0)
    gradient, hessian = np.float32(np.int32(total)), np.float32(total >> 32)
    ridged = hessian + np.float32(2) * ridge
    ridged = ridged if ridged > half else half
    if plan.criterion == NEWTON_BOUNDED:
        return score
    return score * ridged + gradient * gradient / ridged if score > zero else zero


@part
def find_pair_cut(
    rows: RowOrder, plan: GrowthPlan, nodes: NodeSlots, scratch: GrowthScratch, job: Host
) -> tuple[Int, Int, Int, Any, bool]:
    """Return column, bins beside the cut, gain, and whether missing values go right.

    Numeric and nominal columns are searched apart, each with missing values on the right and then, where that
    is better, on the left. One call serves all four: a part that is called twice is compiled twice.
    """
    node, n_bins, total = job[NODE], plan.n_bins, nodes.sums[job[NODE], 0]
    n_groups = 2 if plan.n_numeric < plan.is_used.shape[0] else 1
    n_sides = 2 if plan.has_missing else 1
    feature, low, high, left = np.int64(0), np.int64(NONE), np.int64(NONE), np.int64(0)
    gain, group_gain, numeric_score, is_left = np.float32(0), np.float32(0), np.float32(0), False
    for search in range(n_groups * n_sides):
        group, missing_left = search // n_sides, search % n_sides == 1
        other, other_low, other_high, reached = _search_pairs(
            rows, plan, nodes, scratch, job, group == 1, missing_left
        )
        if missing_left and reached <= group_gain:
            continue
        group_gain, ridge = reached, np.float32(plan.newton.ridge)
        if group == 1:
            ridge += np.float32(plan.newton.smoothing)
        score = _full_score(plan, total, ridge, reached)
        if group == 0:
            numeric_score = score
        if group == 0 or score > numeric_score:
            feature, low, high, gain, is_left = other, other_low, other_high, reached, missing_left
            left = scratch.side[1, 0]
            if group == 1:
                for i in range(n_bins):
                    nodes.sets[node, i] = scratch.sets[1 if missing_left else 0, i]
    scratch.side[1, 0] = left
    if not _is_newton(plan.criterion):
        return feature, low, high, gain, True
    last = feature * n_bins + n_bins - 1
    if scratch.tables[job[TABLE], last] == scratch.tables[job[TABLE], last - 1]:
        is_left = left >= total - left  # nothing is missing here: later rows go where most of the weight is
    if feature >= plan.n_numeric:
        nodes.sets[node, n_bins - 1] = not is_left
    return feature, low, high, gain, not is_left


@part
def _sum_small(
    rows: RowOrder, n_features: Int, j: Int, first: Int, size: Int, found: Host, running: Host
) -> None:
    """Write the bins of few rows, and for each of them the sum over the rows of no larger bin."""
    for i in range(size):
        found[i] = rows.cells[index(rows.order[first + i]) * index(n_features) + index(j)]
    padded = (size + _LANES - 1) // _LANES * _LANES
    for i in range(size, padded):
        found[i] = _NO_BIN
    for i in range(size):
        own, total = found[i], np.int64(0)
        for other in range(padded):
            total += rows.carry[first + other] if found[other] <= own else 0
        running[i] = total


@part
def find_class_cut(
    rows: RowOrder, plan: GrowthPlan, nodes: NodeSlots, scratch: GrowthScratch, job: Host
) -> tuple[Int, Int, Int, Any, bool]:
    """Do what `find_pair_cut` does for class vectors."""
    sums, table, first, size = nodes.sums[job[NODE]], job[TABLE], job[FIRST], job[STOP] - job[FIRST]
    n_features, n_classes, n_bins = plan.is_used.shape[0], sums.shape[0], plan.n_bins
    keys, least, here, chosen = scratch.running, plan.least_side, scratch.side[0], scratch.side[1]
    n_all, squares = np.int64(0), np.int64(0)
    for c in range(n_classes):
        n_all += sums[c]
        squares += sums[c] * sums[c]
    weight = np.float64(n_all)
    best, gain = -1.0, np.float32(-np.inf)
    feature, low, high = np.int64(0), np.int64(NONE), np.int64(NONE)
    for j in range(n_features):
        if table == NONE:
            sort_small(rows, n_features, j, first, size, n_bins, scratch.found, keys)
        for c in range(n_classes):
            here[c] = 0
        counts, at_cell = scratch.tables[table], index(j * n_bins * n_classes)
        n_steps = size if table == NONE else n_bins
        n_left, on_left, on_right, column_best, is_best = np.int64(0), np.int64(0), squares, best, False
        for step in range(n_steps):
            # a row, or a bin with its classes, moves to the left side
            added = np.int64(0)
            if table == NONE:
                load = rows.carry[first + (keys[step] & LOWER)]
                own, added = index(load & LOWER), load >> 32
                held = here[own]
                on_left += added * (2 * held + added)
                on_right += added * (added - 2 * (sums[own] - held))
                here[own] = held + added
            else:
                for c in range(index(n_classes)):
                    more, held = counts[at_cell + c], here[c]
                    on_left += more * (2 * held + more)
                    on_right += more * (more - 2 * (sums[c] - held))
                    here[c] = held + more
                    added += more
                at_cell += index(n_classes)
            if added == 0:
                continue
            if is_best and high == NONE:
                high = (keys[step] >> 32) if table == NONE else np.int64(step)
            n_left += added
            if table == NONE and step + 1 < size and keys[step] >> 32 == keys[step + 1] >> 32:
                continue
            n_right = n_all - n_left
            if n_left < least or n_right < least:
                continue
            left_size, right_size = np.float64(n_left), np.float64(n_right)
            if n_classes > _SURPLUS_CLASSES:
                score = _gini_squares(np.float64(on_left), left_size, np.float64(on_right), right_size)
            else:
                score = 0.0
                for c in range(n_classes):
                    surplus = np.float64(here[c]) * right_size - np.float64(sums[c] - here[c]) * left_size
                    score += surplus * surplus
                score = _gini_surplus(score, left_size, right_size)
            if score <= column_best:
                continue
            column_best = score
            if n_classes > _SURPLUS_CLASSES:
                reached = np.float32(_squares_gain(score, np.float64(squares), weight))
            else:
                reached = np.float32(_surplus_gain(score, weight))
            reached = reached if reached > 0 else np.float32(0)
            if reached > gain or is_best:
                best, gain, feature, is_best = score, reached, np.int64(j), True
                low, high = (keys[step] >> 32) if table == NONE else np.int64(step), np.int64(NONE)
                for c in range(n_classes):
                    chosen[c] = here[c]
    return feature, low, high, gain, True


# ---- acceptance


@part
def _newton_side(plan: GrowthPlan, packed: Int, low: Any, high: Any) -> tuple[Any, Any, Any, Any]:
    """Return gradient, hessian, value within bounds, and its gain."""
    gradient, hessian = _unpack(packed)
    gradient, hessian = gradient * plan.newton.unit, hessian * plan.newton.unit
    ridge = plan.newton.l2 if plan.newton.l2 > 1e-30 else 1e-30
    value = _newton_value(gradient, hessian, ridge)
    if plan.criterion == NEWTON:
        return gradient, hessian, value, -gradient * value
    value = _clip(value, low, high)
    return gradient, hessian, value, _newton_gain(gradient, hessian + ridge, value)


@part
def judge(plan: GrowthPlan, nodes: NodeSlots, job: Host, feature: Int, left: Int, gain: Any) -> Any:
    """Return what a cut gains if it is good enough, else a negative number."""
    if not _is_newton(plan.criterion):
        return np.float64(gain) if gain >= plan.min_gain else -1.0
    node, newton = job[NODE], plan.newton
    low, high = 0.0, 0.0
    if plan.criterion == NEWTON_BOUNDED:
        low, high = nodes.bounds[node, 0], nodes.bounds[node, 1]
    total = nodes.sums[node, 0]
    gradient, hessian, _, score = _newton_side(plan, total, low, high)
    _, left_hessian, left_value, left_score = _newton_side(plan, left, low, high)
    _, right_hessian, right_value, right_score = _newton_side(plan, total - left, low, high)
    gained = left_score + right_score - score
    # float32 chose
    lightest = 0.99999 * (newton.least_leaf / (job[STOP] - job[FIRST])) * hessian
    lightest = newton.least_hessian if newton.least_hessian > lightest else lightest
    lightest = newton.unit if newton.unit > lightest else lightest
    is_good = left_hessian >= lightest and right_hessian >= lightest
    is_good = is_good and gained > 1e-6 + 1e-6 * abs(gradient) and gained > 0
    if plan.criterion == NEWTON_BOUNDED:
        is_good = is_good and plan.trend[feature] * (right_value - left_value) >= 0
    return gained if is_good else -1.0


@compiled_part
def pass_bounds(plan: GrowthPlan, nodes: NodeSlots, node: Int, child: Int) -> None:
    """Bound the children: a cut along a column with a trend keeps the sides apart at their middle."""
    low, high, trend = nodes.bounds[node, 0], nodes.bounds[node, 1], plan.trend[nodes.ints[FEATURE, node]]
    _, _, left_value, _ = _newton_side(plan, nodes.sums[child, 0], low, high)
    _, _, right_value, _ = _newton_side(plan, nodes.sums[child + 1, 0], low, high)
    middle = (left_value + right_value) / 2
    for side in range(2):
        nodes.bounds[child + side, 0] = middle if trend == (1 if side == 1 else -1) else low
        nodes.bounds[child + side, 1] = middle if trend == (-1 if side == 1 else 1) else high
