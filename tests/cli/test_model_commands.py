"""``fit``, ``predict``, ``evaluate`` and ``tree`` as a user types them, from file to file."""

from __future__ import annotations

import csv
import datetime

import numpy as np
import pytest

import arraylearn as al
from arraylearn import cli
from arraylearn.cli import model_commands
from arraylearn.cli.model_commands import LEARNERS
from arraylearn.io.files import read_table_file, split_target

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
    maker = getattr(al, LEARNERS[learner])
    known = {"n_estimators": 5, "random_state": 0}
    settings = {name: known[name] for name in known if name in maker().get_params()}
    few = ["--set", *(f"{name}={value}" for name, value in settings.items())] if settings else []
    told = run(capsys, "fit", flowers, "--learner", learner, *few, "--model", model)
    assert "150 rows, 5 columns, 3 classes" in told
    run(capsys, "predict", flowers, "--model", model, "--output", answers)
    with answers.open() as file:
        found = [row["prediction"] for row in csv.DictReader(file)]
    with flowers.open() as file:
        truth = [row["species"] for row in csv.DictReader(file)]
    X, y, _ = split_target(read_table_file(flowers), "species")
    assert found == maker().set_params(**settings).fit(X, y).predict(X).tolist()
    share = np.mean([one == other for one, other in zip(found, truth, strict=True)])
    assert f"it saw: {share:.4f}" in told


def test_the_order_of_declared_values_decides_ties(tmp_path, capsys):
    """Two rows of each class under b = ?: yes comes first, as J48 has it; branches come as declared."""
    rows, model = tmp_path / "rows.arff", tmp_path / "m.safetensors"
    text = "@attribute a {z, y, x}\n@attribute c {yes, no}\n@data\n"
    rows.write_text(text + "z, yes\nz, yes\nz, no\nz, no\ny, no\ny, no\nx, yes\nx, yes\n")
    shown = run(capsys, "tree", rows, "--set", "missing=fractional")
    assert [line.split()[2].rstrip(":") for line in shown.splitlines() if "=" in line] == ["z", "y", "x"]
    run(capsys, "fit", rows, "--learner", "id3", "--model", model)
    assert (
        run(capsys, "predict", rows, "--model", model).split()[1:] == ["yes"] * 4 + ["no"] * 2 + ["yes"] * 2
    )
    assert al.load(model).schema_.domains == (("z", "y", "x"),)
    judged = run(capsys, "evaluate", rows, "--model", model)
    assert judged.index("yes") < judged.index("no")
    sorted_rows = tmp_path / "rows.csv"
    sorted_rows.write_text("a,c\n" + rows.read_text().partition("@data\n")[2])
    run(capsys, "fit", sorted_rows, "--learner", "id3", "--model", model, "--force")
    assert run(capsys, "predict", sorted_rows, "--model", model).split()[1:5] == ["no"] * 4


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
        "criterion=entropy",
        "class_weight=None",
        "--model",
        model,
    )
    made = al.load(model)
    assert (made.max_depth, made.criterion, made.class_weight) == (1, "entropy", None)
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
    model, new = tmp_path / "m.safetensors", tmp_path / "new.safetensors"
    run(capsys, "fit", flowers, "--learner", "forest", "--set", "n_estimators=2", "--model", model)
    for arguments, told in (
        (["fit", "nothing.csv", "--model", new], "there is no file 'nothing.csv'"),
        (["fit", flowers, "--target", "colour", "--model", new], "must be a column of the file"),
        (["fit", flowers, "--set", "depth=3", "--model", new], "Did you mean 'max_depth'?"),
        (["fit", flowers, "--set", "max_depth", "--model", new], "takes NAME=VALUE"),
        (["fit", flowers, "--set", "max_depth=deep", "--model", new], "got 'deep'"),
        (["fit", flowers, "--learner", "svc", "--model", new], "'garden'"),
        (["fit", flowers, "--model", tmp_path / "no" / "m.safetensors"], "there is no folder"),
        (["fit", flowers, "--model", tmp_path], "is a folder"),
        (["fit", flowers, "--model", "/dev/null"], "must name a plain file"),
        (["fit", tmp_path, "--model", new], "must end with one of"),
        (["fit", flowers, "--backend", "torch:cuda:77", "--model", new], "not available here"),
        (["predict", flowers, "--model", tmp_path / "no.safetensors"], "there is no file"),
        (["predict", flowers, "--model", tmp_path], "is a folder"),
        (["predict", flowers, "--model", flowers], "must name a file written by `save`"),
        (["predict", flowers, "--model", model, "--force"], "name one, or leave it out"),
        (["evaluate", flowers, "--model", model, "--learner", "c45"], "is fitted already"),
        (["evaluate", flowers, "--model", model, "--folds", "3"], "leave out `--folds`"),
        (["evaluate", flowers, "--folds", "1"], "must be at least 2"),
        (["evaluate", flowers, "--folds", "51"], "at most the rows of the largest class of 'species' (50)"),
        (["tree"], "either a file of rows"),
        (["tree", "--model", model], "this is a RandomForestClassifier"),
        (["tree", "--model", model, "--set", "max_depth=1"], "leave out `--set`"),
    ):
        assert_refused(capsys, arguments, told)
    assert not new.exists()


def assert_refused(capsys, arguments, told):
    """Assert that an error is one line on stderr, and nothing else."""
    assert cli.main([str(argument) for argument in arguments]) == 2, arguments
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1), arguments
    assert err.startswith("arraylearn: ")
    assert told in err, arguments


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"a,y\n", "holds no rows"),
        ("a,y\n\xe9,1\n".encode("latin-1"), "is not UTF-8 text"),
        ("\xe9,y\n1,1\n".encode("latin-1"), "is not UTF-8 text"),
        (b"a,y\n1,x\n2\n", "row 2 of"),
        (b"a,a\n1,x\n", "several columns named 'a'"),
        (b"y\n1\n2\n", "no column besides 'y'"),
        (b"a,y\n1,x\n2,x\n", "a learner needs rows of at least two classes"),
        (b"a,y\n1,x\n2,\n", "1 rows have no 'y'"),
        (b"a,y\n1,0.5\n2,0.7\n", "continuous"),
        (b"a,y\n1,inf\n2,1\n", "continuous"),
        (b'a,y\n"' + b"x" * 200_000 + b'",1\n2,\n', "cannot be read as text with separators"),
    ],
)
def test_files_that_cannot_be_learned_from(tmp_path, capsys, content, told):
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    assert_refused(capsys, ["fit", path, "--model", tmp_path / "m.safetensors"], told)
    assert_refused(capsys, ["evaluate", path, "--learner", "tree", "--folds", "2"], told)
    assert [file.name for file in tmp_path.iterdir()] == ["rows.csv"]


# ---- what is written


def test_an_existing_file_is_replaced_only_with_force(flowers, tmp_path, capsys):
    model, answers = tmp_path / "m.safetensors", tmp_path / "answers.csv"
    for path in (model, answers):
        path.write_text("precious")
    assert_refused(capsys, ["fit", flowers, "--model", model], "replace it with --force")
    assert model.read_text() == "precious"
    run(capsys, "fit", flowers, "--model", model, "--force")
    command = ["predict", flowers, "--model", model, "--output", answers]
    assert_refused(capsys, command, "replace it with --force")
    assert answers.read_text() == "precious"
    answers.chmod(0o640)
    run(capsys, *command, "--force")
    assert len(answers.read_text().splitlines()) == 151
    assert answers.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("link", ["name", "other spelling", "symbolic", "hard"])
def test_an_input_is_never_overwritten(flowers, tmp_path, capsys, link):
    model = tmp_path / "m.safetensors"
    run(capsys, "fit", flowers, "--model", model)
    (tmp_path / "folder").mkdir()

    def alias(path):
        if link == "name":
            return path
        if link == "other spelling":
            return tmp_path / "folder" / ".." / path.name
        made = tmp_path / f"link to {path.name}"
        made.symlink_to(path) if link == "symbolic" else made.hardlink_to(path)
        return made

    before = flowers.read_bytes(), model.read_bytes()
    data, written = alias(flowers), alias(model)
    for arguments in (
        ["fit", flowers, "--model", data],
        ["fit", data, "--model", flowers],
        ["predict", flowers, "--model", model, "--output", data],
        ["predict", data, "--model", model, "--output", flowers],
        ["predict", flowers, "--model", model, "--output", written],
    ):
        assert_refused(capsys, [*arguments, "--force"], "never overwritten")
    assert (flowers.read_bytes(), model.read_bytes()) == before


def test_a_link_stays_a_link(flowers, tmp_path, capsys):
    model, answers = tmp_path / "m.safetensors", tmp_path / "answers.csv"
    for path in (model, answers):
        (tmp_path / f"real {path.name}").write_text("old")
        path.symlink_to(tmp_path / f"real {path.name}")
    run(capsys, "fit", flowers, "--model", model, "--force")
    run(capsys, "predict", flowers, "--model", model, "--output", answers, "--force")
    assert model.is_symlink()
    assert answers.is_symlink()
    assert (tmp_path / "real answers.csv").read_text().startswith("prediction\n")


def test_a_link_to_nothing_counts_as_a_file(flowers, tmp_path, capsys):
    model = tmp_path / "m.safetensors"
    model.symlink_to(tmp_path / "nothing")
    assert_refused(capsys, ["fit", flowers, "--model", model], "exists")


def test_a_prediction_that_fails_leaves_the_old_answers(flowers, tmp_path, capsys, monkeypatch):
    model, answers = tmp_path / "m.safetensors", tmp_path / "answers.csv"
    run(capsys, "fit", flowers, "--model", model)
    answers.write_text("old")

    def write_half(file, header, rows):
        file.write("prediction\n")
        raise OSError(28, "No space left on device", "answers")

    monkeypatch.setattr(model_commands, "_write", write_half)
    arguments = ["predict", flowers, "--model", model, "--output", answers, "--force"]
    assert_refused(capsys, arguments, "'answers': No space left on device")
    assert answers.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "answers.csv",
        "flowers.csv",
        "m.safetensors",
    ]


def test_a_folder_that_is_not_writable(flowers, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert_refused(capsys, ["fit", flowers, "--model", tmp_path / "m.safetensors"], "is not writable")


def test_answers_into_a_device_need_no_force(flowers, tmp_path, capsys):
    model = tmp_path / "m.safetensors"
    run(capsys, "fit", flowers, "--model", model)
    assert "150 answers" in run(capsys, "predict", flowers, "--model", model, "--output", "/dev/null")


# ---- what a model remembers


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_model_remembers_its_target(tmp_path, capsys, learner):
    path, model = tmp_path / "rows.csv", tmp_path / "m.safetensors"
    rng = np.random.default_rng(0)
    body = "".join(f"{'np'[int(a > 0)]},{a},{b}\n" for a, b in rng.normal(size=(40, 2)).tolist())
    path.write_text(f"sign,a,b\n{body}")
    few = ["--set", "n_estimators=2"] if learner in ("forest", "boosting", "adaboost") else []
    run(capsys, "fit", path, "--target", "sign", "--learner", learner, *few, "--model", model)
    made = al.load(model)
    assert (made.target_name_in_, made.feature_names_in_.tolist()) == ("sign", ["a", "b"])
    X, y, _ = split_target(read_table_file(path), "sign")
    assert f"accuracy {(made.predict(X) == y).mean():.4f}" in run(capsys, "evaluate", path, "--model", model)


def test_evaluate_needs_the_target_of_the_model(flowers, tmp_path, capsys):
    model, new = tmp_path / "m.safetensors", tmp_path / "new.csv"
    run(capsys, "fit", flowers, "--model", model)
    header, *rows = flowers.read_text().splitlines()

    def evaluate(*names, keep=5):
        new.write_text("\n".join(",".join(line.split(",")[:keep]) for line in [header, *rows]))
        return ["evaluate", new, "--model", model, *names]

    assert_refused(capsys, evaluate(), "must have the column 'species', which this model predicts")
    assert_refused(capsys, evaluate("--target", "kind"), "`--target` must be a column of")
    assert_refused(capsys, evaluate("--target", "width"), "one of the columns that this model predicts from")
    assert "accuracy 1.0000" in run(capsys, *evaluate(keep=6))
    new.write_text("\n".join([header.replace("species", "kind"), *rows]))
    assert "accuracy 1.0000" in run(capsys, "evaluate", new, "--model", model, "--target", "kind")
    new.write_text("\n".join([header, *(row.replace("iris ", "rose ") for row in rows)]))
    told = "must have classes of this model in 'species' ('iris 0', 'iris 1', 'iris 2')"
    assert_refused(capsys, ["evaluate", new, "--model", model], told)


def test_a_model_from_python_does_not_say_its_target(tmp_path, capsys):
    iris, path, model = al.datasets.load_iris(), tmp_path / "rows.csv", tmp_path / "m.safetensors"
    al.save(al.c45().fit(iris.X, iris.y), model)
    rows = [",".join(map(str, [*row, label])) for row, label in zip(iris.X, iris.y, strict=True)]
    path.write_text("\n".join(["a,b,c,d,y", *rows]))
    assert_refused(capsys, ["evaluate", path, "--model", model], "`--target` is needed")
    assert "accuracy 0.9800" in run(
        capsys, "evaluate", path, "--model", model, "--target", "y"
    )  # 3 of 150 wrong
    assert_refused(capsys, ["predict", path, "--model", model], "expecting 4 features")


def test_models_that_cannot_be_judged(flowers, tmp_path, capsys):
    iris, model = al.datasets.load_iris(), tmp_path / "m.safetensors"
    al.save(al.OneClassSVM().fit(iris.X), model)
    assert_refused(capsys, ["evaluate", flowers, "--model", model, "--target", "species"], "be a classifier")
    al.save(al.c45(), model)
    for command in (["predict", flowers], ["evaluate", flowers], ["tree"]):
        assert_refused(capsys, [*command, "--model", model], "not fitted yet")
    model.write_bytes(b"")
    assert_refused(capsys, ["predict", flowers, "--model", model], "written by `save`")


def test_text_columns_stay_text(tmp_path, capsys):
    """What a column holds in a few new rows does not say what it is."""
    path, model, new = tmp_path / "rows.csv", tmp_path / "m.safetensors", tmp_path / "new.csv"
    path.write_text("code,y\n1,a\n2,b\nx,b\n1,a\n2,b\n")
    run(capsys, "fit", path, "--learner", "id3", "--model", model)
    new.write_text("code\n1\n2\n")
    assert run(capsys, "predict", new, "--model", model).split() == ["prediction", "a", "b"]
    new.write_text("code\n?\n")
    assert run(capsys, "predict", new, "--model", model).split()[0] == "prediction"
    new.write_text("other\n1\n")
    assert_refused(capsys, ["predict", new, "--model", model], "lacks 'code'")


# ---- types and widths


def test_parquet_columns_that_cannot_be_learned_from(tmp_path, capsys):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path, model = tmp_path / "rows.parquet", tmp_path / "m.safetensors"
    columns = {"x": [1.0, 2.0, 3.0], "when": [datetime.date(2020, 1, 1)] * 3, "y": ["a", "b", "a"]}
    parquet.write_table(pyarrow.table(columns), path)
    assert_refused(capsys, ["fit", path, "--model", model], "column 'when' of")
    plain = tmp_path / "plain.parquet"
    parquet.write_table(pyarrow.table(columns).drop_columns("when"), plain)
    run(capsys, "fit", plain, "--model", model)
    # a model does not look at columns that it does not know
    assert run(capsys, "predict", path, "--model", model) == run(capsys, "predict", plain, "--model", model)
    assert run(capsys, "evaluate", path, "--model", model) == run(capsys, "evaluate", plain, "--model", model)


def test_twenty_thousand_columns(tmp_path, capsys):
    """Time grows with the columns, not with their square, and no message lists them all."""
    path, model = tmp_path / "wide.csv", tmp_path / "m.safetensors"
    cells = [[str(i % 2 * 9 + i // 2 + j % 5) for j in range(20_000)] for i in range(4)]
    rows = [",".join([*row, label]) for row, label in zip(cells, "abab", strict=True)]
    path.write_text("\n".join([",".join([*(f"c{i}" for i in range(20_000)), "y"]), *rows]))
    run(capsys, "fit", path, "--learner", "naive-bayes", "--model", model)
    assert run(capsys, "predict", path, "--model", model).split() == ["prediction", "a", "b", "a", "b"]
    narrow = tmp_path / "narrow.csv"
    narrow.write_text("c0,y\n1,a\n")
    assert_refused(capsys, ["predict", narrow, "--model", model], "and 19989 more")
    assert_refused(capsys, ["fit", path, "--target", "z", "--model", tmp_path / "n"], "and 19991 more")


def test_numeric_labels_and_a_numeric_learner(tmp_path, capsys):
    rng = np.random.default_rng(0)
    rows, path, model = rng.normal(size=(60, 2)), tmp_path / "rows.csv", tmp_path / "m.safetensors"
    body = "\n".join(f"{a},{b},{int(a + b > 0)}" for a, b in rows.tolist())
    path.write_text(f"a,b,y\n{body}\n")
    run(capsys, "fit", path, "--learner", "svc", "--set", "C=10.0", "--model", model)
    assert set(run(capsys, "predict", path, "--model", model).split()) == {"prediction", "0", "1"}
    err = run(capsys, "predict", path, "--model", model, "--proba", status=2)
    assert "fitted without probabilities" in err
