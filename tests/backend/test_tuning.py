"""Thresholds change for a block, for all threads, and every field has a default and a reason."""

from __future__ import annotations

import dataclasses
import inspect
import threading
from itertools import pairwise

import pytest

from arraylearn.backend.dispatch import Tuning, get_tuning, tuned


def test_a_block_changes_what_it_names_and_nothing_else():
    with tuned(svm_path_rows=3) as changed, tuned(rule_counted_values=1):
        assert changed == Tuning(svm_path_rows=3)
        assert get_tuning() == Tuning(svm_path_rows=3, rule_counted_values=1)
    assert get_tuning() == Tuning()


def test_an_error_restores_the_thresholds():
    with pytest.raises(KeyError), tuned(compiled_values=1):
        raise KeyError
    assert get_tuning() == Tuning()


def test_worker_threads_see_the_change():
    seen = []
    worker = threading.Thread(target=lambda: seen.append(get_tuning().compiled_values))
    with tuned(compiled_values=7):
        worker.start()
        worker.join()
    assert seen == [7]


def test_unknown_names_are_refused():
    with pytest.raises(TypeError, match="no_such_threshold"), tuned(no_such_threshold=1):
        pass


def test_every_field_has_a_reason():
    above = dict(pairwise(reversed(inspect.getsource(Tuning).splitlines())))
    fields = {name: above[name] for name in above if name.lstrip().partition(":")[0].isidentifier()}
    assert len(fields) == len(dataclasses.fields(Tuning))
    assert [field for field, reason in fields.items() if not reason.lstrip().startswith("# ")] == []
