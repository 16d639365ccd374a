"""Load model files and predict with them, in a process that may die of it: one answer per line.

Started as ``python -m tests.io.fuzz_worker``; reads lines ``{"path": ..., "probe": ...}`` from standard
input. The probe is an ``.npz`` with the rows to predict and the answers of the unchanged model. What becomes
of a file:

refused   `load` raises an error, or the model says why it cannot predict: no fit, other columns
equal     it loads, and every answer is the one of the unchanged model
changed   it loads, and answers differ but are sound: labels of the model, shapes as before, no NaN
failed    it loads and cannot predict, or predicts what no model may
greedy    it needs more memory than ten times the file and 64 MB
exited    it ends the interpreter
"""

from __future__ import annotations

import json
import resource
import sys
import warnings

import numpy as np
from sklearn.exceptions import NotFittedError

SPARE_BYTES = 64 << 20
OUTPUTS = ("predict", "predict_proba", "decision_function")


def main() -> None:
    import arraylearn as al
    import arraylearn.io  # what loading imports must not count as its memory

    warnings.simplefilter("ignore")
    al.set_compiled("always")
    for line in sys.stdin:
        job = json.loads(line)
        print(json.dumps(judge(al, job["path"], job["probe"])), flush=True)


def judge(al, path, probe):
    try:
        model, message = load(al, path)
        if model is None:
            return message
        return compare(model, probe)
    except Exception as error:
        says_why = isinstance(error, NotFittedError) or str(error).startswith("column ")
        return ["refused" if says_why else "failed", f"{type(error).__name__}: {error}"]
    except BaseException as error:
        return ["exited", f"{type(error).__name__}: {error}"]


def load(al, path):
    with open(path, "rb") as file:
        size = len(file.read())
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (data_bytes() + 10 * size + SPARE_BYTES, before[1]))
    try:
        return al.load(path), None
    except ValueError as error:
        cause = error
        while cause is not None:
            if isinstance(cause, MemoryError):
                return None, ["greedy", str(error)]
            cause = cause.__cause__
        return None, ["refused", str(error)]
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def data_bytes():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmData"))


def outputs(model, X):
    return {name: np.asarray(getattr(model, name)(X)) for name in OUTPUTS if hasattr(model, name)}


def compare(model, probe):
    with np.load(probe) as kept:
        wanted = {name: kept[name] for name in kept.files if name != "X"}
        answers = outputs(model, kept["X"])
    is_equal = answers.keys() == wanted.keys()  # a parameter says whether there are probabilities
    for name in answers.keys() & wanted.keys():
        answer = answers[name]
        if answer.shape != wanted[name].shape:
            return ["failed", f"{name} has shape {answer.shape}"]
        if answer.dtype.kind == "f" and np.isnan(answer).any():
            return ["failed", f"{name} has NaN"]
        if name == "predict" and hasattr(model, "classes_") and not np.isin(answer, model.classes_).all():
            return ["failed", "labels of no class"]
        is_equal &= np.array_equal(answer, wanted[name])
    return ["equal" if is_equal else "changed", ""]


if __name__ == "__main__":
    main()
