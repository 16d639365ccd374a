"""When primitives on NumPy run compiled bodies."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import arraylearn as al
from arraylearn.backend import dispatch
from arraylearn.backend.dispatch import (
    Tuning,
    is_worth_compiling,
    native,
    state_work,
    stated_work,
    tuned,
    use_compiled,
)
from tests.backends.rungs import RUNGS

ENOUGH = Tuning().compiled_values


def needs_numba(test):
    is_missing = not dispatch.is_numba_installed()
    return pytest.mark.rungs("compiled")(pytest.mark.skipif(is_missing, reason="not installed: numba")(test))


xp = RUNGS["numpy"].load()


@pytest.fixture
def invented(monkeypatch):
    """A primitive with two bodies that return which of them ran."""
    monkeypatch.setitem(dispatch._NUMPY, "double", lambda values: ("plain", 2 * values))
    monkeypatch.setitem(dispatch.COMPILED, "double", "nowhere")
    monkeypatch.setattr(dispatch, "_load_compiled", lambda name: lambda values: ("compiled", 2 * values))
    monkeypatch.setattr(dispatch, "is_numba_installed", lambda: True)


def body_for(n):
    values = np.ones(n)
    return native(xp, "double", values)(values)[0]


def test_a_body_depends_on_the_size_of_the_call_and_not_on_calls_before(invented):
    with use_compiled("auto"):
        assert body_for(10) == "plain"
        assert body_for(ENOUGH) == "compiled"
        assert body_for(10) == "plain"
        with tuned(compiled_values=10):
            assert body_for(10) == "compiled"


def test_without_a_body_for_numpy_the_portable_one_serves_small_calls(invented, monkeypatch):
    monkeypatch.delitem(dispatch._NUMPY, "double")
    with use_compiled("auto"):
        assert native(xp, "double", np.ones(10)) is None
        body = native(xp, "double", np.ones(ENOUGH // 2), np.ones(ENOUGH // 2))
        assert body(np.ones(1))[0] == "compiled"
    with use_compiled("never"):
        assert native(xp, "double", np.ones(ENOUGH)) is None


def test_always_and_never(invented):
    with use_compiled("always"):
        assert body_for(10) == "compiled"
    with use_compiled("never"):
        assert body_for(ENOUGH) == "plain"


def test_without_numba_all_is_left_to_numpy_and_a_warning_says_so_once(invented, monkeypatch):
    monkeypatch.setattr(dispatch, "is_numba_installed", lambda: False)
    monkeypatch.setattr(dispatch, "_has_warned", False)
    with use_compiled("never"):
        assert body_for(ENOUGH) == "plain"
    with use_compiled("auto"):
        assert body_for(10) == "plain"
        with pytest.warns(al.BackendFallbackWarning, match="slower. Remedy: pip install numba") as found:
            assert body_for(ENOUGH) == "plain"
        assert found[0].filename == __file__
        assert body_for(ENOUGH) == "plain"  # a second warning would be an error
    with pytest.raises(ImportError, match="pip install numba"):
        al.set_compiled("always")
    monkeypatch.setenv("ARRAYLEARN_COMPILED", "always")
    with pytest.raises(ImportError, match="ARRAYLEARN_COMPILED='always' needs Numba"):
        al.get_compiled()
    assert "not installed" in dispatch.describe_compiled()


_WITHOUT = """
import sys, warnings
sys.modules["numba"] = None  # cannot be imported, as if it were not there
import numpy as np
import arraylearn as al
X = np.random.default_rng(0).normal(size=(3000, 8))
y = (X[:, 0] + X[:, 1] > 0).astype(int)
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    for learner in (al.DecisionTreeClassifier(), al.RandomForestClassifier(n_estimators=3, random_state=0),
                    al.GradientBoostingClassifier(n_estimators=3), al.SVC()):
        print((learner.fit(X, y).predict(X) != y).sum())
print([str(each.message)[:22] for each in found], "numba" in sys.modules and sys.modules["numba"])
"""


def test_learners_do_without_numba():
    environment = {**os.environ, "ARRAYLEARN_COMPILED": "auto"}
    run = [sys.executable, "-c", _WITHOUT]
    done = subprocess.run(run, capture_output=True, text=True, check=True, env=environment)
    *wrong, last = done.stdout.splitlines()
    assert [int(n) < 300 for n in wrong] == [True] * 4
    assert last == "['Numba is not installed'] None"


_LOADS = """
import sys, warnings
import numpy as np
import arraylearn as al
mode, n_few = sys.argv[1], int(sys.argv[2])
al.set_compiled(mode)
warnings.simplefilter("ignore")  # Numba may be missing, few rounds do not converge
X = np.random.default_rng(0).normal(size=(3_740, 4))  # 40 values short of a tree that is worth it
y = (X[:, 0] + X[:, 1] > 0).astype(int)
of_trees = {"n_estimators": 12, "random_state": 0}
for learner in (al.DecisionTreeClassifier(), al.DecisionTreeClassifier(splitter="hist"),
                al.RandomForestClassifier(**of_trees), al.ExtraTreesClassifier(**of_trees),
                al.GradientBoostingClassifier(**of_trees), al.AdaBoostClassifier(**of_trees),
                al.NaiveBayesClassifier()):
    learner.fit(X, y).predict(X[:300])
for learner in al.SVC(), al.SVC(kernel="linear"), al.RipperClassifier(random_state=0):
    learner.fit(X[:n_few], y[:n_few]).predict(X[:n_few])
assert "numba" not in sys.modules
al.set_compiled("auto")
learner = al.DecisionTreeClassifier().fit(X[:-1].repeat(2, axis=0), y[:-1].repeat(2))
print("numba" in sys.modules)
"""


@needs_numba
@pytest.mark.parametrize(("mode", "n_few"), [("never", 3000), ("auto", 150)])
def test_numba_is_not_loaded_where_it_is_switched_off_or_there_is_little_work(mode, n_few):
    run = [sys.executable, "-c", _LOADS, mode, str(n_few)]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"]  # for the last of them, which is large


@contextlib.contextmanager
def call_of_learner():
    """Do what the door does around `fit` and `predict`."""
    token = stated_work.set([*(stated_work.get() or ())])
    yield
    stated_work.reset(token)


def test_the_first_that_a_call_of_a_learner_states_decides_for_all_its_parts(invented):
    with use_compiled("auto"):
        state_work(1, 1)  # outside of a call nothing is stated
        with call_of_learner():
            assert (body_for(10), body_for(ENOUGH)) == ("plain", "compiled")
            state_work(100, 100)
            assert body_for(10) == "compiled"
            with call_of_learner():
                state_work(99, 100)
                assert body_for(10) == "compiled"
        with call_of_learner():
            with call_of_learner():
                state_work(99, 100)
                assert body_for(ENOUGH) == "plain"
            assert body_for(ENOUGH) == "compiled"


def test_size_and_mode_decide_what_is_worth_compiling(monkeypatch):
    monkeypatch.setattr(dispatch, "is_numba_installed", lambda: True)
    sizes = (0, ENOUGH - 1, ENOUGH)
    for mode, wanted in (("auto", [False, False, True]), ("always", [True] * 3), ("never", [False] * 3)):
        with use_compiled(mode):
            assert [is_worth_compiling(n) for n in sizes] == wanted


def test_wrong_modes_are_refused(monkeypatch):
    with pytest.raises(ValueError, match="`mode` must be 'auto', 'always' or 'never'; got 'fast'"):
        al.set_compiled("fast")
    monkeypatch.setenv("ARRAYLEARN_COMPILED", "yes")
    with pytest.raises(ValueError, match="ARRAYLEARN_COMPILED must be"):
        al.get_compiled()


def test_a_block_leaves_the_mode_as_it_was():
    before = al.get_compiled()
    with pytest.raises(RuntimeError, match="inside"), use_compiled("never"):
        raise RuntimeError("inside")
    assert al.get_compiled() == before


@needs_numba
@pytest.mark.parametrize("name", sorted(dispatch.COMPILED))
def test_every_entry_has_a_body(name):
    assert dispatch._load_compiled(name).__name__ == name


@needs_numba
def test_without_a_folder_to_keep_it_all_is_compiled_for_the_process(monkeypatch):
    from arraylearn.backend.cpu import jit

    monkeypatch.setattr(jit, "_folder", lambda: None)
    double = jit.compiled(lambda values: 2 * values)
    np.testing.assert_array_equal(double(np.arange(3)), [0, 2, 4])


@needs_numba
def test_long_compiling_is_logged_once_and_short_compiling_is_not(caplog):
    from arraylearn.backend.cpu.jit import CompileNotice

    def compile_for(notice, seconds):
        notice.on_start(None)
        notice.on_start(None)  # a callee
        time.sleep(seconds / 2)
        notice.on_end(None)
        time.sleep(seconds / 2)
        notice.on_end(None)

    notice = CompileNotice(0.3)
    compile_for(notice, 0.02)
    assert not caplog.records
    for _ in range(3):
        compile_for(notice, 0.2)  # together they take long
    (record,) = caplog.records
    assert record.name == "arraylearn.compile"
    assert "`arraylearn compile`" in record.message


_CALLER = """
from arraylearn.backend.cpu.jit import entry
from arraylearn.callee_cpu import formula

@entry
def double(number):
    return 2 * formula(number)
"""
_CALLEE = """
from arraylearn.backend.cpu.jit import part
from arraylearn.constants import MORE

@part
def formula(number):
    return number + {added} + MORE
"""


@needs_numba
def test_a_change_of_a_callee_in_another_file_is_seen(tmp_path):
    # a copy of the package as a user would edit it: the caller does not change, the callee and a constant do
    copy = tmp_path / "arraylearn"
    shutil.copytree(Path(al.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "caller_cpu.py").write_text(_CALLER)
    code = "from arraylearn.caller_cpu import double; print(double(1), sum(double.stats.cache_hits.values()))"
    printed = []
    for added, more in ((1, 0), (1, 0), (5, 0), (5, 1)):
        (copy / "callee_cpu.py").write_text(_CALLEE.format(added=added))
        (copy / "constants.py").write_text(f"MORE = {more}")
        run = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": ""},
        )
        printed.append(run.stdout.split())
    assert printed == [["4", "0"], ["4", "1"], ["12", "0"], ["14", "0"]]
    assert len(list(copy.glob("backend/cpu/__pycache__/arraylearn-*"))) == 1  # the stale one is removed


@needs_numba
def test_a_part_becomes_machine_code_in_its_callers_alone():
    from arraylearn.backend.cpu import jit

    double = jit.part(lambda number: number + number)
    add = jit._compile(lambda number: double(number) + 1)
    assert add(3) == 7
    engine = jit.numba.core.registry.cpu_target.target_context.codegen()._engine
    (own,), (kept,) = double.overloads.values(), add.overloads.values()
    assert engine.is_symbol_defined(kept.fndesc.llvm_func_name)
    assert not engine.is_symbol_defined(own.fndesc.llvm_func_name)


@needs_numba
def test_info_names_numba(capsys):
    from arraylearn import cli

    assert cli.main(["info"]) == 0
    assert "by Numba" in capsys.readouterr().out


@needs_numba
@pytest.mark.slow
def test_all_learners_are_compiled_on_request(capsys):
    from arraylearn import cli

    assert cli.main(["compile"]) == 0
    assert "compiled for 10 learners" in capsys.readouterr().out
    from arraylearn.svm.solvers import pair_loops_cpu

    dtypes = {str(blocks.types[0].dtype) for blocks, *_ in pair_loops_cpu.climb_each.signatures}
    assert dtypes == {"float32", "float64"}  # of large problems, of small ones


def test_compiling_without_numba_says_what_to_install(monkeypatch, capsys):
    from arraylearn import cli

    monkeypatch.setattr(dispatch, "is_numba_installed", lambda: False)
    assert cli.main(["compile"]) != 0
    assert "pip install" in capsys.readouterr().err
