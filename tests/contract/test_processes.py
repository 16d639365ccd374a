"""One fitted model in several threads at once, and in a forked child: the answers of one thread."""

from __future__ import annotations

import copy
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import arraylearn as al
from tests.contract.estimators import SUBJECTS

N_THREADS = 8


@pytest.fixture(autouse=True)
def several_threads():
    al.set_num_threads(4)
    yield
    al.set_num_threads(None)


def answers(model, X):
    """Everything that a model says of rows."""
    names = ("predict", "predict_proba", "decision_function")
    return [np.asarray(getattr(model, name)(X)) for name in names if hasattr(model, name)]


@pytest.mark.parametrize("subject", SUBJECTS, ids=str)
def test_threads_share_a_fitted_model(subject):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 4))
    y = (X[:, 0] + X[:, 1] > 0).astype(int) + (X[:, 2] > 0.5)
    fitted = subject.make().fit(X, y)
    queries = [rng.standard_normal((3000, 4)) for _ in range(N_THREADS)]
    expected = [answers(fitted, rows) for rows in queries]
    for _ in range(3):
        # a copy has not predicted yet: what it keeps for predictions is made by all threads at once
        model, start = copy.deepcopy(fitted), threading.Barrier(N_THREADS)
        model.__dict__.pop("_cache", None)

        def ask(rows, model=model, start=start):
            start.wait(30)
            return answers(model, rows)

        with ThreadPoolExecutor(N_THREADS) as pool:
            found = list(pool.map(ask, queries))
        for mine, others in zip(found, expected, strict=True):
            for one, other in zip(mine, others, strict=True):
                np.testing.assert_array_equal(one, other)


def test_a_child_forked_after_use_fits_and_predicts():
    program = (
        "import os, signal, sys, warnings; warnings.simplefilter('ignore')\n"
        "import numpy as np, arraylearn as al\n"
        "al.set_num_threads(3)\n"
        "X = np.random.default_rng(0).standard_normal((3000, 5)); y = (X[:, 0] + X[:, 1] > 0).astype(int)\n"
        "makers = [lambda: al.RandomForestClassifier(n_estimators=8, random_state=0),\n"
        "    lambda: al.GradientBoostingClassifier(n_estimators=5), al.SVC, al.NaiveBayesClassifier,\n"
        "    al.FullBayesClassifier, al.DecisionTreeClassifier,\n"
        "    lambda: al.RipperClassifier(random_state=0)]\n"
        "models = [make().fit(X, y) for make in makers]\n"
        "before = [model.predict(X).tolist() for model in models]\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    signal.alarm(120)\n"  # ends a child that hangs
        "    same = [model.predict(X).tolist() for model in models] == before\n"
        "    again = [make().fit(X, y).predict(X).tolist() for make in makers] == before\n"
        "    os._exit(0 if same and again else 1)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=240).returncode == 0
