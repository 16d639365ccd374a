"""Mutations of model files, and the process that tries them; see `fuzz_worker` for the outcomes."""

from __future__ import annotations

import collections
import json
import os
import random
import select
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as dump_arrays

import arraylearn as al
from arraylearn.io.model_files import _digest
from tests.io.fuzz_worker import outputs

SECONDS = 60  # a file that takes longer hangs; the first ones include compiling
NUMBERS = (-(2**63), -(2**31), -2, -1, 0, 1, 2, 3, 7, 255, 2**15, 2**31 - 1, 2**40, 2**63 - 1)
FLOATS = (float("nan"), float("inf"), -float("inf"), -1.0, 0.0, 1e-300, 1e300, 2.5)
DTYPES = ("bool", "int8", "uint8", "int16", "int32", "uint32", "int64", "uint64", "float32", "float64")
VALUES = (
    *(None, True, False, -1, 0, 1, 10**6, 10**30, 1e308, -0.5, "", "x", "ovo", "é" * 50, [], [1], {}, [[[]]]),
    *({"float": "nan"}, {"float": "inf"}, {"tuple": []}, {"tuple": [1, "a"]}, {"dict": []}, {"array": "0"}),
    *({"array": "1"}, {"array": "9999"}, {"values": ["a", 1], "dtype": "|O", "shape": [2]}),
    *({"values": [], "dtype": "<U99999999", "shape": [0]}, {"record": "trees", "fields": {}}),
    *({"estimator": "tree", "state": {}}, {"record": "kernel_linear", "fields": {}}),
    {"record": "kernel_gaussian", "fields": {"gamma": 1e300}},
)
TAGS = ("tree", "forest", "svc", "os:system", "arraylearn.__main__:X", "kernel_sum", "rule", "binning", "")


# ---- models to mutate


def fitted_models():
    """Return fitted models of every family and the rows to try them on."""
    iris, tennis = al.datasets.load_iris(), al.datasets.load_tennis()
    codes = np.array(
        [
            [sorted({line[j] for line in tennis.X.tolist()}).index(value) for j, value in enumerate(row)]
            for row in tennis.X.tolist()
        ],
        dtype=np.float64,
    )
    X = np.where(np.arange(iris.X.size).reshape(iris.X.shape) % 11 == 0, np.nan, iris.X)
    nominal = {"categorical_features": [0, 1, 2, 3]}
    numbers = {
        "naive": al.NaiveBayesClassifier(),
        "tree": al.DecisionTreeClassifier(),
        "c45": al.c45(),
        "surrogates": al.DecisionTreeClassifier(missing="surrogate", nominal="binary"),
        "forest": al.RandomForestClassifier(n_estimators=4, random_state=0),
        "extra": al.ExtraTreesClassifier(n_estimators=4, random_state=np.random.RandomState(1)),
        "boosting": al.GradientBoostingClassifier(n_estimators=4, min_samples_leaf=3),
        "adaboost": al.AdaBoostClassifier(n_estimators=3),
        "ripper": al.RipperClassifier(random_state=0),
    }
    complete = {
        "full": al.FullBayesClassifier(),
        "svc": al.SVC(probability=True, random_state=0),
        "linear": al.SVC(kernel="linear", multiclass="ovr"),
        "one_class": al.OneClassSVM(),
        "svdd": al.SVDD(),
    }
    categories = {
        "id3": al.id3(**nominal),
        "naive_nominal": al.NaiveBayesClassifier(**nominal),
        "binary": al.DecisionTreeClassifier(nominal="binary", **nominal),
        "boosting_nominal": al.GradientBoostingClassifier(n_estimators=4, min_samples_leaf=1, **nominal),
        "forest_nominal": al.RandomForestClassifier(n_estimators=4, random_state=0, **nominal),
        "covering": al.SequentialCoveringClassifier(gain="foil", conflict="vote", **nominal),
    }
    for models, rows, labels in (
        (numbers, X, iris.y),
        (complete, iris.X, iris.y),
        (categories, codes, tennis.y),
    ):
        for name, model in models.items():
            yield name, model.fit(rows, labels), rows


def write_subjects(folder: Path):
    """Write every model and its answers; returns the pairs of paths."""
    pairs = []
    for name, model, X in fitted_models():
        model_path, probe = folder / f"{name}.safetensors", folder / f"{name}.npz"
        al.save(model, model_path)
        # answers of the loaded model with the bodies that the worker uses
        np.savez(probe, X=X, **outputs(model, X))
        pairs.append((model_path, probe))
    return pairs


# ---- mutations


def mutate(content: bytes, rng: random.Random) -> tuple[str, bytes]:
    """Return the name of a mutation and the mutated file."""
    mutation = rng.choice(RAW if rng.random() < 0.25 else SEALED)
    if mutation in RAW:
        return mutation.__name__, mutation(bytearray(content), rng)
    length = struct.unpack("<Q", content[:8])[0]
    about = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["arraylearn"])
    arrays = load_arrays(content)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        mutation(about, arrays, rng)
    text = json.dumps(about)
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return mutation.__name__, dump_arrays(
        arrays, metadata={"arraylearn": text, "sha256": _digest(text, arrays)}
    )


def flip_bits(content, rng):
    for _ in range(rng.choice((1, 1, 3, 30))):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    return bytes(content)


def truncate(content, rng):
    return bytes(content[: rng.randrange(len(content))])


def extend(content, rng):
    return bytes(content + rng.randbytes(rng.choice((1, 100, 100_000))))


def erase(content, rng):
    start = rng.randrange(len(content))
    stop = min(len(content), start + rng.randrange(1, 200))
    content[start:stop] = bytes(stop - start)
    return bytes(content)


def announce_header(content, rng):
    content[:8] = struct.pack("<Q", rng.choice((0, 1, 7, len(content), 2**27, 2**40, 2**63, 2**64 - 1)))
    return bytes(content)


def set_numbers(about, arrays, rng):
    name = rng.choice(sorted(arrays))
    array = arrays[name] = arrays[name].copy()
    if array.size:
        pool = FLOATS if array.dtype.kind == "f" else NUMBERS
        value = rng.choice((*pool, array.size, array.flat[rng.randrange(array.size)]))
        with np.errstate(all="ignore"):
            array.flat[rng.randrange(array.size)] = np.asarray(value).astype(array.dtype)


def nudge_number(about, arrays, rng):
    name = rng.choice(sorted(arrays))
    array = arrays[name] = arrays[name].copy()
    if array.size and array.dtype.kind in "iu":
        array.flat[rng.randrange(array.size)] += np.asarray(rng.choice((-1, 1))).astype(array.dtype)


def change_dtype(about, arrays, rng):
    name = rng.choice(sorted(arrays))
    with np.errstate(all="ignore"):
        arrays[name] = arrays[name].astype(rng.choice(DTYPES))


def change_shape(about, arrays, rng):
    name = rng.choice(sorted(arrays))
    array = arrays[name]
    arrays[name] = rng.choice(
        (array.reshape(-1), array[None], array[:0], array[: len(array) - 1] if array.ndim else array)
        + ((np.concatenate((array, array)), array[::-1]) if array.ndim else ())
    )


def swap_arrays(about, arrays, rng):
    first, second = rng.choice(sorted(arrays)), rng.choice(sorted(arrays))
    arrays[first], arrays[second] = arrays[second], arrays[first]


def drop_array(about, arrays, rng):
    del arrays[rng.choice(sorted(arrays))]


def _spots(value):
    """Yield every place in JSON as (container, key)."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in list(items):
        yield value, key
        yield from _spots(part)


def set_value(about, arrays, rng):
    container, key = rng.choice(list(_spots(about)))
    container[key] = json.loads(json.dumps(rng.choice(VALUES)))


def copy_value(about, arrays, rng):
    spots = list(_spots(about))
    (container, key), (other, its) = rng.choice(spots), rng.choice(spots)
    container[key] = json.loads(json.dumps(other[its]))


def set_tag(about, arrays, rng):
    spots = [(c, k) for c, k in _spots(about) if k in ("estimator", "record") and isinstance(c[k], str)]
    if spots:
        container, key = rng.choice(spots)
        container[key] = rng.choice(TAGS)


def drop_value(about, arrays, rng):
    container, key = rng.choice(list(_spots(about)))
    del container[key]


def add_value(about, arrays, rng):
    containers = [c[k] for c, k in _spots(about) if isinstance(c[k], dict | list)]
    container = rng.choice(containers)
    value = json.loads(json.dumps(rng.choice(VALUES)))
    if isinstance(container, dict):
        container[rng.choice(("extra_", "predict", "_x", "float", "array", "fit"))] = value
    else:
        container.append(value)


def nest(about, arrays, rng):
    container, key = rng.choice(list(_spots(about)))
    value = container[key]
    for _ in range(rng.choice((3, 30, 100))):
        value = [value] if rng.random() < 0.5 else {"tuple": [value]}
    container[key] = value


RAW = (flip_bits, truncate, extend, erase, announce_header)
SEALED = (
    *(set_numbers, set_numbers, nudge_number, change_dtype, change_shape, swap_arrays, drop_array),
    *(set_value, set_value, copy_value, set_tag, drop_value, add_value, nest),
)


# ---- the process that tries them


class Worker:
    """A process that loads files; it is started again when it dies."""

    def __init__(self) -> None:
        self._process = None

    def judge(self, path: Path, probe: Path) -> list[str]:
        """Return the outcome of a file and what was said."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.io.fuzz_worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=Path(__file__).parents[2],
                env={**os.environ, "ARRAYLEARN_COMPILED": "always"},
            )
        self._process.stdin.write(json.dumps({"path": str(path), "probe": str(probe)}).encode() + b"\n")
        self._process.stdin.flush()
        if not select.select([self._process.stdout], [], [], SECONDS)[0]:
            self.close()
            return ["hung", f"{SECONDS} s"]
        line = self._process.stdout.readline()
        if not line:
            status = self._process.wait()
            self.close()
            return ["died", f"exit status {status}"]
        return json.loads(line)

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process.stdin.close()
            self._process.stdout.close()
            self._process = None


def fuzz(folder: Path, n_files: int, seed: int) -> tuple[collections.Counter, list[str]]:
    """Try mutated files; returns the outcomes, and where each unwanted one came from."""
    pairs = write_subjects(folder)
    contents = {path: path.read_bytes() for path, _ in pairs}
    counts, unwanted = collections.Counter(), []
    worker = Worker()
    try:
        for path, probe in pairs:  # unchanged
            outcome, said = worker.judge(path, probe)
            assert outcome in ("equal", "changed"), f"{path.stem}: {outcome} {said}"
        for i in range(n_files):
            rng = random.Random(f"{seed} {i}")
            path, probe = pairs[i % len(pairs)]
            kind, content = mutate(contents[path], rng)
            victim = folder / "mutated"
            victim.write_bytes(content)
            outcome, said = worker.judge(victim, probe)
            counts[outcome] += 1
            if outcome not in ("refused", "equal", "changed"):
                unwanted.append(f"{seed} {i} {path.stem} {kind}: {outcome}, {said}")
    finally:
        worker.close()
    return counts, unwanted


if __name__ == "__main__":
    import tempfile

    n, start = (int(text) for text in (*sys.argv[1:], "1000", "0")[:2])
    with tempfile.TemporaryDirectory() as place:
        totals, found = fuzz(Path(place), n, start)
    print("\n".join(found))
    print(dict(totals))
