"""Models in files: everything comes back, nothing is executed, nothing is half written."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import save_file
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import arraylearn as al
from arraylearn.io.decode import Decoder
from arraylearn.io.encode import Encoder

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
    "adaboost": al.AdaBoostClassifier(n_estimators=3),
    "boosting": al.GradientBoostingClassifier(n_estimators=3),
    "ripper": al.RipperClassifier(random_state=0),
    "covering": al.SequentialCoveringClassifier(),
    "svc": al.SVC(probability=True, random_state=0),
    "svc_sum": al.SVC(kernel=al.kernels.as_kernel("rbf", gamma=0.5) + al.kernels.as_kernel("linear")),
    "hard": al.SVC(kernel="linear", C=float("inf"), multiclass="ova"),
    "one_class": al.OneClassSVM(nu=0.2),
    "svdd": al.SVDD(),
}
NUMERIC_ONLY = {"full", "svc", "svc_sum", "hard", "one_class", "svdd"}


def rows(name, kind):
    if kind == "numbers":
        is_two = IRIS.y < (2 if name == "hard" else 3)
        return IRIS.X[is_two], IRIS.y[is_two]
    return FRAME.drop(columns=TENNIS.target), FRAME[TENNIS.target]


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


@pytest.mark.parametrize("name", ["naive", "c45", "forest", "boosting", "ripper", "svc"])
def test_a_model_of_one_library_serves_another(name, rung, tmp_path):
    """Fitted on the rung, saved, loaded, and used on the host: the same classes."""
    model = clone(MODELS[name])
    X = rung.from_host(IRIS.X.astype(np.float32))  # every rung has it
    model.fit(X, rung.from_host(IRIS.y))
    al.save(model, tmp_path / "m.safetensors")
    again = al.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(again.predict(IRIS.X.astype(np.float32)), rung.to_host(model.predict(X)))


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
    with pytest.raises(TypeError, match="`model` must be an estimator of arraylearn; got sklearn"):
        al.save(LogisticRegression(), tmp_path / "m")


def test_a_function_is_refused_with_its_place(tmp_path):
    (tmp_path / "m").write_text("before")
    with pytest.raises(TypeError, match=r"builtins\.function at SVC\.kernel, which a file without pickle"):
        al.save(al.SVC(kernel=lambda x, z: x @ z.T), tmp_path / "m")
    assert (tmp_path / "m").read_text() == "before"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("name", ["os:system", "arraylearn.io.save:os.system", "subprocess:Popen"])
def test_classes_of_others_are_not_loaded(name, tmp_path):
    about = {"format": 1, "version": "0", "model": {"record": name, "fields": {}}}
    save_file({}, tmp_path / "m", metadata={"arraylearn": json.dumps(about)})
    with pytest.raises(ValueError, match="not a class of arraylearn"):
        al.load(tmp_path / "m")


def test_files_of_others_are_refused(tmp_path):
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ValueError, match="`path` must name a file written by `save`"):
        al.load(tmp_path / "text")
    save_file({"weight": np.ones(2)}, tmp_path / "other")
    with pytest.raises(ValueError, match="holds tensors of something else"):
        al.load(tmp_path / "other")
    with pytest.raises(FileNotFoundError):
        al.load(tmp_path / "absent")


def test_a_later_format_is_refused(tmp_path):
    about = {"format": 2, "version": "9.0", "model": None}
    save_file({}, tmp_path / "m", metadata={"arraylearn": json.dumps(about)})
    with pytest.raises(ValueError, match=r"written by arraylearn 9\.0 in format 2"):
        al.load(tmp_path / "m")
