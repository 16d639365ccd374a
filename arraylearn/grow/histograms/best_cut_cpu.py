"""The best cut of a node by packed pairs in compiled growth, and whether the cut is accepted."""

from __future__ import annotations

import numpy as np

from arraylearn.backend.cpu.jit import Bool, Float, Host, Int, index, inlined, part
from arraylearn.grow import formulas
from arraylearn.grow.criteria import LogTable
from arraylearn.grow.criteria_cpu import describe_pair, score_pair
from arraylearn.grow.formulas import NO_SPLIT
from arraylearn.grow.histograms.categories_cpu import keep_set, order_categories, write_set
from arraylearn.grow.histograms.records_cpu import (
    FEATURE,
    FIRST,
    LOWER,
    NEWTON,
    NEWTON_BOUNDED,
    NODE,
    NONE,
    REFUSED,
    STOP,
    TABLE,
    ColumnSums,
    GrowthPlan,
    GrowthScratch,
    Newton,
    NodeSlots,
    RowOrder,
)
from arraylearn.grow.histograms.rows_cpu import count_node

__all__ = ["find_newton_cut", "find_pair_cut", "hand_on", "judge", "may_split"]

# Rows that are added at a time, so that sums become vector code.
_LANES = 8
_NO_BIN = np.int32(2**31 - 1)
# Score of a cut that the bounds of values forbid.
_NEVER = np.float32(-1e38)
_ALL_BUT_SIGN = (1 << 63) - 1

_gini_pair = part(formulas.gini_pair)
_pair_gain = part(formulas.pair_gain)
_newton_score = part(formulas.newton_score)
_newton_value = part(formulas.newton_value)
_newton_gain = part(formulas.newton_gain)
_unpack = part(formulas.unpack)


@inlined
def may_split(
    plan: GrowthPlan, newton: Newton | None, here: Host | None, sums: Host, size: Int, depth: Int
) -> Bool:
    """Whether a node may be split."""
    if depth == plan.max_depth or size < plan.least_rows:
        return False
    if newton is not None:
        return (sums[0] >> 32) * newton.unit >= plan.least_weight
    total, most = np.int64(0), np.int64(0)
    if here is None:
        total, most = sums[0] >> 32, sums[0] & LOWER
        most = most if 2 * most > total else total - most
    else:
        for c in range(sums.shape[0]):
            total += sums[c]
            most = sums[c] if sums[c] > most else most
    return most < total and total >= plan.least_weight


# ---- pairs


@part
def _score_gini(plan: GrowthPlan, column: ColumnSums, running: Host, scores: Host) -> None:
    """Score the running sums of a column by Gini; NO_SPLIT where a side is too light."""
    start, total, lightest, missing = index(column.first), column.total, plan.least_side, column.missing
    n_all, held = np.float64(total >> 32), np.float64(total & LOWER)
    for i in range(column.n):
        packed = running[start + index(i)] + missing
        n_left, inside = np.float64(np.int32(packed >> 32)), np.float64(np.int32(packed))
        n_right = n_all - n_left
        score = _gini_pair(n_left, n_right, inside, held - inside)
        scores[i] = score if (n_left >= lightest) & (n_right >= lightest) else NO_SPLIT


@part
def _score_two(plan: GrowthPlan, logs: LogTable, column: ColumnSums, running: Host, scores: Host) -> None:
    """Score the running sums of a column by another criterion; NO_SPLIT where a side is too light."""
    start, n_all, ones = index(column.first), column.total >> 32, column.total & LOWER
    lightest, terms = plan.least_side, describe_pair(plan.criterion, logs, n_all, ones)
    for i in range(column.n):
        packed = running[start + index(i)] + column.missing
        n_left, score = packed >> 32, NO_SPLIT
        if n_left >= lightest and n_all - n_left >= lightest:
            score = score_pair(plan.criterion, logs, terms, n_left, packed & LOWER, ones)
        scores[i] = score


@part
def _score_newton(plan: GrowthPlan, newton: Newton, column: ColumnSums, running: Host, scores: Host) -> None:
    """Score the running sums of a column by Newton's gain; 0, or less, where a side is too light."""
    start, n, total = index(column.first), column.n, column.total
    ridge, half, zero, missing = column.ridge, np.float32(0.5), np.float32(0), column.missing
    gradient, hessian = np.float32(np.int32(total)), np.float32(total >> 32)
    ridged = hessian + np.float32(2) * ridge
    slope = gradient / (ridged if ridged > half else half)
    share, least = np.float32(newton.least_leaf / column.size) * hessian, np.float32(plan.least_side)
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
    low, high, trend = np.float32(column.low), np.float32(column.high), np.float32(column.trend)
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
def _keep_trend(column: ColumnSums, running: Host, scores: Host) -> None:
    """Forbid the cuts of two classes that leave the bounds of the node, or the trend of the column."""
    start, trend, total = index(column.first), np.float64(column.trend), column.total
    for i in range(column.n):
        left = running[start + index(i)] + column.missing
        before, after = _share_of_one(left), _share_of_one(total - left)
        least, most = (before, after) if before < after else (after, before)
        if least < column.low or most > column.high or trend * (after - before) < 0:
            scores[i] = NO_SPLIT


@part
def _share_of_one(packed: Int) -> Float:
    """Return the share of class 1 of a packed pair of classes."""
    n = packed >> 32
    return np.float64(packed & LOWER) / np.float64(n if n > 0 else 1)


@part
def _clip(value: Float, low: Float, high: Float) -> Float:
    value = value if value > low else low
    return value if value < high else high


@part
def _order_signed(bits: Host, n: Int) -> None:
    """Turn the bits of any floats into integers of the same order; applied twice, it turns them back."""
    for i in range(n):
        bits[i] ^= (bits[i] >> 63) & _ALL_BUT_SIGN


@part
def find_pair_cut(
    rows: RowOrder,
    plan: GrowthPlan,
    nodes: NodeSlots,
    scratch: GrowthScratch,
    newton: Newton | None,
    logs: LogTable | None,
    nominal: Host | None,
    search: Int,
) -> tuple[Int, Int, Int, Float, bool]:
    """Search the columns of a node, in its table or, if it has none, in its rows.

    By Newton's gain a `search` takes the numeric columns (0, 1) or the nominal ones (2, 3); missing values
    are right of all cuts, in odd searches left, of columns with missing values alone. By other criteria one
    search takes all columns; both sides are tried for each numeric one, and missing is a category like
    others. `nominal` is None where no column is nominal. Return column, the bins beside the cut (NONE: there
    is no cut), the score, and whether missing values go right. The sum of the left side is written to
    ``side[1]``, the right bins of a nominal column to ``sets[search % 2]``.
    """
    scores, bits, n_bins, job = scratch.scores, scratch.bits, plan.n_bins, scratch.job
    table = count_node(rows, plan, scratch, None)
    node, first, size = job[NODE], job[FIRST], job[STOP] - job[FIRST]
    total, found, only_left = nodes.sums[node, 0], scratch.found, search % 2 == 1
    is_bounded, weight = plan.criterion == NEWTON_BOUNDED, np.float64(total >> 32)
    low_value, high_value, ridge = 0.0, 0.0, np.float32(0)
    if plan.has_trend:
        low_value, high_value = nodes.bounds[node, 0], nodes.bounds[node, 1]
    gain, best, columns = np.float32(0), np.int64(-1), plan.is_used
    begin, end = np.int64(0), np.int64(columns.shape[0])
    goes_left, is_learned = only_left, False
    if newton is not None:
        best, ridge = np.int64(0), np.float32(newton.ridge)
        border = np.int64(plan.n_numeric)
        begin, end = (border, end) if search >= 2 else (begin, border)
        if only_left:
            columns = plan.use_missing
        if is_bounded:
            gain, scores[0] = _NEVER, _NEVER
            _order_signed(bits, 1)
            best = bits[0]
    feature, low, high = np.int64(0), np.int64(NONE), np.int64(NONE)
    for position in range(begin, end):
        j = plan.sequence[position]
        if not columns[j]:
            continue
        start, missing, n, running = np.int64(j * n_bins), np.int64(0), n_bins, scratch.tables[table]
        if table != NONE and only_left:
            missing = running[start + n_bins - 1] - running[start + n_bins - 2]
        is_set, price, n_turns = j >= plan.n_numeric, np.float32(0), 1
        if is_set:
            if nominal is not None:
                n, price = order_categories(rows, plan, newton, scratch, j, total)
                running, start = scratch.running, np.int64(0)
        else:
            n_turns = 2 if newton is None and plan.use_missing[j] else 1
            if table == NONE:
                _sum_small(rows, columns.shape[0], j, first, size, found, scratch.running)
                running, start, n = scratch.running, np.int64(0), size
        for turn in range(n_turns):
            if turn == 1:
                missing = total
                for i in range(n if table == NONE else 0):
                    if found[i] != n_bins - 1 and total - running[i] < missing:
                        missing = total - running[i]
                if table != NONE:
                    missing = total - running[start + n_bins - 2]
                if missing == 0:
                    break
                is_learned = is_learned or (low != NONE and feature == j)
            trend = np.int64(plan.trend[j])
            column = ColumnSums(start, n, total, size, missing, ridge, trend, low_value, high_value)
            if newton is not None:
                _score_newton(plan, newton, column, running, scores)
                if is_set:
                    for i in range(n):
                        scores[i] -= price
            elif logs is None:
                _score_gini(plan, column, running, scores)
            else:
                _score_two(plan, logs, column, running, scores)
            if newton is None and trend != 0:
                _keep_trend(column, running, scores)
            if is_bounded:
                _order_signed(bits, n)
            top = bits[0]
            for i in range(n):
                top = bits[i] if bits[i] > top else top
            if top <= best:
                continue
            at = np.int64(0)
            if table == NONE and not is_set:  # rows are in no order: among equal scores take the least bin
                lowest = _NO_BIN
                for i in range(n):
                    if bits[i] == top and found[i] < lowest:
                        lowest, at = found[i], np.int64(i)
            else:
                while bits[at] != top:
                    at += 1
            if is_bounded:
                _order_signed(bits, n)
            reached = np.float32(scores[at])
            if newton is None and logs is None:
                reached = np.float32(_pair_gain(scores[at], weight))
            if low != NONE and reached <= gain and not (turn == 1 and feature == j):
                continue
            best, gain, feature, low, high = top, reached, np.int64(j), at, at + 1
            goes_left, is_learned = only_left or turn == 1, turn == 1
            scratch.side[1, 0] = running[start + at] + missing
            if is_set:
                absent = 2 if newton is None else 1
                write_set(scratch.sets[search % 2], found, n, at, absent)
            elif table == NONE:
                low, next_bin = np.int64(found[at]), _NO_BIN
                for i in range(n):
                    if low < found[i] < next_bin:
                        next_bin = found[i]
                high = np.int64(next_bin)
            else:
                while high < n_bins - 1 and running[start + high] == running[start + at]:
                    high += 1
    if newton is None and not is_learned:  # missing values met in prediction go to the heavier side
        left_weight = scratch.side[1, 0] >> 32
        goes_left = left_weight >= (total >> 32) - left_weight
        if nominal is not None:  # noqa: SIM102 - a test for None alone keeps code out
            if low != NONE and feature >= plan.n_numeric:
                goes_left = keep_set(rows, plan, nodes, scratch, feature, left_weight)
    return feature, low, high, gain, not goes_left


@part
def find_newton_cut(
    rows: RowOrder,
    plan: GrowthPlan,
    nodes: NodeSlots,
    scratch: GrowthScratch,
    newton: Newton,
    nominal: Host | None,
) -> tuple[Int, Int, Int, Float, bool]:
    """Return column, bins beside the cut, gain, and whether missing values go right.

    Numeric and nominal columns are searched separately, first with missing values on the right, then on the
    left. A loop makes all four calls in one place, because a part is compiled for each place that calls it.
    """
    job, n_bins = scratch.job, plan.n_bins
    node, total = job[NODE], nodes.sums[job[NODE], 0]
    n_groups = 2 if plan.n_numeric < plan.is_used.shape[0] else 1
    n_sides = 2 if plan.has_missing else 1
    feature, low, high, left = np.int64(0), np.int64(NONE), np.int64(NONE), np.int64(0)
    gain, group_gain, numeric_score, goes_left = np.float32(0), np.float32(0), np.float32(0), False
    for search in range(n_groups * n_sides):
        group, only_left = search // n_sides, search % n_sides == 1
        other, other_low, other_high, reached, _ = find_pair_cut(
            rows, plan, nodes, scratch, newton, None, nominal, 2 * group + (1 if only_left else 0)
        )
        if only_left and reached <= group_gain:
            continue
        group_gain = reached
        if group == 0:
            numeric_score = reached
        if group == 0 or reached > numeric_score:
            feature, low, high, gain, goes_left = other, other_low, other_high, reached, only_left
            left = scratch.side[1, 0]
            if group == 1:
                for i in range(n_bins):
                    nodes.sets[node, i] = scratch.sets[1 if only_left else 0, i]
    scratch.side[1, 0] = left
    last = feature * n_bins + n_bins - 1
    if scratch.tables[job[TABLE], last] == scratch.tables[job[TABLE], last - 1]:
        goes_left = left >= total - left
    if feature >= plan.n_numeric:
        nodes.sets[node, n_bins - 1] = not goes_left
    return feature, low, high, gain, not goes_left


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


# ---- acceptance


@part
def _newton_side(
    plan: GrowthPlan, newton: Newton, packed: Int, low: Float, high: Float
) -> tuple[Float, Float, Float, Float]:
    """Return gradient, hessian, value within bounds, and its gain."""
    gradient, hessian = _unpack(packed)
    gradient, hessian = gradient * newton.unit, hessian * newton.unit
    ridge = newton.l2 if newton.l2 > 1e-30 else 1e-30
    value = _newton_value(gradient, hessian, ridge)
    if plan.criterion == NEWTON:
        return gradient, hessian, value, -gradient * value
    value = _clip(value, low, high)
    return gradient, hessian, value, _newton_gain(gradient, hessian + ridge, value)


@inlined
def judge(
    plan: GrowthPlan, nodes: NodeSlots, newton: Newton | None, job: Host, feature: Int, left: Int, gain: Float
) -> Float:
    """Return the gain of a cut, or REFUSED."""
    if newton is None:
        return np.float64(gain) if gain >= plan.min_gain else REFUSED
    else:
        node, low, high = job[NODE], 0.0, 0.0
        if plan.has_trend:
            low, high = nodes.bounds[node, 0], nodes.bounds[node, 1]
        total = nodes.sums[node, 0]
        gradient, hessian, _, score = _newton_side(plan, newton, total, low, high)
        _, left_hessian, left_value, left_score = _newton_side(plan, newton, left, low, high)
        _, right_hessian, right_value, right_score = _newton_side(plan, newton, total - left, low, high)
        gained = left_score + right_score - score
        # the cut was chosen in float32; its gain is computed in float64
        lightest = 0.99999 * (newton.least_leaf / (job[STOP] - job[FIRST])) * hessian
        lightest = newton.least_hessian if newton.least_hessian > lightest else lightest
        lightest = newton.unit if newton.unit > lightest else lightest
        is_good = left_hessian >= lightest and right_hessian >= lightest
        is_good = is_good and gained > 1e-6 + 1e-6 * abs(gradient) and gained > 0
        if plan.criterion == NEWTON_BOUNDED:
            is_good = is_good and plan.trend[feature] * (right_value - left_value) >= 0
        return gained if is_good else REFUSED


@inlined
def hand_on(plan: GrowthPlan, newton: Newton | None, nodes: NodeSlots, node: Int, child: Int) -> None:
    """Bound the values of the children: see `arraylearn.grow.bounds`."""
    low, high, trend = nodes.bounds[node, 0], nodes.bounds[node, 1], plan.trend[nodes.ints[node, FEATURE]]
    middle = 0.0
    for side in range(2):
        if newton is None:
            middle += _share_of_one(nodes.sums[child + side, 0])
        else:
            middle += _newton_side(plan, newton, nodes.sums[child + side, 0], low, high)[2]
    middle /= 2
    for side in range(2):
        nodes.bounds[child + side, 0] = middle if trend == (1 if side == 1 else -1) else low
        nodes.bounds[child + side, 1] = middle if trend == (-1 if side == 1 else 1) else high
