"""The peers: which are installed, how to install the others, and how many threads they take."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from typing import Any, NamedTuple

__all__ = ["PEERS", "Peer", "installed_peers", "load_peer", "missing_peers", "pin_peers"]


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


def pin_peers(n_threads: int) -> None:
    """Set the threads of the peers that take them neither from OpenMP nor as a parameter."""
    if importlib.util.find_spec("daal4py") is not None:
        importlib.import_module("daal4py").daalinit(n_threads)
