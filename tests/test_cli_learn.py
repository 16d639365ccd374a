"""``fit``, ``predict``, ``evaluate`` and ``tree`` as a user types them, from file to file."""

from __future__ import annotations

import csv

import numpy as np
import pytest

import arraylearn as al
from arraylearn import cli
from arraylearn.cli.learn import LEARNERS

pytest.importorskip("pyarrow")


@pytest.fixture
def flowers(tmp_path):
    """Iris as a file, with one column of text."""
    data = al.datasets.load_iris()
    path = tmp_path / "flowers.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["length", "width", "petal length", "petal width", "garden", "species"])
        for i, (row, label) in enumerate(zip(data.X.tolist(), data.y.tolist(), strict=True)):
            writer.writerow([*row, "north" if i % 3 else "south", f"iris {label}"])
    return path


def run(capsys, *arguments, status=0):
    assert cli.main([str(argument) for argument in arguments]) == status
    out, err = capsys.readouterr()
    return out if status == 0 else err


@pytest.mark.parametrize("learner", [name for name in LEARNERS if name not in ("svc", "full-bayes")])
def test_from_file_to_model_to_answers(flowers, tmp_path, capsys, learner):
    model, answers = tmp_path / "m.safetensors", tmp_path / "answers.csv"
    few = ["--set", "n_estimators=5"] if learner in ("forest", "boosting", "adaboost") else []
    told = run(capsys, "fit", flowers, "--learner", learner, *few, "--model", model)
    assert "150 rows, 5 columns, 3 classes" in told
    run(capsys, "predict", flowers, "--model", model, "--output", answers)
    with answers.open() as file:
        found = [row["prediction"] for row in csv.DictReader(file)]
    with flowers.open() as file:
        truth = [row["species"] for row in csv.DictReader(file)]
    share = np.mean([one == other for one, other in zip(found, truth, strict=True)])
    assert share > 0.9
    assert f"it saw: {share:.4f}" in told


def test_columns_are_found_by_name(flowers, tmp_path, capsys):
    model = tmp_path / "m.safetensors"
    run(capsys, "fit", flowers, "--target", "species", "--model", model)
    turned = tmp_path / "turned.csv"
    with flowers.open() as file:
        rows = list(csv.DictReader(file))
    names = ["garden", "another", "petal width", "petal length", "width", "length"]
    with turned.open("w", newline="") as file:
        writer = csv.DictWriter(file, names, extrasaction="ignore")
        writer.writeheader()
        writer.writerows({**row, "another": 7} for row in rows)
    assert run(capsys, "predict", turned, "--model", model) == run(
        capsys, "predict", flowers, "--model", model
    )
    turned.write_text("length,garden\n1,north\n")
    err = run(capsys, "predict", turned, "--model", model, status=2)
    assert "lacks 'width', 'petal length', 'petal width'" in err


def test_probabilities(flowers, tmp_path, capsys):
    model = tmp_path / "m.safetensors"
    run(capsys, "fit", flowers, "--learner", "naive-bayes", "--model", model)
    lines = list(csv.DictReader(run(capsys, "predict", flowers, "--model", model, "--proba").splitlines()))
    assert len(lines) == 150
    for line in lines:
        shares = {name: float(line[f"P({name})"]) for name in ("iris 0", "iris 1", "iris 2")}
        assert sum(shares.values()) == pytest.approx(1.0, abs=1e-4)
        assert line["prediction"] == max(shares, key=shares.get)


def test_parameters_are_python(flowers, tmp_path, capsys):
    model = tmp_path / "m.safetensors"
    run(
        capsys,
        "fit",
        flowers,
        "--set",
        "max_depth=1",
        "measure=entropy",
        "class_weight=None",
        "--model",
        model,
    )
    made = al.load(model)
    assert (made.max_depth, made.measure, made.class_weight) == (1, "entropy", None)
    assert made.get_depth() == 1


def test_evaluate_a_model(flowers, tmp_path, capsys):
    model = tmp_path / "m.safetensors"
    run(capsys, "fit", flowers, "--set", "max_depth=1", "--model", model)
    told = run(capsys, "evaluate", flowers, "--model", model)
    assert "accuracy 0.6667" in told  # one split tells one kind from the two others
    assert "iris 2" in told


def test_evaluate_a_learner(flowers, capsys):
    told = run(capsys, "evaluate", flowers, "--learner", "c45", "--folds", "5")
    assert "5 folds" in told
    assert "mean" in told


@pytest.mark.parametrize(
    ("kind", "text"),
    [("text", "petal width <= "), ("rpart", "*"), ("graphviz", "digraph"), ("rules", "-> iris 0")],
)
def test_tree(flowers, tmp_path, capsys, kind, text):
    assert text in run(capsys, "tree", flowers, "--format", kind)
    model = tmp_path / "m.safetensors"
    run(capsys, "fit", flowers, "--learner", "c45", "--model", model)
    assert run(capsys, "tree", "--model", model, "--format", kind) == run(
        capsys, "tree", flowers, "--format", kind
    )


def test_refusals(flowers, tmp_path, capsys):
    model = tmp_path / "m.safetensors"
    run(capsys, "fit", flowers, "--learner", "forest", "--set", "n_estimators=2", "--model", model)
    for arguments, told in (
        (["fit", "nothing.csv", "--model", model], "there is no file 'nothing.csv'"),
        (["fit", flowers, "--target", "colour", "--model", model], "must be a column of the file"),
        (["fit", flowers, "--set", "depth=3", "--model", model], "Did you mean 'max_depth'?"),
        (["fit", flowers, "--set", "max_depth", "--model", model], "takes NAME=VALUE"),
        (["fit", flowers, "--learner", "svc", "--model", model], "'garden'"),
        (["fit", flowers, "--model", tmp_path / "no" / "m.safetensors"], "there is no folder"),
        (["fit", flowers, "--backend", "torch:cuda:77", "--model", model], "not available here"),
        (["predict", flowers, "--model", tmp_path / "no.safetensors"], "there is no file"),
        (["predict", flowers, "--model", flowers], "must name a file written by `save`"),
        (["evaluate", flowers, "--model", model, "--learner", "c45"], "is fitted already"),
        (["tree"], "either a file of rows"),
        (["tree", "--model", model], "this is a RandomForestClassifier"),
    ):
        assert told in run(capsys, *arguments, status=2), arguments


def test_numeric_labels_and_a_numeric_learner(tmp_path, capsys):
    rng = np.random.default_rng(0)
    rows, path, model = rng.normal(size=(60, 2)), tmp_path / "rows.csv", tmp_path / "m.safetensors"
    body = "\n".join(f"{a},{b},{int(a + b > 0)}" for a, b in rows.tolist())
    path.write_text(f"a,b,y\n{body}\n")
    run(capsys, "fit", path, "--learner", "svc", "--set", "C=10.0", "--model", model)
    assert set(run(capsys, "predict", path, "--model", model).split()) == {"prediction", "0", "1"}
    err = run(capsys, "predict", path, "--model", model, "--proba", status=2)
    assert "fitted without probabilities" in err
