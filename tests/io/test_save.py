"""Models in files: everything comes back, nothing is executed, nothing is half written."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import arraylearn as al
from arraylearn.io.decode import Decoder
from arraylearn.io.encode import Encoder
from arraylearn.io.model_files import _digest

IRIS = al.datasets.load_iris()
TENNIS = al.datasets.load_tennis()
FRAME = TENNIS.frame("pandas")
MODELS = {
    "naive": al.NaiveBayesClassifier(),
    "full": al.FullBayesClassifier(shrinkage="auto"),
    "id3": al.id3(),
    "c45": al.c45(),
    "cart": al.cart(),
    "forest": al.RandomForestClassifier(n_estimators=5, random_state=np.random.RandomState(3)),
    "extra_trees": al.ExtraTreesClassifier(n_estimators=30, bootstrap=True, oob_score=True, random_state=0),
    "clouds": al.DecisionTreeClassifier(splitter="clouds"),
    "surrogates": al.DecisionTreeClassifier(missing="surrogate", nominal="binary"),
    "precomputed": al.SVC(kernel="precomputed"),
    "warm": al.SVC(kernel="poly", warm_start=True),
    "adaboost": al.AdaBoostClassifier(n_estimators=3),
    "boosting": al.GradientBoostingClassifier(n_estimators=3),
    "ripper": al.RipperClassifier(random_state=0),
    "covering": al.SequentialCoveringClassifier(),
    "svc": al.SVC(probability=True, random_state=0),
    "svc_sum": al.SVC(kernel=al.kernels.as_kernel("rbf", gamma=0.5) + al.kernels.as_kernel("linear")),
    "hard": al.SVC(kernel="linear", C=float("inf"), multiclass="ovr"),
    "one_class": al.OneClassSVM(nu=0.2),
    "svdd": al.SVDD(),
}
NUMERIC_ONLY = {"full", "clouds", "svc", "svc_sum", "precomputed", "warm", "hard", "one_class", "svdd"}


def rows(name, kind):
    if kind == "numbers":
        is_two = IRIS.y < (2 if name == "hard" else 3)
        X = IRIS.X[is_two]
        if name == "precomputed":
            X = X @ X.T
        if name == "surrogates":
            X = np.where(np.arange(X.size).reshape(X.shape) % 7 == 0, np.nan, X)
        return X, IRIS.y[is_two]
    X = FRAME.drop(columns=TENNIS.target)
    if name == "surrogates":
        X = X.where(np.arange(X.size).reshape(X.shape) % 7 != 0, None)
    return X, FRAME[TENNIS.target]


def outputs(model, X):
    names = ("predict", "predict_proba", "decision_function", "apply")
    return [np.asarray(getattr(model, name)(X)) for name in names if hasattr(model, name)]


CASES = [
    (name, kind)
    for name in MODELS
    for kind in ("numbers", "frame")
    if kind == "numbers" or name not in NUMERIC_ONLY
]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_everything_comes_back(name, kind, tmp_path):
    X, y = rows(name, kind)
    model = clone(MODELS[name]).fit(X, y)
    al.save(model, tmp_path / "m.safetensors")
    again = al.load(tmp_path / "m.safetensors")
    assert type(again) is type(model)
    assert sorted(again.__dict__) == sorted(model.__dict__)
    for ours, theirs in zip(outputs(model, X), outputs(again, X), strict=True):
        assert ours.dtype == theirs.dtype
        if ours.dtype.kind == "f":  # BLAS may add up in another order for another alignment
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)
        else:
            np.testing.assert_array_equal(ours, theirs)
    if name == "forest":
        assert again.random_state.randint(1 << 30) == model.random_state.randint(1 << 30)
    else:
        assert str(again.get_params()) == str(model.get_params())
    assert list(tmp_path.iterdir()) == [tmp_path / "m.safetensors"]


OPTIONS = {
    "tree": (al.DecisionTreeClassifier, [
        {"splitter": "hist"},
        {"splitter": "clouds_sampling"},
        {"max_leaf_nodes": 6},
        {"max_depth": 2, "nominal": "binary", "missing": "direction"},
        {"missing": "fractional", "collapse": True},
        {"pruning": "cost_complexity", "random_state": 0},
        {"pruning": al.pruning.ReducedError(raising=True), "random_state": 0},
        {"criterion": "gain_ratio", "pruning": al.pruning.ChiSquare(0.1)},
    ]),
    "boosting": (al.GradientBoostingClassifier, [
        {"n_estimators": 3, "max_bins": 8, "min_samples_leaf": 2},
        {"n_estimators": 20, "early_stopping": True, "random_state": 0},
        {"n_estimators": 3, "max_leaf_nodes": 4, "subsample": 0.5, "random_state": 0},
    ]),
    "forest": (al.RandomForestClassifier, [{"n_estimators": 2, "max_depth": 1, "random_state": 0}]),
    "adaboost": (al.AdaBoostClassifier, [{"estimator": al.NaiveBayesClassifier(), "n_estimators": 2}]),
    "full": (al.FullBayesClassifier, [{"covariance": "shared"}, {"covariance": "diagonal"}]),
    "covering": (al.SequentialCoveringClassifier, [{"conflict": "strictest"}, {"max_rules": 1}]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "options"),
    [(kind, options) for kind, several in OPTIONS.values() for options in several],
    ids=str,
)
def test_what_any_option_leaves_behind_passes_its_check(kind, options, tmp_path):
    X = np.where(np.arange(IRIS.X.size).reshape(IRIS.X.shape) % 9 == 0, np.nan, IRIS.X)
    X = IRIS.X if kind is al.FullBayesClassifier else X
    model = kind(**options).fit(X, IRIS.y)
    al.save(model, tmp_path / "m")
    np.testing.assert_array_equal(al.load(tmp_path / "m").predict(X), model.predict(X))


def test_the_backend_may_be_chosen_when_loading(tmp_path):
    al.save(al.NaiveBayesClassifier(backend="numpy").fit(IRIS.X, IRIS.y), tmp_path / "m")
    assert al.load(tmp_path / "m").backend == "numpy"
    assert al.load(tmp_path / "m", backend="auto").backend == "auto"
    with pytest.raises(ValueError, match="abacus"):
        al.load(tmp_path / "m", backend="abacus")


def test_unfitted_estimators_have_files_too(tmp_path):
    al.save(al.SVC(C=3.0), tmp_path / "m")
    assert al.load(tmp_path / "m").get_params() == al.SVC(C=3.0).get_params()


def test_an_array_in_two_places_is_written_once():
    """AdaBoost shows its trees in two attributes."""
    model = al.AdaBoostClassifier(n_estimators=3).fit(IRIS.X, IRIS.y)
    whole, part = Encoder(), Encoder()
    whole.encode(model, "model")
    part.encode(model.model_, "model")
    assert len(whole.arrays) < len(part.arrays) + 10


@pytest.mark.parametrize(
    "value",
    [
        None,
        [1, (2.5, "x"), {"a": [True], 3: float("-inf")}],
        np.float32(2.5),
        np.array(["a", "bc"]),
        np.array([[1, None], ["x", 2.5]], dtype=object),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.zeros((0, 3), dtype=np.uint8),
        np.array(7, dtype=np.int32),
    ],
    ids=repr,
)
def test_values_come_back_with_their_types(value):
    encoder = Encoder()
    text = json.dumps(encoder.encode(value, "value"))
    again = Decoder(encoder.arrays, None).decode(json.loads(text))
    assert type(again) is type(value)
    assert repr(again) == repr(value)
    if isinstance(value, np.ndarray):
        assert again.flags.f_contiguous == value.flags.f_contiguous
        assert again.dtype == value.dtype


def test_what_is_no_estimator_of_ours_is_refused(tmp_path):
    with pytest.raises(TypeError, match="`model` must be a learner of arraylearn; got sklearn"):
        al.save(LogisticRegression(), tmp_path / "m")


def test_a_function_is_refused_with_its_place(tmp_path):
    (tmp_path / "m").write_text("before")
    with pytest.raises(TypeError, match=r"builtins\.function at SVC\.kernel, which a file without pickle"):
        al.save(al.SVC(kernel=lambda x, z: x @ z.T), tmp_path / "m")
    assert (tmp_path / "m").read_text() == "before"
    assert len(list(tmp_path.iterdir())) == 1


def rewrite(path, change):
    """Change the JSON of a file and give it its digest again."""
    with safe_open(path, framework="numpy") as file:
        about = json.loads(file.metadata()["arraylearn"])
        arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    change(about, arrays)
    text = json.dumps(about)
    save_file(arrays, path, metadata={"arraylearn": text, "sha256": _digest(text, arrays)})


@pytest.fixture
def tree_file(tmp_path):
    al.save(al.DecisionTreeClassifier().fit(IRIS.X, IRIS.y), tmp_path / "m")
    return tmp_path / "m"


@pytest.mark.parametrize(
    "name", ["os:system", "arraylearn.__main__:X", "arraylearn.io.model_files:os.system"]
)
@pytest.mark.parametrize("kind", ["record", "estimator"])
def test_names_are_not_imported(kind, name, tree_file):
    def change(about, arrays):
        about["model"] = {kind: name, "fields": {}, "state": {}}

    rewrite(tree_file, change)
    with pytest.raises(ValueError, match=f"'{name}', which this version of arraylearn does not know"):
        al.load(tree_file)


def test_files_of_others_are_refused(tmp_path):
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ValueError, match="`path` must name a file written by `save`"):
        al.load(tmp_path / "text")
    save_file({"weight": np.ones(2)}, tmp_path / "other")
    with pytest.raises(ValueError, match="holds tensors of something else"):
        al.load(tmp_path / "other")
    with pytest.raises(FileNotFoundError):
        al.load(tmp_path / "absent")


@pytest.mark.parametrize(("number", "remedy"), [(1, "Fit the model anew"), (9, "Update arraylearn")])
def test_another_format_is_refused_with_both_numbers(number, remedy, tree_file):
    rewrite(tree_file, lambda about, arrays: about.update(format=number))
    with pytest.raises(
        ValueError, match=f"has format {number}, and this version .* reads format 3. {remedy}"
    ):
        al.load(tree_file)


def test_the_versions_of_the_writer_are_recorded(tree_file):
    with safe_open(tree_file, framework="numpy") as file:
        written_by = json.loads(file.metadata()["arraylearn"])["written_by"]
    assert written_by["arraylearn"] == al.__version__
    assert written_by["numpy"] == np.__version__
    assert set(written_by) == {"arraylearn", "numpy", "python", "scikit-learn"}


def test_a_missing_parameter_takes_its_default_with_one_note(tree_file):
    def change(about, arrays):
        del about["model"]["state"]["max_depth"]
        del about["model"]["state"]["random_state"]

    rewrite(tree_file, change)
    with pytest.warns(UserWarning, match=r"lacks tree\.max_depth, tree\.random_state") as notes:
        model = al.load(tree_file)
    assert len(notes) == 1
    assert notes[0].filename == __file__
    assert model.max_depth is None
    assert model.predict(IRIS.X).tolist() == IRIS.y.tolist()


@pytest.mark.parametrize("name", ["depth_limit", "predict", "clouds_", "model"])
def test_an_unknown_parameter_or_attribute_is_refused(name, tree_file):
    rewrite(tree_file, lambda about, arrays: about["model"]["state"].update({name: 3}))
    with pytest.raises(ValueError, match=f"tree has no '{name}'"):
        al.load(tree_file)


def test_a_changed_byte_is_found(tree_file):
    """Of a threshold, say: nothing else could tell that it is another number."""
    content = bytearray(tree_file.read_bytes())
    content[-100] ^= 1
    tree_file.write_bytes(content)
    with pytest.raises(ValueError, match="another digest"):
        al.load(tree_file)


# ---- files that are not what they seem, with the right digest


def changed(**values):
    """Return a change of arrays of the root record, given as functions of the old ones."""

    def change(about, arrays):
        fields = about["model"]["state"]["model_"]["fields"]
        for name, value in values.items():
            key = fields[name]["array"]
            arrays[key] = np.ascontiguousarray(value(arrays[key]))

    return change


def put(position, value):
    def write(array):
        copy = array.copy()
        copy[position] = value
        return copy

    return write


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed(first_child=put(0, 0)), "children must stand behind their parents"),
        (changed(first_child=put(0, 3)), "every node must have one parent"),
        (changed(n_branches=put(0, 3)), "every node must have one parent"),
        (changed(n_branches=put(-1, 2)), "leaves must have no branches"),
        (changed(roots=put(0, 1)), "roots must ascend from the first node"),
        (changed(feature=put(0, 4)), r"feature must lie in -1 \.\. 3; got -1 \.\. 4"),
        (changed(feature=put(0, -1)), "leaves must ask no column"),
        (changed(map_start=put(0, 0)), "splits must fit their columns"),
        (changed(threshold=put(0, np.nan)), "threshold must lie in"),
        (changed(threshold=lambda old: old[:-1]), r"threshold must have shape \(17\); got \(16,\)"),
        (changed(counts=lambda old: old[:, :2]), r"counts must have shape \(17, 3\); got \(17, 2\)"),
        (changed(probability=lambda old: old.astype(np.int64)), "probability must be an array of float"),
        (changed(default_branch=put(0, 2)), "default branches must exist"),
        (changed(depth=lambda old: old * 0), "depths must follow the parents"),
    ],
)
def test_unsound_trees_are_refused(change, message, tree_file):
    rewrite(tree_file, change)
    with pytest.raises(ValueError, match=message):
        al.load(tree_file)


def changed_trees(**values):
    """Return a change of boosted trees: arrays are given as functions of the old ones."""

    def change(about, arrays):
        fields = about["model"]["state"]["model_"]["fields"]["trees"]["fields"]
        for name, value in values.items():
            if callable(value):
                key = fields[name]["array"]
                arrays[key] = np.ascontiguousarray(value(arrays[key]))
            else:
                fields[name] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed_trees(first_child=put(0, 3)), "every node must have one parent or be a root"),
        (changed_trees(roots=lambda old: old[::-1]), "roots must ascend from the first node"),
        (changed_trees(height=1), r"height must be an integer from 2 to 2; got 1"),
        (changed_trees(threshold=lambda old: old + 99), "threshold must lie in"),
        (changed_trees(default_branch=put(0, 2)), r"default_branch must lie in 0 \.\. 1"),
        (changed_trees(category_branch=lambda old: old[:-1]), "map_start must lie in"),
        (changed_trees(map_start=lambda old: old - (old > 0)), "every bin must have its branch"),
        (changed_trees(map_start=None), "splits by category must have branches"),
        (changed_trees(gain={"float": "0.0"}), "gain must be null"),
        (changed_trees(probability=3), "probability must be null"),
    ],
)
def test_unsound_boosted_trees_are_refused(change, message, tmp_path):
    X = np.stack((np.arange(60) % 5, np.arange(60) // 20), axis=1)
    model = al.GradientBoostingClassifier(
        n_estimators=3, max_depth=2, min_samples_leaf=1, categorical_features=[0]
    ).fit(X, (X[:, 0] % 2 + X[:, 1]) % 3)
    assert (model.model_.trees.map_start > 0).any()
    al.save(model, tmp_path / "m")
    al.load(tmp_path / "m")
    rewrite(tmp_path / "m", change)
    with pytest.raises(ValueError, match=message):
        al.load(tmp_path / "m")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000 + "]" * 100_000, "recursion"),
        ('{"format": 3, "model": [' + "[]," * 2_000_000 + "[]]}", "would take more memory"),
        ('{"format": 3, "model": {"values": ["a"], "dtype": "<U999999999", "shape": [1]}}', "texts of up to"),
        ('{"format": 3, "model": NaN}', "its header holds NaN"),
        ('{"format": 3, "model": {"tuple": []}}', "it holds no estimator"),
        ('{"format": "2"}', "it has no format"),
    ],
    ids=["deep", "bomb", "text", "constant", "tuple", "format"],
)
def test_headers_that_ask_for_too_much_are_refused(text, message, tmp_path):
    save_file({}, tmp_path / "m", metadata={"arraylearn": text, "sha256": _digest(text, {})})
    with pytest.raises(ValueError, match=message):
        al.load(tmp_path / "m")


@pytest.mark.parametrize(("bits", "name"), [("MT19937", "pos"), ("Philox", "buffer_pos")])
def test_positions_of_a_random_generator_are_checked(bits, name, tmp_path):
    """NumPy would read beyond the buffer."""
    generator = np.random.Generator(getattr(np.random, bits)(1))
    generator.integers(9)
    al.save(al.RandomForestClassifier(random_state=generator), tmp_path / "m")
    assert al.load(tmp_path / "m").random_state.integers(1 << 40) == generator.integers(1 << 40)

    def change(about, arrays):
        text = json.dumps(about)
        position = re.search(f'"{name}", ([0-9]+)', text)
        about.update(json.loads(text[: position.start(1)] + "123456" + text[position.end(1) :]))

    rewrite(tmp_path / "m", change)
    with pytest.raises(ValueError, match=f"its {name} at 123456"):
        al.load(tmp_path / "m")


# ---- writing


def test_what_was_there_stays_when_writing_is_interrupted(tree_file, monkeypatch):
    before = tree_file.read_bytes()

    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    for call in ("arraylearn.io.model_files.save_file", "os.fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(call, interrupt)
            with pytest.raises(KeyboardInterrupt):
                al.save(al.id3(), tree_file)
        assert tree_file.read_bytes() == before
        assert list(tree_file.parent.iterdir()) == [tree_file]


def test_what_was_there_stays_when_the_disk_is_full(tmp_path):
    """A limit on the size of files stands for the disk; in a process of its own, as it cannot be lifted."""
    al.save(al.SVC(), tmp_path / "m")
    before = (tmp_path / "m").read_bytes()
    code = f"""
import resource, signal
import numpy as np
import arraylearn as al
model = al.SVC().fit(np.arange(40000.0).reshape(400, 100), np.arange(400) % 2)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
try:
    al.save(model, {str(tmp_path / "m")!r})
except OSError as error:
    print("refused:", error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("refused: `path`:")
    assert (tmp_path / "m").read_bytes() == before
    assert list(tmp_path.iterdir()) == [tmp_path / "m"]


def test_what_was_there_stays_without_permission(tree_file, monkeypatch):
    """The superuser may write anywhere, so that the refusal comes from a stand-in for the system's call."""
    before = tree_file.read_bytes()

    def refuse(*arguments):
        raise PermissionError(13, "Permission denied", "draft")

    monkeypatch.setattr("os.open", refuse)
    with pytest.raises(PermissionError):
        al.save(al.id3(), tree_file)
    monkeypatch.undo()
    assert tree_file.read_bytes() == before
    assert list(tree_file.parent.iterdir()) == [tree_file]


def test_a_file_is_on_the_disk_before_it_takes_the_place_of_another(tree_file, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)

        def call(*arguments, name=name, real=real):
            calls.append(name)
            return real(*arguments)

        monkeypatch.setattr(f"os.{name}", call)
    al.save(al.id3(), tree_file)
    assert calls == ["fsync", "replace", "fsync"]


def test_a_file_keeps_to_the_usual_permissions_and_to_links(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "m")
    al.save(al.id3(), tmp_path / "link")
    (tmp_path / "other").write_text("x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "m").stat().st_mode == (tmp_path / "other").stat().st_mode
    (tmp_path / "other").chmod(0o640)
    al.save(al.id3(), tmp_path / "other")
    assert (tmp_path / "other").stat().st_mode & 0o777 == 0o640
