"""The budget, chunks and retries; threads; numbers that are the same on every backend."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import joblib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import arraylearn as al
from arraylearn.backend import selector, threads
from arraylearn.backend.memory import is_out_of_memory, row_chunks, with_smaller_chunks
from arraylearn.backend.namespace import Place
from arraylearn.backend.random import as_generator, permutation, spawn
from arraylearn.backend.threads import parallel_map, run_jobs
from arraylearn.gaussian import class_moments, density
from arraylearn.tree import histogram
from tests.backends.assertions import assert_close

ROWS = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 4.0], [5.0, 7.0]])


@pytest.fixture(autouse=True)
def defaults():
    yield
    al.set_memory_budget(None)
    al.set_num_threads(None)


@pytest.mark.parametrize(
    ("text", "size"),
    [(1000, 1000), (np.int32(7), 7), ("1K", 1024), ("1.5 MB", 3 << 19), ("2GiB", 2 << 30), ("1tb", 1 << 40)],
)
def test_budget(text, size):
    al.set_memory_budget(text)
    assert al.get_memory_budget() == size


@pytest.mark.parametrize("budget", [0, -1, "", "much", "1XB", 1.5, True])
def test_budget_refuses(budget):
    with pytest.raises(ValueError, match="positive number of bytes"):
        al.set_memory_budget(budget)


def test_budget_from_the_environment(monkeypatch):
    monkeypatch.setenv("ARRAYLEARN_MEMORY_BUDGET", "5M")
    assert al.get_memory_budget() == 5 << 20


@given(n=st.integers(0, 300), width=st.integers(1, 50), budget=st.integers(1, 2000), most=st.integers(1, 100))
def test_chunks_cover_all_rows_once_within_the_budget(n, width, budget, most):
    al.set_memory_budget(budget)
    chunks = list(row_chunks(n, width, most=most))
    assert [i for rows in chunks for i in range(rows.start, rows.stop)] == list(range(n))
    for rows in chunks:
        size = rows.stop - rows.start
        assert 1 <= size <= most
        assert size == 1 or size * width <= budget


class OutOfMemoryError(RuntimeError):
    """Named as torch's and CuPy's are."""


@pytest.mark.parametrize("error", [MemoryError, OutOfMemoryError])
def test_out_of_memory_halves_the_budget_and_retries(error):
    whole = al.get_memory_budget()
    tried = []

    @with_smaller_chunks
    def work(limit):
        tried.append(al.get_memory_budget())
        if tried[-1] > limit:
            raise error
        return len(tried)

    assert work(whole // 4) == 3
    assert tried == [whole, whole // 2, whole // 4]
    assert al.get_memory_budget() == whole


def test_what_never_fits_is_reported():
    @with_smaller_chunks
    def work():
        raise MemoryError("full")

    with pytest.raises(al.MemoryBudgetError, match=r"even with temporaries cut down.*full"):
        work()


def test_other_errors_pass_at_once():
    tried = []

    @with_smaller_chunks
    def work():
        tried.append(1)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        work()
    assert tried == [1]
    assert not is_out_of_memory(KeyError())
    assert not is_out_of_memory(al.MemoryBudgetError())


@pytest.mark.parametrize(
    "call",
    [
        lambda: al.kernels.gram(ROWS),
        lambda: al.gaussian.log_density(ROWS, ROWS[:1], np.eye(2)[None]),
        lambda: al.gaussian.moments(ROWS, np.array([0, 0, 1, 1]), 2).mean,
        lambda: al.tree.class_histogram(ROWS.T.astype(np.uint8), np.array([0, 0, 1, 1]), 8, 2),
    ],
)
def test_public_array_functions_get_a_second_try(call, monkeypatch):
    whole = al.get_memory_budget()
    expected = call()
    seen = []
    real = selector.find_places

    def full_at_first(*arrays):
        seen.append(al.get_memory_budget())
        if len(seen) == 1:
            raise MemoryError
        return real(*arrays)

    for module in (al.kernels, density, class_moments, histogram):
        monkeypatch.setattr(module, "find_places", full_at_first)
    np.testing.assert_array_equal(call(), expected)
    assert seen == [whole, whole // 2]


def test_out_of_memory_of_the_library_is_recognised(rung, xp, device):
    """Ask each library for more than any machine has."""
    with pytest.raises(Exception, match=r"(?i)memory|allocate") as caught:
        xp.ones((1 << 58,), dtype=xp.int8, device=device)
    assert is_out_of_memory(caught.value)


def test_threads_share_the_work_and_keep_the_order():
    al.set_num_threads(3)
    barrier = threading.Barrier(3, timeout=20)

    def work(i):
        barrier.wait()  # passes only if three threads are here at once
        return i, threading.get_ident()

    results = parallel_map(work, range(3))
    assert [i for i, _ in results] == [0, 1, 2]
    assert len({thread for _, thread in results}) == 3


def test_nested_work_stays_in_its_thread():
    al.set_num_threads(2)

    def outer(i):
        return {threading.get_ident(), *parallel_map(lambda _: threading.get_ident(), range(5))}

    assert all(len(threads) == 1 for threads in parallel_map(outer, range(4)))


def test_one_thread_means_this_thread():
    al.set_num_threads(1)
    assert set(parallel_map(lambda _: threading.get_ident(), range(5))) == {threading.get_ident()}


def test_errors_of_a_thread_arrive():
    al.set_num_threads(2)
    with pytest.raises(ZeroDivisionError):
        parallel_map(lambda i: 1 // i, [1, 0, 1])


def test_the_pool_serves_after_an_error_and_no_item_is_lost():
    al.set_num_threads(3)
    done = []

    def work(i):
        done.append(i)
        if i % 7 == 3:
            raise KeyError(i)
        return i

    for _ in range(20):
        with pytest.raises(KeyError, match="3"):  # the first in the order of the items
            parallel_map(work, range(30))
    done.clear()
    assert parallel_map(lambda i: done.append(i) or i, range(100)) == list(range(100))
    assert sorted(done) == list(range(100))


def test_more_threads_than_cores_and_more_items_than_threads():
    n_threads = 4 * (os.cpu_count() or 1) + 3
    al.set_num_threads(n_threads)
    barrier = threading.Barrier(n_threads, timeout=60)

    def meet(i):
        barrier.wait()  # passes only if all threads are there at once
        return i

    assert parallel_map(meet, range(n_threads)) == list(range(n_threads))
    rows = np.random.default_rng(0).random((200, 3000))
    sums = parallel_map(lambda i: float(np.sort(rows[i]).sum()), range(200))
    assert sums == [float(np.sort(row).sum()) for row in rows]


def test_pools_of_others_call_into_ours():
    """Threads of a caller's own pool share ours: each gets its own results, and none waits for another."""
    al.set_num_threads(2)

    def outer(i):
        return parallel_map(lambda j: parallel_map(lambda k: 100 * i + 10 * j + k, range(3)), range(4))

    with ThreadPoolExecutor(6) as others:
        found = list(others.map(outer, range(12), timeout=60))
    assert found == [[[100 * i + 10 * j + k for k in range(3)] for j in range(4)] for i in range(12)]


def test_an_error_in_nested_work_arrives_once_through_both_levels():
    al.set_num_threads(2)

    def outer(i):
        return parallel_map(lambda j: 1 // (i - j), range(3))

    with pytest.raises(ZeroDivisionError):
        parallel_map(outer, range(6))
    assert parallel_map(lambda i: parallel_map(abs, [-i, i]), range(1, 3)) == [[1, 1], [2, 2]]


def test_the_number_of_threads_may_change_while_work_runs():
    al.set_num_threads(2)
    begun = threading.Event()

    def work(i):
        begun.set()
        time.sleep(0.01)
        return i

    with ThreadPoolExecutor(1) as other:
        running = other.submit(parallel_map, work, range(20))
        assert begun.wait(timeout=30)
        al.set_num_threads(3)
        assert parallel_map(work, range(6)) == list(range(6))
        assert running.result(timeout=30) == list(range(20))


def test_jobs_lead_to_further_jobs_in_all_threads():
    al.set_num_threads(3)
    met, done = threading.Barrier(3), []

    def first(thread):
        met.wait(timeout=30)  # passes only if three threads came
        return [second] * 4

    def second(thread):
        done.append(thread)
        return []

    run_jobs([], 3)
    assert not done
    run_jobs([first] * 3, 3)
    assert len(done) == 12
    assert set(done) <= {0, 1, 2}


def test_errors_of_jobs_arrive_and_end_the_others():
    al.set_num_threads(2)
    ran = []

    def fail(thread):
        raise ZeroDivisionError

    def endless(thread):
        ran.append(thread)
        time.sleep(0.001)
        return [endless]

    with pytest.raises(ZeroDivisionError):
        run_jobs([endless, endless, fail], 2)
    assert ran


def test_jobs_inside_a_worker_run_there():
    al.set_num_threads(2)
    idents = set()

    def job(thread):
        idents.add((thread, threading.get_ident()))
        return []

    def inside(_):
        before = threading.get_ident()
        run_jobs([job] * 3, 2)
        return before

    came = parallel_map(inside, range(4))
    assert {thread for thread, _ in idents} == {0}
    assert {ident for _, ident in idents} <= set(came)


def test_jobs_do_not_wait_for_threads_that_are_busy():
    al.set_num_threads(2)
    busy, hold, over = threading.Barrier(3), threading.Event(), []

    def block(_):
        busy.wait(timeout=30)
        hold.wait(timeout=30)

    blocked = threading.Thread(target=parallel_map, args=(block, range(2)))
    blocked.start()
    busy.wait(timeout=30)  # both threads of the pool have begun
    try:
        run_jobs([lambda thread: over.append(thread) or []] * 3, 2)
    finally:
        hold.set()
        blocked.join()
    assert over == [0, 0, 0]


@pytest.mark.parametrize("n", [0, -2, 1.5, True, "2"])
def test_number_of_threads_refuses(n):
    with pytest.raises(ValueError, match="at least 1"):
        al.set_num_threads(n)


def test_number_of_threads_of_numpy():
    al.set_num_threads(np.uint8(3))
    assert repr(al.get_num_threads()) == "3"


def test_default_is_all_cores(monkeypatch):
    monkeypatch.delenv("LOKY_MAX_CPU_COUNT", raising=False)
    assert al.get_num_threads() == joblib.cpu_count()
    monkeypatch.setenv("ARRAYLEARN_NUM_THREADS", "7")
    assert al.get_num_threads() == 7


@pytest.mark.parametrize(
    ("files", "n_cores"),
    [
        ({"cpu.max": "100000 100000\n"}, 1),
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu.max": "20000 100000\n"}, 1),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "250000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({"cpu.max": ""}, None),
        ({}, None),
    ],
)
def test_threads_follow_the_quota_of_a_container(monkeypatch, files, n_cores):
    def read(path, *args, **options):
        if (name := str(path.relative_to("/sys/fs/cgroup"))) not in files:
            raise FileNotFoundError(path)
        return files[name]

    monkeypatch.delenv("ARRAYLEARN_NUM_THREADS", raising=False)
    threads.quota_cores.cache_clear()
    with monkeypatch.context() as faked:
        faked.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
        faked.setattr(Path, "read_text", read)
        found = al.get_num_threads()
    threads.quota_cores.cache_clear()
    assert found == (n_cores or 64)


def test_a_forked_child_makes_its_own_threads():
    program = (
        "import os, sys, warnings; warnings.simplefilter('ignore')\n"
        "from arraylearn.backend.threads import parallel_map, set_num_threads\n"
        "set_num_threads(2); parallel_map(abs, range(4))\n"
        "pid = os.fork()\n"
        "if pid == 0: os._exit(0 if parallel_map(abs, [-1, -2]) == [1, 2] else 1)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


def test_a_child_forked_inside_a_worker_or_beside_running_work_computes():
    program = (
        "import os, sys, threading, time, warnings; warnings.simplefilter('ignore')\n"
        "from arraylearn.backend.threads import parallel_map, set_num_threads\n"
        "set_num_threads(3)\n"
        "def fork(_):\n"
        "    pid = os.fork()\n"
        "    if pid == 0: os._exit(0 if parallel_map(abs, [-1, -2, -3]) == [1, 2, 3] else 1)\n"
        "    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])\n"
        "busy = threading.Thread(target=parallel_map, args=(time.sleep, [0.05] * 12)); busy.start()\n"
        "beside = fork(0)\n"  # while the pool is at work
        "inside = parallel_map(fork, range(2))\n"
        "busy.join(); sys.exit(any([beside, *inside]))\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


def test_a_child_forked_while_another_thread_holds_a_lock_multiplies():
    program = (
        "import os, signal, sys, threading, warnings; warnings.simplefilter('ignore')\n"
        "from arraylearn.backend import threads\n"
        "held, done = threading.Event(), threading.Event()\n"
        "def hold():\n"
        "    with threads._blas_lock, threads._lock: held.set(); done.wait()\n"
        "holder = threading.Thread(target=hold); holder.start(); held.wait()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    signal.alarm(20)\n"  # ends a child that hangs
        "    threads.set_num_threads(2)\n"
        "    os._exit(0 if threads.parallel_blocks(abs, [-1, -2]) == [1, 2] else 1)\n"
        "done.set(); sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


def test_the_same_seed_gives_the_same_numbers_on_every_backend(rung):
    place = Place(rung.load(), rung.device)
    order = permutation(place, as_generator(7), 9)
    assert_close(order, np.random.default_rng(7).permutation(9))


def test_spawned_generators_do_not_depend_on_their_number():
    few = [rng.random() for rng in spawn(3, 2)]
    many = [rng.random() for rng in spawn(3, 5)]
    assert few == many[:2]
    assert len(set(many)) == 5


def test_random_state_in_every_spelling():
    rng = np.random.default_rng(1)
    assert as_generator(rng) is rng
    assert as_generator(1).random() == as_generator(np.int64(1)).random()
    assert as_generator(None).random() != as_generator(None).random()
    first = as_generator(np.random.RandomState(0)).random()
    assert first == as_generator(np.random.RandomState(0)).random()
    with pytest.raises(ValueError, match="cannot be used to seed"):
        as_generator("today")
