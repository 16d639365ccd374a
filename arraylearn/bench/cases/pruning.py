"""The weakest-link path of a large tree beside scikit-learn's; both on the host."""

from __future__ import annotations

from arraylearn.backend.namespace import Place
from arraylearn.bench.case import Case, Race, Run, shapes_of
from arraylearn.bench.data import Shape, noise
from arraylearn.bench.peers import load_peer
from arraylearn.tree import DecisionTreeClassifier
from arraylearn.tree.pruning import cost_complexity_path

__all__ = ["CASES"]


def _path(shape: Shape, n_threads: int) -> Race:
    rows = noise(shape)

    def ours(place: Place) -> Run:
        tree = DecisionTreeClassifier().fit(rows.X, rows.y).tree_
        return lambda: float(cost_complexity_path(tree).impurities[-1])

    def peer() -> Run:
        made = load_peer("sklearn.tree", "DecisionTreeClassifier")(random_state=0).fit(rows.X, rows.y).tree_
        prune = load_peer("sklearn.tree._tree", "ccp_pruning_path")
        return lambda: float(prune(made)["impurities"][-1])

    return Race(ours, {"scikit-learn": peer}, float)


CASES = [
    Case(
        "pruning",
        "weakest-link path",
        (),
        shapes_of(4000, 16_000, 100_000, 8),
        ("scikit-learn",),
        _path,
        quality="risk of the root",
        host_only=True,
    )
]
