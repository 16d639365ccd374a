"""Pruning of large trees: seconds for each method, and the weakest-link path beside scikit-learn's.

One thread, and the time on our core only: machines are shared.

python -m benchmarks.pruning                    # 100,000 leaves; smaller paths beside the peer
python -m benchmarks.pruning --leaves 1e5 --turns 3
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np
from sklearn.tree import DecisionTreeClassifier as Peer
from sklearn.tree._tree import ccp_pruning_path

import arraylearn as al
from arraylearn.tree import pruning
from arraylearn.tree.nodes import LEAF, Tree
from benchmarks.harness import race, threads

# rows with labels at random: about this many of them per leaf
ROWS_PER_LEAF = 4.2


def noise(n: int, d: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows whose labels nothing explains: the largest trees."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)), rng.integers(0, 2, n)


def time_methods(tree: Tree, turns: int) -> None:
    """Print the least time of each method on one tree."""
    rng = np.random.default_rng(1)
    held_out = np.floor(tree.counts * rng.random(tree.counts.shape))
    times = race(
        {
            "reduced_error": lambda: pruning.prune_reduced_error(tree, held_out),
            "pessimistic": lambda: pruning.prune_pessimistic(tree),
            "confidence": lambda: pruning.prune_confidence(tree),
            "mdl": lambda: pruning.prune_mdl(tree, n_values=[0] * 8),
            "chi2": lambda: pruning.prune_chi2(tree, significance=0.01),
            "path": lambda: pruning.cost_complexity_path(tree),
        },
        turns=turns,
        clock=time.process_time,
    )
    n_leaves = int((tree.kind == LEAF).sum())
    for name, seconds in times.items():
        print(f"{name:16}{n_leaves:9d} leaves{tree.depth[-1]:5d} levels{1000 * seconds:10.1f} ms")


def time_path(n: int, turns: int) -> float:
    """Race the path with scikit-learn's on the trees of both; return the ratio."""
    X, y = noise(n)
    ours, peer = al.DecisionTreeClassifier().fit(X, y).tree_, Peer(random_state=0).fit(X, y).tree_
    found = {}
    times = race(
        {
            "ours": lambda: found.update(ours=pruning.cost_complexity_path(ours)),
            "peer": lambda: found.update(peer=ccp_pruning_path(peer)),
        },
        turns=turns,
        clock=time.process_time,
    )
    ratio = times["peer"] / times["ours"]
    same = abs(found["ours"].impurities[-1] - found["peer"]["impurities"][-1])
    print(
        f"path beside scikit-learn: {peer.n_leaves:6d} leaves  ours {1000 * times['ours']:8.1f} ms  "
        f"peer {1000 * times['peer']:8.1f} ms  ratio {ratio:6.1f}  risk of the root differs by {same:.1e}"
    )
    return ratio


def time_raising(n: int, turns: int) -> None:
    """Print the time of growing alone, and of growing, pruning and raising, on noisy labels."""
    X, y = noise(n)
    y = np.where(
        np.random.default_rng(2).random(n) < 0.2, y, (X[:, 0] + X[:, 1] > 0) + 2 * (X[:, 2] > X[:, 3])
    )
    models = {"grow": al.c45(pruning=None), "c45": al.c45()}
    times = race(
        {name: lambda model=model: model.fit(X, y) for name, model in models.items()},
        turns=turns,
        clock=time.process_time,
    )
    report = models["c45"].pruning_report_
    raised = sum(step.n_raised for step in report.steps)
    print(
        f"raising, {n} rows: {report.before.n_nodes} nodes to {report.after.n_nodes}, {raised} raised; "
        f"grow {times['grow']:.2f} s, grow, prune and raise {times['c45']:.2f} s"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--leaves", type=float, default=1e5)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args(arguments)
    with threads(1):
        X, y = noise(int(options.leaves * ROWS_PER_LEAF))
        time_methods(al.DecisionTreeClassifier().fit(X, y).tree_, options.turns)
        for n in (4000, 16_000, 40_000):
            time_path(n, options.turns)
        time_raising(20_000, 2)


if __name__ == "__main__":
    main()
