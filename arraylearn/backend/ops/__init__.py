"""What the array API standard lacks: one contract and one portable body each, native bodies beside.

Every function takes the namespace first, never waits for the device, and never looks at values to choose a
shape. Out-of-range keys and segments are the caller's error; nothing here checks them, because a check would
wait for the device.
"""

from arraylearn.backend.ops.linear import cholesky, logsumexp, solve_triangular
from arraylearn.backend.ops.order import argsort_rows, bin_columns, compress, partition, top_k
from arraylearn.backend.ops.segments import histogram, paired_histogram, segment_max, segment_sum

__all__ = [
    "argsort_rows",
    "bin_columns",
    "cholesky",
    "compress",
    "histogram",
    "logsumexp",
    "paired_histogram",
    "partition",
    "segment_max",
    "segment_sum",
    "solve_triangular",
    "top_k",
]
