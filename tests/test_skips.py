"""The closed table of skips: what it lets pass, what it does not."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import skips
from tests.backends import rungs
from tests.reference_data import READERS, load_reference

ROOT = Path(__file__).parents[1]
NO_DATA = "no vote.arff in /somewhere; set ARRAYLEARN_REFERENCE_DATA"
N_READ = sum(reader.n_cases for reader in READERS.values())


def report(reason, rung=None):
    properties = [] if rung is None else [("rung", rung)]
    return SimpleNamespace(longrepr=("test_x.py", 3, f"Skipped: {reason}"), user_properties=properties)


NO_POLARS = report("could not import 'polars': No module named 'polars'")
NO_TORCH = report("rung torch: not installed: torch", "torch")
ODD = report("not today", "strict")


@pytest.mark.parametrize(
    ("reports", "is_ci", "told"),
    [
        ([], True, None),
        ([report(NO_DATA)] * N_READ, True, None),
        (
            [report(NO_DATA)] * (N_READ + 1),
            False,
            f"too many skips: no reference data (no rung: {N_READ + 1},",
        ),
        ([NO_POLARS] * 50, False, None),
        ([NO_POLARS], True, "not allowed in CI: package not installed (no rung: 1)"),
        ([NO_TORCH], False, None),
        ([NO_TORCH], True, "not allowed in CI: rung not available (torch: 1)"),
        ([ODD, ODD], False, "skip not declared in tests/skips.py: not today (strict: 2)"),
    ],
)
def test_what_fails_a_session(reports, is_ci, told):
    found = skips.faults(skips.count(reports), is_ci=is_ci)
    assert len(found) == (told is not None)
    assert told is None or found[0].startswith(told)


def test_a_file_skipped_as_a_whole_counts():
    whole = SimpleNamespace(longrepr=("test_x.py", 3, "Skipped: could not import 'numba': no"))
    counts = skips.count([whole, report("odd", "numpy"), report("odd", "numpy")])
    assert [line.split()[0] for line in skips.table(counts)] == ["2", "1", "3"]


def functions(test):
    path, _, _ = test.partition("::")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("test", READERS)
def test_a_claim_has_a_proof_without_outside_files(test):
    assert test.partition("::")[2] in functions(test)
    stand_in = READERS[test].stand_in
    proof = functions(stand_in)[stand_in.partition("::")[2]]
    assert "load_reference" not in ast.dump(proof)
    assert stand_in not in READERS


def test_outside_files_are_for_the_tests_in_the_list():
    with pytest.raises(LookupError, match=r"test_skips\.py::test_outside_files.*READERS"):
        load_reference("vote")


def test_groups_of_rungs():
    assert rungs.named("syncs") == rungs.named("launches") | {"strict"}
    assert rungs.named("float64") == set(rungs.RUNGS) - {"strict_float32"}
    assert rungs.named("guarded") == set(rungs.RUNGS) - {"numpy", "compiled", "torch"}
    assert rungs.named("host", "torch") == rungs.named("quick")
    with pytest.raises(KeyError):
        rungs.named("no such rung")


@pytest.mark.rungs("strict_float32")
def test_a_marker_leaves_cases_out(rung):
    assert rung.name == "strict_float32"


@pytest.mark.parametrize("name", ["numpy", pytest.param("only strict", marks=pytest.mark.rungs("strict"))])
def test_a_marker_of_a_value_leaves_cases_out(rung, name):
    assert name == "numpy" or rung.name == "strict"
