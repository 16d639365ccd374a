"""Records of compiled growth: rows, nodes, buffers, and the settings that all nodes share."""

from __future__ import annotations

from typing import NamedTuple

from arraylearn.backend.cpu.jit import Float, Host, HostOrNone, Int
from arraylearn.grow.criteria import LogTable
from arraylearn.grow.formulas import GINI, NEWTON, NEWTON_BOUNDED

__all__ = [
    "CHILD",
    "CUT",
    "DEPTH",
    "FEATURE",
    "FIRST",
    "GINI",
    "GROW",
    "HIGH",
    "LEFT",
    "LOW",
    "LOWER",
    "MISSING_RIGHT",
    "NEWTON",
    "NEWTON_BOUNDED",
    "NODE",
    "NONE",
    "NUMBER",
    "REFUSED",
    "SEED",
    "SIZE",
    "START",
    "STOP",
    "TABLE",
    "TASK",
    "TREE",
    "UNLIMITED",
    "Buffers",
    "ColumnSums",
    "CutSearch",
    "DrawnColumns",
    "GrowthPlan",
    "GrowthScratch",
    "Newton",
    "NodeSlots",
    "RowOrder",
]

# Columns of `NodeSlots.ints`.
FEATURE, LOW, HIGH, CHILD, MISSING_RIGHT, START, SIZE = range(7)
# Columns of `GrowthScratch.stack`, `jobs` and `cuts`; LEFT is used in cuts only, TASK in `GrowthScratch.job`.
NODE, FIRST, STOP, DEPTH, TABLE, SEED, LEFT, TASK = range(8)
NONE = -1
# In place of a gain: the cut is not accepted. In place of a greatest depth: no node has it.
REFUSED, UNLIMITED = -1.0, -1
# Tasks: search the cut of a node; grow the subtree below it; the same, then number all nodes; only number.
CUT, GROW, TREE, NUMBER = range(4)

# The lower half of a packed number.
LOWER = (1 << 32) - 1


class RowOrder(NamedTuple):
    """The rows of a tree in the order of its nodes; arrays have a few unused entries at their end."""

    cells: Host  # (n * d,) bins, row by row
    bins: Host  # (d, n) the same bins, column by column
    order: Host  # (m,) uint32 row ids
    carry: Host  # (m,) int64: a packed pair, or (weight << 32) + class
    spare_order: Host  # (m,) uint32
    spare_carry: Host  # (m,) int64


class Newton(NamedTuple):
    """Settings of Newton's gain; None for other criteria, for which Numba then leaves out this code."""

    unit: float
    ridge: float  # added to hessians, in units
    smoothing: float  # of categories, as a hessian in units
    price: float  # of a category, taken off the gain of a nominal column
    l2: float  # added to hessians
    least_hessian: float  # of a side
    least_leaf: float  # rows of average hessian on a side


class GrowthPlan(NamedTuple):
    """Settings that all nodes share; a unit is that of the packed hessian and gradient."""

    criterion: int  # see `formulas.GINI`
    n_bins: int  # the last one holds missing values
    n_numeric: (
        int  # columns from there on are nominal: their bins are tried in the order of G / (H + smoothing)
    )
    max_depth: int  # or UNLIMITED
    max_leaves: int  # the largest gain is split first until there are so many; 0: no limit
    small: int  # nodes of up to so many rows are sorted, not counted
    keeps_rows: bool  # whether the rows end in the order of the leaves (but for those at the greatest depth)
    has_missing: bool  # whether `use_missing` has any column
    least_rows: int  # of a node that may be split
    least_weight: float  # of a node that may be split: weight, or hessian
    least_side: float  # of a side: weight, or hessian in units
    min_gain: float
    largest: int  # the children of nodes of more rows become new jobs
    nominal: Host | None  # any array where some columns are nominal
    sequence: Host  # (d,) int64: the columns in the order in which the first of equal cuts is taken
    is_used: Host  # (d,) bool: the columns that may be split
    tries_sets: Host  # (d,) bool: nominal columns whose sets are all tried, where there are three classes
    use_missing: Host  # (d,) bool: those of them with missing values, which are tried on both sides
    logs: LogTable | None  # for other criteria than Gini's and Newton's
    has_trend: bool  # whether `trend` has any column
    trend: Host  # (d,) int8: 1 where values may only rise along a column, -1 where they may only fall


class NodeSlots(NamedTuple):
    """Nodes in slots, the root in slot 0.

    The slots of two children follow from the positions of their rows, so that threads, which have different
    rows, write to different slots: 2 p - 1 and 2 p if the rows of the right child begin at position p, or
    2 p + 1 and 2 p + 2 if the rows of the node, which begin at p, are not divided.
    """

    ints: Host  # (s, 7) int32
    gain: Host  # (s,) float32
    sums: Host  # (s, w) int64
    bounds: Host  # (s, 2) float64: least and greatest value, where there is a trend
    sets: Host  # (s, b) uint8: bins that go right, where a column is nominal
    places: Host  # (5, s) int32: see `number_nodes`


class GrowthScratch(NamedTuple):
    """Buffers of one thread; `tables` is shared by all threads."""

    tables: HostOrNone  # (t, d * n_bins * w) int64, class vectors int32; None where columns are drawn
    free: Host  # (t,) int64: the tables that this thread may take
    n_free: Host  # (1,) int64: the number of these tables
    stack: Host  # (s, 7) int64: nodes still to be grown
    jobs: Host  # (s, 7) int64: nodes that become new jobs
    cuts: Host  # (2 max_leaves, 7) int64: candidate cuts
    cut_gains: Host  # (2 max_leaves,) float64: their gains; 0 once a cut is made
    scores: Host  # (b,) float64
    bits: Host  # the same memory as int64, which orders numbers that are not negative
    found: Host  # (b,) int32: the bins of the rows of a small node, or of categories in their order
    running: Host  # (b,) int64: keys or sums of a small node, or of categories in their order
    ratios: Host  # (b,) float32: by which categories are put in order
    ratio_bits: Host  # the same memory as int32
    sets: Host  # (2, n_bins) uint8: bins of a nominal column that go right, with missing values right or left
    heights: Host  # (2,) int64: the number of nodes on the stack, and of jobs
    job: Host  # (8,) int64: the present node, and the task
    side: Host  # (2, w) int64: sums of the right side of a cut, and of the left one
    is_open: Host  # (2,) bool: whether the children may be split
    own_table: Host  # (2,) int64: their tables
    here: Host | None  # (c,) int64: running class weights; None where sums are pairs
    categories: Host  # (s, w + 2) int64: see `categories_cpu`


class ColumnSums(NamedTuple):
    """Running sums of a column of a node, and the settings for scoring them."""

    first: Int
    n: Int
    total: Int
    size: Int
    missing: Int  # sum of the missing values, added to all running sums
    ridge: Float  # float32
    trend: Int
    low: Float  # float64 bounds of values
    high: Float


class DrawnColumns(NamedTuple):
    """The sets of drawn columns, and buffers for nodes of up to m rows; those of up to s rows are sorted."""

    columns: Host  # (draws, f) int32: a node considers the columns of one draw, by its seed
    every: Host  # (1, d) int32: all columns
    positions: Host  # (d * n_bins,) int64: positions of the bins, if cuts are drawn, too; else empty
    large: int  # nodes of so many rows or more score cuts between groups of bins
    least_side: float  # weight of a side
    side_rows: int  # least number of rows of a side
    left: Host  # (w,) int64: sums of the left side of the best cut, in the memory of ``side[1]``
    found: Host  # (8, m + 8) int32: the bins of the rows in some columns
    ints: Host  # (6, s + 8) int32
    wide: Host  # (3, groups) int64
    scores: Host  # (s + 8,) float32
    bits: Host  # the same memory as int32: the same order, as no score is negative
    digits: Host  # (2, 64) int32
    cells: Host  # (groups * w + groups,) int64: sums of groups, then their rows


class CutSearch(NamedTuple):
    """How cuts are searched: one field is not None; Numba leaves out the code of the others."""

    newton: Newton | None = None
    drawn: DrawnColumns | None = None
    pairs: Host | None = None  # any array: by pairs of class weights
    vectors: Host | None = None  # (c,) int64: by class vectors; the buffer of the running class weights


class Buffers(NamedTuple):
    """All buffers for trees on one set of columns: reused from tree to tree."""

    rows: RowOrder
    gathered: RowOrder  # the same rows after the slices, where there are several threads
    nodes: NodeSlots
    scratch: list[GrowthScratch]  # of each thread
    slices: HostOrNone  # (threads, cells): tables of the slices; None where columns are drawn
