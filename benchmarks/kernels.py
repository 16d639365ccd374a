"""The array kernels beside a bare matrix product or bincount of the same shape.

    python -m benchmarks.kernels [gram] [log_density] [diagonal] [class_histogram] [moments]
                                 [--threads 1 2] [--turns 7] [--cpu-time]

The bare product of a gram matrix is timed twice: ``X @ Z.T`` with Z a copy of X, the fastest NumPy has, and
``X @ X.T``, which NumPy hands to a routine for symmetric results and then mirrors element by element.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import arraylearn as al
from benchmarks.harness import race, report, threads


def gram(**how: Any) -> bool:
    is_met = True
    for dtype in ("float32", "float64"):
        x = np.random.default_rng(0).standard_normal((4096, 100)).astype(dtype)
        z = x.copy()
        contestants = {
            "gaussian": lambda x=x: al.kernels.gram(x, gamma=0.01),
            "gaussian, X and Z": lambda x=x, z=z: al.kernels.gram(x, z, gamma=0.01),
            "polynomial": lambda x=x: al.kernels.gram(x, kernel="poly", degree=3, gamma=0.01, coef0=1.0),
            "X @ X.T": lambda x=x: x @ x.T,
            "X @ Z.T": lambda x=x, z=z: x @ z.T,
        }
        times = race(contestants, **how)
        for ours in ("gaussian", "gaussian, X and Z", "polynomial"):
            title = f"gram 4096 x 100 {dtype}"
            is_met &= report(title, times, ours=ours, bars={"X @ X.T": 2.0, "X @ Z.T": 2.0})
    return is_met


def log_density(**how: Any) -> bool:
    is_met = True
    rng = np.random.default_rng(0)
    n, d, k = 1_000_000, 20, 5
    root = rng.standard_normal((k, d, 2 * d))
    for dtype in ("float32", "float64"):
        x = rng.standard_normal((n, d)).astype(dtype)
        mean = rng.standard_normal((k, d)).astype(dtype)
        cov = (root @ root.transpose(0, 2, 1) / d).astype(dtype)
        maps = rng.standard_normal((d, k * d)).astype(dtype)
        out = np.empty((n, k * d), dtype=dtype)
        contestants = {
            "log_density": lambda x=x, mean=mean, cov=cov: al.gaussian.log_density(x, mean, cov),
            "product": lambda x=x, maps=maps: x @ maps,
            "product into old memory": lambda x=x, maps=maps, out=out: np.matmul(x, maps, out=out),
        }
        times = race(contestants, **how)
        bars = {"product": 2.0, "product into old memory": 2.0}
        is_met &= report(f"log_density 1M x 20, 5 classes {dtype}", times, ours="log_density", bars=bars)
    return is_met


def diagonal(**how: Any) -> bool:
    from sklearn.naive_bayes import GaussianNB

    is_met = True
    rng = np.random.default_rng(0)
    n, d, k = 1_000_000, 50, 5
    for dtype in ("float32", "float64"):
        x = rng.standard_normal((n, d)).astype(dtype)
        peer = GaussianNB().fit(x[:1000] + np.arange(1000)[:, None] % k, np.arange(1000) % k)
        mean, var = peer.theta_.astype(dtype), peer.var_.astype(dtype)

        def ours(by_product, x=x, mean=mean, var=var):
            return al.gaussian.diagonal_log_density(np, x, mean, var, by_product=by_product)

        contestants = {
            "product": lambda ours=ours: ours(True),
            "direct": lambda ours=ours: ours(False),
            "GaussianNB": lambda x=x, peer=peer: peer._joint_log_likelihood(x),
        }
        times = race(contestants, **how)
        for way in ("product", "direct"):
            title = f"diagonal log density 1M x 50, 5 classes {dtype}"
            is_met &= report(title, times, ours=way, bars={"GaussianNB": 1 / 3})
    return is_met


def class_histogram(**how: Any) -> bool:
    is_met = True
    rng = np.random.default_rng(0)
    n, d = 1_000_000, 20
    for n_bins in (64, 255):
        bins = rng.integers(0, n_bins, (d, n)).astype(np.uint8)
        for n_classes in (2, 10):
            codes = rng.integers(0, n_classes, n)

            def bare(bins=bins, codes=codes, n_bins=n_bins, n_classes=n_classes):
                base = codes * n_bins
                return [np.bincount(base + column, minlength=n_bins * n_classes) for column in bins]

            def ours(bins=bins, codes=codes, n_bins=n_bins, n_classes=n_classes):
                return al.tree.class_histogram(bins, codes, n_bins, n_classes)

            times = race({"class_histogram": ours, "bincount": bare}, **how)
            title = f"class_histogram 1M x 20, {n_bins} bins, {n_classes} classes"
            is_met &= report(title, times, ours="class_histogram", bars={"bincount": 1.5})
    return is_met


def moments(**how: Any) -> bool:
    from sklearn.naive_bayes import GaussianNB

    is_met = True
    rng = np.random.default_rng(0)
    n, d = 1_000_000, 50
    for dtype, k in (("float64", 2), ("float64", 10), ("float32", 5)):
        codes = rng.integers(0, k, n)
        x = (rng.standard_normal((n, d)) + codes[:, None]).astype(dtype)
        contestants = {
            "diagonal": lambda x=x, codes=codes, k=k: al.gaussian.moments(x, codes, k, covariance="diagonal"),
            "full": lambda x=x, codes=codes, k=k: al.gaussian.moments(x, codes, k),
            "GaussianNB.fit": lambda x=x, codes=codes: GaussianNB().fit(x, codes),
        }
        times = race(contestants, **how)
        title = f"moments 1M x 50, {k} classes {dtype}"
        is_met &= report(title, times, ours="diagonal", bars={"GaussianNB.fit": 1 / 3})
        is_met &= report(title, times, ours="full", bars={"GaussianNB.fit": 1.0})
    return is_met


JOBS: dict[str, Callable[..., bool]] = {
    "gram": gram,
    "log_density": log_density,
    "diagonal": diagonal,
    "class_histogram": class_histogram,
    "moments": moments,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("jobs", nargs="*", choices=[*JOBS, []], default=[])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--cpu-time", action="store_true", help="for one thread on a busy machine")
    options = parser.parse_args()
    how = {"turns": options.turns, "clock": time.process_time if options.cpu_time else time.perf_counter}
    is_met = True
    for n in options.threads:
        print(f"-- {n} thread{'s' if n > 1 else ''}")
        with threads(n):
            for name in options.jobs or JOBS:
                is_met &= JOBS[name](**how)
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
