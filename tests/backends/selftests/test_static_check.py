"""static_check passes a correct file and catches one seeded bug of each kind."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.backends import static_check

pytest.importorskip("array_api_strict")

REPOSITORY = Path(__file__).parents[3]

CORRECT = """
def standardise(xp, x):
    centred = x - xp.mean(x, axis=0, keepdims=True)
    order = xp.argsort(centred[:, 0], descending=True, stable=True)
    return xp.take(centred, order, axis=0), xp.linalg.cholesky(x.T @ x, upper=False)
"""

WRONG = """
class Model:
    def fit(self, xp, x, k):
        xp.bincount(k)
        xp.argsort(x, kind="stable")
        xp.sum(x, 0)
        self.xp.linalg.lstsq(x, k)
        xp.zeros(3, device=None, order="C")
"""


def check(tmp_path, source, **options):
    path = tmp_path / "module.py"
    path.write_text(source)
    return static_check.check([tmp_path], **options)


def test_correct_file_passes(tmp_path):
    assert check(tmp_path, CORRECT) == []


@pytest.mark.parametrize(
    ("line", "text"), [(4, "bincount"), (5, "'kind'"), (6, "positional"), (7, "lstsq"), (8, "'order'")]
)
def test_wrong_call_is_found(tmp_path, line, text):
    findings = check(tmp_path, WRONG)
    assert any(f"module.py:{line}:" in finding and text in finding for finding in findings)


def test_allowed_names_are_skipped(tmp_path):
    findings = check(tmp_path, WRONG, allow=["bincount", "sort"])
    assert findings
    assert not any("bincount" in finding for finding in findings)


def test_another_name_for_the_namespace(tmp_path):
    assert check(tmp_path, WRONG, namespace="np") == []


def test_missing_path_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        static_check.check([tmp_path / "nowhere"])


@pytest.mark.parametrize(("source", "status"), [(CORRECT, 0), (WRONG, 1)])
def test_command_line(tmp_path, source, status):
    (tmp_path / "module.py").write_text(source)
    command = [sys.executable, "-m", "tests.backends.static_check", tmp_path]
    result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert result.returncode == status
    assert bool(result.stdout) is bool(status)


def test_functions_that_wait_are_found(tmp_path):
    path = tmp_path / "module.py"
    path.write_text("def f(xp, x):\n    return xp.clip(x, 0, 1)\n")
    assert "module.py:2: clip makes the host wait" in static_check.check([path])[0]
