"""The option that several commands share."""

from __future__ import annotations

import argparse

__all__ = ["backend_option"]


def backend_option() -> argparse.ArgumentParser:
    """Return a parent parser with ``--backend``."""
    parent = argparse.ArgumentParser(add_help=False)
    parent.add_argument("--backend", help="numpy, torch, torch:cuda:0, cupy, cupy:1 or auto")
    return parent
