"""One model in several threads, in a forked child and in pools of processes; fits that Ctrl-C stops."""

from __future__ import annotations

import copy
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.model_selection import cross_val_score

import arraylearn as al
from arraylearn.backend.threads import run_to_the_end
from tests.contract.estimators import CHECKED, SUBJECTS

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


@pytest.mark.slow
def test_processes_of_joblib_and_pools_inside_pools():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 5))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    models = [
        al.RandomForestClassifier(n_estimators=8, random_state=0),
        al.GridSearch(al.GradientBoostingClassifier(n_estimators=3), {"max_depth": [2, 3]}, cv=2, n_jobs=2),
        al.SVC(C=0.1),
    ]
    alone = [cross_val_score(model, X, y, cv=2) for model in models]
    for backend in ("loky", "threading"):
        pool = Parallel(n_jobs=2, backend=backend)
        together = pool(delayed(cross_val_score)(model, X, y, cv=2, n_jobs=2) for model in models)
        np.testing.assert_array_equal(together, alone)


# ---- Ctrl-C


def stopped_after(seconds, work):
    """Interrupt `work` after some seconds; return how late it ended, or None if it was over before."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    began = time.perf_counter()
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        work()
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        return time.perf_counter() - began - seconds
    finally:
        signal.signal(signal.SIGALRM, before)
    return None


def test_work_that_must_not_stop_half_way_goes_on_without_the_caller():
    is_over = threading.Event()

    def work():
        time.sleep(0.3)
        is_over.set()

    late = stopped_after(0.05, lambda: run_to_the_end(work))
    assert late < 0.2
    assert is_over.wait(30)
    assert run_to_the_end(lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        run_to_the_end(lambda: 1 / 0)


def test_numba_survives_interruptions(tmp_path):
    """An import and compilations stopped half-way leave nothing that the next ones stumble over."""
    program = (
        "import faulthandler; faulthandler.dump_traceback_later(100, exit=True)\n"
        "import importlib, signal, numpy as np\n"
        "import arraylearn.backend.arrays.order\n"
        "signal.signal(signal.SIGALRM, signal.default_int_handler)\n"
        "def load(): return importlib.import_module('arraylearn.backend.arrays.order_cpu')\n"
        "def number(): return load().number_values(np.asarray([[3.0, 1.0, 2.0]]), 8)[0].tolist()\n"
        "for work in (load, number):\n"
        "    n_stops = 0\n"
        "    for seconds in (0.05, 0.1, 0.2):\n"
        "        try:\n"
        "            signal.setitimer(signal.ITIMER_REAL, seconds)\n"
        "            work()\n"
        "            signal.setitimer(signal.ITIMER_REAL, 0)\n"
        "        except KeyboardInterrupt: n_stops += 1\n"
        "    found = work()\n"
        "    print(n_stops)\n"
        "print(found)\n"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "ARRAYLEARN_COMPILED": "always"}
    run = subprocess.run(
        [sys.executable, "-c", program], env=environment, timeout=240, capture_output=True, text=True
    )
    *n_stops, found = run.stdout.split("\n")[:3]
    assert min(map(int, n_stops)) > 0, run.stderr
    assert found == "[[2, 0, 1]]"


COMPILED = [
    "al.DecisionTreeClassifier()",
    "al.RandomForestClassifier(50)",
    "al.GradientBoostingClassifier()",
    "al.AdaBoostClassifier()",
    "al.SVC()",
    "al.RipperClassifier(random_state=0)",
    "al.SequentialCoveringClassifier()",
    "al.GridSearch(al.GradientBoostingClassifier(), {'max_depth': [2, 3]})",
]


@pytest.mark.slow
@pytest.mark.parametrize("model", COMPILED)
def test_a_fit_stops_while_numba_compiles(tmp_path, model):
    """With an empty cache, as soon as it has begun; the next fit finds Numba whole."""
    program = (
        "import faulthandler; faulthandler.dump_traceback_later(200, exit=True)\n"
        "import os, signal, time, numpy as np, arraylearn as al\n"
        "from numba.core import event\n"
        "class Stop(event.Listener):\n"
        "    began = None\n"
        "    def on_start(self, _):\n"
        "        if self.began is None:\n"
        "            self.began = time.perf_counter()\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "    def on_end(self, _): pass\n"
        "stop, late = Stop(), None\n"
        "event.register('numba:compile', stop)\n"
        "X = np.random.default_rng(0).standard_normal((8000, 8))\n"
        "y = (X[:, 0] * X[:, 1] > 0).astype(int) + (X[:, 2] > 1)\n"
        f"model = {model}\n"
        "try:\n"
        "    model.fit(X, y)\n"
        "except KeyboardInterrupt:\n"
        "    late = time.perf_counter() - stop.began\n"
        "made = [name for name in vars(model) if name.endswith('_') and not name.startswith('_')]\n"
        "model.fit(X[:500], y[:500]).predict(X)\n"
        "print(late < 1, made, flush=True)\n"
        "os._exit(0)\n"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "ARRAYLEARN_COMPILED": "always"}
    run = subprocess.run(
        [sys.executable, "-c", program], env=environment, timeout=240, capture_output=True, text=True
    )
    assert run.stdout == "True []\n", run.stderr


@pytest.mark.slow
@pytest.mark.parametrize("subject", CHECKED, ids=str)
def test_a_fit_stops_within_a_second_of_an_interruption(subject):
    rng = np.random.default_rng(0)
    n = 2000
    while True:
        X = rng.standard_normal((n, 8))
        y = (X[:, 0] * X[:, 1] > 0).astype(int) + (X[:, 2] > 1)
        began = time.perf_counter()
        subject.make().fit(X, y)
        if (seconds := time.perf_counter() - began) > 0.5 or n > 10**6:
            break
        n *= 3
    for share in (0.2, 0.5, 0.8):
        model = subject.make()
        late = stopped_after(share * seconds, lambda model=model: model.fit(X, y))
        if late is not None:
            assert late < 1
            assert not [name for name in vars(model) if name.endswith("_")]
