"""Class histograms of binned features, for all nodes of a level at once."""

from __future__ import annotations

import math
from typing import Any

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.segments import paired_histogram
from arraylearn.backend.memory import with_smaller_chunks
from arraylearn.backend.namespace import bring, move
from arraylearn.backend.selector import find_places
from arraylearn.checks import refuse

__all__ = ["class_histogram", "count_classes"]


def count_classes(
    xp: Namespace,
    bins: Array,
    codes: Array,
    *,
    n_bins: int,
    n_classes: int,
    nodes: Array | None = None,
    n_nodes: int = 1,
    weights: Array | None = None,
) -> Array:
    """Count bins (d, n) by codes and nodes (n,): (n_nodes, d, n_bins, n_classes); see `class_histogram`."""
    keys = codes
    if nodes is not None:
        keys = xp.astype(nodes, xp.int64) * n_classes + xp.astype(codes, xp.int64)
    counts = paired_histogram(xp, bins, keys, n_bins, n_nodes * n_classes, weights)
    counts = xp.reshape(counts, (bins.shape[0], n_nodes, n_classes, n_bins))
    # a view, where the library has views: bins stay contiguous, which makes sums over bins fast
    return xp.permute_dims(counts, (1, 0, 3, 2))


@with_smaller_chunks
def class_histogram(
    bins: Any,
    codes: Any,
    n_bins: int,
    n_classes: int,
    *,
    nodes: Any = None,
    n_nodes: int = 1,
    weights: Any = None,
) -> Array:
    r"""Count the classes in every bin of every feature of every node.

    .. math:: h_{tjbc} = \sum_i w_i [\text{node}_i = t] [\text{bin}_{ji} = b] [\text{class}_i = c]

    Parameters
    ----------
    bins : int array (..., d, n)
        Column-major bins in ``range(n_bins)``; uint8 is the fastest.
    codes : int array (..., n)
        Classes in ``range(n_classes)``.
    n_bins, n_classes : int
        Sizes of the two ranges.
    nodes : int array (..., n), optional
        The node of each row in ``range(n_nodes)``; default: all rows in one.
    n_nodes : int
        Number of nodes.
    weights : array (..., n), optional
        Integer or float weight of each row.

    Returns
    -------
    array (..., n_nodes, d, n_bins, n_classes)
        int64 for counts and integer weights, else the widest float of the device. Values outside their range
        are the caller's error and are not looked for: that would take a sync.

    References
    ----------
    R. Jin, G. Agrawal, "Communication and memory efficient parallel decision tree construction", 2003;
    G. Ke et al., "LightGBM", 2017.

    Examples
    --------
    >>> import arraylearn as al
    >>> al.tree.class_histogram([[0, 1, 1, 2]], [0, 0, 1, 1], n_bins=3, n_classes=2)[0, 0].tolist()
    [[1, 0], [1, 1], [0, 1]]
    """
    home, place = find_places(bins, codes, nodes, weights)
    xp, bins = place.xp, bring(bins, place)
    if bins.ndim < 2:
        raise refuse("bins", "must have the axes (..., feature, row)", f"an array of {bins.ndim} axes")
    *batch, d, n = bins.shape
    rows = {"codes": codes, "nodes": nodes, "weights": weights}
    brought = {name: None if value is None else bring(value, place) for name, value in rows.items()}
    for name, value in brought.items():
        if value is not None and value.shape != (*batch, n):
            wanted = (*batch, n) if batch else f"({n})"
            raise refuse(name, f"must have one entry per row {wanted}", f"the shape {value.shape}")
    for name, size in {"n_bins": n_bins, "n_classes": n_classes, "n_nodes": n_nodes}.items():
        if size < 1:
            raise refuse(name, "must be at least 1", size)
    n_batches = math.prod(batch)
    if batch:  # number the nodes of all batches consecutively
        first = n_nodes * xp.arange(n_batches, dtype=xp.int64, device=place.device)[:, None]
        node = 0 if brought["nodes"] is None else xp.reshape(brought["nodes"], (n_batches, n))
        brought["nodes"] = xp.broadcast_to(first + node, (n_batches, n))
        bins = xp.permute_dims(xp.reshape(bins, (n_batches, d, n)), (1, 0, 2))
        bins = xp.reshape(bins, (d, n_batches * n))
    flat: dict[str, Array] = {
        name: None if value is None else xp.reshape(value, (n_batches * n,))
        for name, value in brought.items()
    }
    sizes = {"n_bins": n_bins, "n_classes": n_classes, "n_nodes": n_batches * n_nodes}
    counts = count_classes(xp, bins, flat.pop("codes"), **flat, **sizes)
    return move(xp.reshape(counts, (*batch, n_nodes, d, n_bins, n_classes)), home)
