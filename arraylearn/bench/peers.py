"""The peers: which are installed, how to install the others, and how many threads they take."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple

from arraylearn.bench.data import Shape

__all__ = ["PEERS", "Peer", "installed_peers", "load_peer", "missing_peers", "peer_maker", "pin_peers"]


class Peer(NamedTuple):
    """A program that ours is compared with."""

    module: str
    distribution: str  # its name for pip


PEERS: dict[str, Peer] = {
    "scikit-learn": Peer("sklearn", "scikit-learn"),
    "libsvm": Peer("sklearn", "scikit-learn"),
    "onedal": Peer("sklearnex", "scikit-learn-intelex"),
    "lightgbm": Peer("lightgbm", "lightgbm"),
    "xgboost": Peer("xgboost", "xgboost"),
    "wittgenstein": Peer("wittgenstein", "wittgenstein"),
    # yardsticks, which need nothing further
    "matmul": Peer("numpy", "numpy"),
    "bincount": Peer("numpy", "numpy"),
    "loop": Peer("arraylearn", "arraylearn"),
    "gini": Peer("arraylearn", "arraylearn"),
    "numpy": Peer("numpy", "numpy"),
}


def installed_peers() -> frozenset[str]:
    """Return the peers that can be imported here."""
    return frozenset(name for name, peer in PEERS.items() if importlib.util.find_spec(peer.module))


def missing_peers() -> dict[str, str]:
    """Return the peers that are not installed, and how to install each."""
    here = installed_peers()
    return {name: f"pip install {peer.distribution}" for name, peer in PEERS.items() if name not in here}


def load_peer(module: str, name: str) -> Any:
    """Return a class of a peer's module; imported when a case needs it."""
    return getattr(importlib.import_module(module), name)


def peer_maker(module: str, name: str, *, threads: str = "", **settings: Any) -> Callable[[Shape, int], Any]:
    """Return what makes a peer's classifier; `threads` names its parameter for their number."""

    def make(shape: Shape, n_threads: int) -> Any:
        return load_peer(module, name)(**settings, **({threads: n_threads} if threads else {}))

    return make


def pin_peers(n_threads: int) -> None:
    """Set the threads of the peers that take them neither from OpenMP nor as a parameter."""
    if importlib.util.find_spec("daal4py") is not None:
        importlib.import_module("daal4py").daalinit(n_threads)
