"""Mutated model files are refused or answer soundly; no file takes the process down."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import save_file

from arraylearn.io.model_files import _digest
from tests.io.fuzz import Worker, fuzz

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


@pytest.mark.parametrize(
    "text",
    ["[" + "[]," * 3_000_000 + "[]]", "[" + "{}," * 3_000_000 + "{}]", "[" + '"ab",' * 3_000_000 + "0]"],
    ids=["lists", "objects", "texts"],
)
def test_headers_that_swell_are_refused_within_the_memory_of_a_model(text, tmp_path):
    """Each would take more than ten times the file and 64 MB."""
    header = f'{{"format": 3, "written_by": {{}}, "model": {text}}}'
    save_file({}, tmp_path / "m", metadata={"arraylearn": header, "sha256": _digest(header, {})})
    np.savez(tmp_path / "probe.npz", X=np.zeros((1, 1)))
    worker = Worker()
    try:
        assert worker.judge(tmp_path / "m", tmp_path / "probe.npz")[0] == "refused"
    finally:
        worker.close()


@pytest.mark.slow
def test_many_mutated_files_are_harmless(tmp_path):
    assert_all_are_harmless(tmp_path, 10_000, seed=1)
