"""Mutated model files are refused or answer soundly; no file takes the process down."""

from __future__ import annotations

import pytest

from tests.io.fuzz import fuzz

pytest.importorskip("numba")
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def assert_all_are_harmless(folder, n_files, seed):
    counts, unwanted = fuzz(folder, n_files, seed)
    print(f"{n_files} mutated files: {dict(counts)}")
    assert not unwanted, "\n".join(unwanted)
    # files that are refused whatever they hold would prove nothing
    assert counts["equal"] > n_files // 20
    assert counts["changed"] > 0
    assert counts["refused"] > n_files // 2


def test_mutated_files_are_harmless(tmp_path):
    assert_all_are_harmless(tmp_path, 400, seed=0)


@pytest.mark.slow
def test_many_mutated_files_are_harmless(tmp_path):
    assert_all_are_harmless(tmp_path, 10_000, seed=1)
