"""The harness is fair: turns, order, warm-up, threads, memory."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

from arraylearn.backend.costs import measure_peak
from arraylearn.backend.namespace import Place
from arraylearn.backend.threads import available_cores, get_num_threads
from arraylearn.bench import harness
from arraylearn.bench.conditions import describe_machine, is_quiet, threads


class Clock:
    """A clock that contestants move by hand."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def takes(self, seconds, name, log):
        def run():
            self.now += seconds
            log.append(name)
            return name

        return run


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(harness.time, "perf_counter", made)
    return made


def test_turns_are_interleaved_and_reversed(clock):
    log = []
    runs = {"a": clock.takes(1.0, "a", log), "b": clock.takes(2.0, "b", log)}
    times = harness.race_turns(runs, turns=3, clock=clock)
    assert log == ["a", "b", "a", "b", "b", "a", "a", "b"]  # the first two are the warm-up
    assert times == {"a": [1.0] * 3, "b": [2.0] * 3}


def test_no_turn_begins_that_would_end_too_late(clock):
    log = []
    times = harness.race_turns({"a": clock.takes(2.0, "a", log)}, turns=9, budget=7.0, clock=clock)
    assert times == {"a": [2.0, 2.0, 2.0]}
    assert harness.race_turns({"a": clock.takes(5.0, "a", log)}, turns=9, budget=7.0, clock=clock) == {
        "a": [5.0, 5.0]  # one turn has no spread
    }
    assert harness.race_turns({"a": clock.takes(50.0, "a", log)}, turns=9, budget=7.0, clock=clock) == {
        "a": [50.0]
    }


def test_short_work_is_repeated(clock):
    log = []
    times = harness.race_turns({"a": clock.takes(0.004, "a", log)}, turns=2, clock=clock)
    assert len(log) == 1 + 2 * 5  # 5 x 4 ms fill the 20 ms of a turn
    assert times["a"] == pytest.approx([0.004, 0.004])


def test_the_best_turn_counts(clock):
    seconds = iter([9.0, 3.0, 1.0, 2.0])  # the first is not timed

    def run():
        clock.now += next(seconds)

    times = harness.race_turns({"a": run}, turns=3, clock=clock)
    assert times == {"a": [3.0, 1.0, 2.0]}
    assert harness.compare_turns(times["a"], [8.0, 5.0, 6.0]).ratio == 5.0


def test_the_collector_is_back_after_an_error():
    import gc

    n_calls = iter(range(2))

    def fail():
        if next(n_calls):  # the first call is not timed
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        harness.race_turns({"a": fail}, turns=1)
    assert gc.isenabled()


def test_everyone_gets_the_same_threads():
    torch = pytest.importorskip("torch")
    from threadpoolctl import threadpool_info

    before, affinity = torch.get_num_threads(), os.sched_getaffinity(0)
    with threads(1):
        assert get_num_threads() == 1
        assert torch.get_num_threads() == 1
        assert {pool["num_threads"] for pool in threadpool_info()} == {1}
        if sys.platform == "linux":
            assert len(os.sched_getaffinity(0)) == 1
    assert torch.get_num_threads() == before
    assert os.sched_getaffinity(0) == affinity


def test_more_threads_than_cores_are_refused():
    with (
        pytest.raises(ValueError, match=f"`threads` must be from 1 to {available_cores()}"),
        threads(available_cores() + 1),
    ):
        pass


def test_the_machine_is_described():
    about = describe_machine()
    assert about["versions"]["numpy"] == np.__version__
    assert about["processor"]
    assert is_quiet(0.1) is True
    assert is_quiet(2.0) is False
    assert is_quiet(None) is None


@pytest.mark.parametrize("traced", [False, True])
def test_peak_of_memory_on_the_host(traced):
    with measure_peak(traced=traced) as peak:
        kept = np.ones(2_000_000)
        np.ones(6_000_000).sum()  # gone at the end, and counted
    assert 60e6 < peak.n_bytes < 80e6
    with measure_peak(traced=traced) as nothing:
        pass
    assert nothing.n_bytes < 4e6
    assert kept.shape


def test_peak_of_memory_on_a_device(rung, xp):
    with measure_peak(Place(xp, rung.device)) as peak:
        kept = rung.from_host(np.ones(2_000_000), "float32")
    assert peak.n_bytes >= 0  # the emulated devices have no pool to ask: only that the question is understood
    if rung.name == "numpy":
        assert 7e6 < peak.n_bytes < 40e6  # the copies on the way count, too
    assert kept.shape == (2_000_000,)
