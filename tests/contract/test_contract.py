"""What every estimator promises, on every rung: see `estimators.py` for what is asked of which."""

from __future__ import annotations

import copy
import inspect
import math
import pickle
import re
import warnings

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import arraylearn as al
from arraylearn.backend.namespace import is_array
from arraylearn.table import learn_schema
from tests.backends import rungs
from tests.backends.assertions import assert_close
from tests.contract.estimators import SUBJECTS

BACKEND_NAMES = {
    "numpy": "numpy",
    "compiled": "numpy",
    "strict": "array_api_strict:device1",
    "strict_float32": "array_api_strict:no_float64",
    "torch": "torch",
    "fake_cuda": "torch:cuda:0",
    "cupy": "cupy",
    "cupy_nvrtc": "cupy",
}
FRAMES = ("pandas", "polars", "pyarrow")
LABELS = np.array(["blue", "green", "red"])
one_strict_device = pytest.mark.rungs("float64")  # about states and labels: float32 changes nothing


@pytest.fixture(params=SUBJECTS, ids=str)
def subject(request, rung):
    if reason := rungs.declined(request.param.name, rung):
        pytest.skip(f"{request.param.name} on {rung.name}: {reason}")
    return request.param


@pytest.fixture(params=SUBJECTS, ids=str)
def host_subject(request):
    return request.param


def those(has):
    """The subjects of which a claim is made."""
    return [each for each in SUBJECTS if has(each)]


def table(n=60, d=4, k=3, seed=0):
    """Rows of three overlapping classes; eighths, so that float32 and float64 hold the same numbers."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    centers = rng.normal(size=(k, d)) * 2
    X = centers[y] + rng.normal(size=(n, d))
    return np.round(X * 8) / 8, y


def new_rows(d=4):
    return np.round(np.random.default_rng(7).normal(size=(25, d)) * 16) / 8


def frame(library, X, names):
    columns = {name: X[:, j] for j, name in enumerate(names)}
    if library == "pandas":
        return pytest.importorskip("pandas").DataFrame(columns)
    if library == "polars":
        return pytest.importorskip("polars").DataFrame(columns)
    return pytest.importorskip("pyarrow").table(columns)


def outputs(subject, model, X):
    """All float results of a fitted estimator."""
    results = {}
    if subject.has_probabilities:
        results["predict_proba"] = model.predict_proba(X)
    if subject.has_decision:
        results["decision_function"] = model.decision_function(X)
    return results


def on_host(array, rung):
    return array if isinstance(array, np.ndarray) else rung.to_host(array)


def assert_results_close(subject, found, expected, **tolerances):
    tolerances = {"rtol": 1e-7, "atol": subject.atol, **tolerances}
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, err_msg=name, **tolerances)


# ---- library, dtype and device in = out


def test_results_come_home(subject, rung, float_dtype_name):
    X, y = table()
    model = subject.make().fit(rung.from_host(X, float_dtype_name), rung.from_host(y))
    queries = rung.from_host(new_rows(), float_dtype_name)
    labels = model.predict(queries)
    reference = subject.make().fit(X.astype(float_dtype_name), y)
    assert_close(labels, reference.predict(new_rows().astype(float_dtype_name)), rung=rung)
    tolerance = {"rtol": 2e-3, "atol": 2e-3} if float_dtype_name == "float32" else {"atol": subject.atol}
    for name, expected in outputs(subject, reference, new_rows().astype(float_dtype_name)).items():
        assert expected.dtype == float_dtype_name
        assert_close(getattr(model, name)(queries), expected, rung=rung, dtype=float_dtype_name, **tolerance)


@pytest.mark.rungs("strict")
def test_public_attributes_are_on_the_host(subject, rung):
    """Made on first access where the model is elsewhere, which is `model_` alone."""

    def arrays(value):
        if isinstance(value, tuple | list):
            return [array for part in value for array in arrays(part)]
        return [value] if is_array(value) else []

    X, y = table()
    model = subject.make().fit(rung.from_host(X), rung.from_host(y))
    public = {name for name in dir(model) if name.endswith("_") and not name.startswith("_")}
    assert {"classes_", "n_classes_", "model_"} <= public
    for name in public - {"model_"}:
        assert all(isinstance(array, np.ndarray) for array in arrays(getattr(model, name))), name
    inside = model.estimators_[0] if subject.name == "adaboost" else model
    assert not all(isinstance(array, np.ndarray) for array in arrays(inside.model_))


@one_strict_device
def test_logarithms_of_probabilities(subject, rung, float_dtype_name):
    """On every classifier that has probabilities; -inf for 0, without a warning."""
    X, y = table()
    model = subject.make().fit(rung.from_host(X, float_dtype_name), rung.from_host(y))
    assert hasattr(model, "predict_log_proba") == hasattr(model, "predict_proba")
    if not subject.has_probabilities:
        return
    queries = rung.from_host(new_rows(), float_dtype_name)
    proba = on_host(model.predict_proba(queries), rung)
    with np.errstate(divide="ignore"):
        expected = np.log(proba)
    # a logarithm itself may be more exact, or cut off at the least number
    least = np.log(np.finfo(float_dtype_name).tiny)
    found = model.predict_log_proba(queries)
    tolerance = (
        {"rtol": 1e-4, "atol": 1e-4} if float_dtype_name == "float32" else {"rtol": 1e-7, "atol": 1e-7}
    )
    is_sure = expected > least / 2
    np.testing.assert_allclose(on_host(found, rung)[is_sure], expected[is_sure], **tolerance)
    assert (on_host(found, rung)[~is_sure] < least / 2.1).all()
    assert_close(found, on_host(found, rung), rung=rung, dtype=float_dtype_name)


LEARNERS = [
    getattr(al, name) for name in al.__all__ if hasattr(getattr(al, name), "fit") and name != "GridSearch"
]
# methods that need no fit, and those that take rows as a kernel does
FREE = {"fit", "fit_predict", "partial_fit", "cost_complexity_pruning_path", "answer", "classify"}


@pytest.mark.parametrize("estimator", LEARNERS)
def test_what_a_fit_makes_is_missed_with_one_error(estimator):
    """Also by properties; what does not exist in this setting is another error, before and after."""
    model = estimator(probability=True) if estimator is al.SVC else estimator()
    made = [name for name in dir(estimator) if name.endswith("_") and not name.startswith("_")]
    for name in made:
        with pytest.raises(NotFittedError, match=f"This {estimator.__name__} instance is not fitted yet"):
            getattr(model, name)
    asked = 0
    for name, method in inspect.getmembers(model, callable):
        if name.startswith(("_", "get_params", "get_metadata", "set_")) or name in FREE:
            continue
        parameters = inspect.signature(method).parameters.values()
        given = ([[1.0], [2.0]], [0, 1])[: sum(each.default is each.empty for each in parameters)]
        with pytest.raises(NotFittedError):
            next(iter(method(*given)))
        asked += 1
    assert asked >= 3
    with pytest.raises(AttributeError) as caught:
        getattr(model, "no_such_thing_")  # noqa: B009
    assert not isinstance(caught.value, NotFittedError)


RESAMPLERS = (al.resample.RandomOverSampler, al.resample.RandomUnderSampler, al.resample.SMOTE)
# of parameters whose default is no number, and where it makes the fit long
NUMBERS = {"n_estimators": 3, "max_depth": 3, "max_leaf_nodes": 4, "max_features": 0.5, "max_samples": 0.5}
NUMBERS |= {"max_iter": 50, "max_bins": 9, "C": 0.5, "gamma": 0.5, "ccp_alpha": 0.01, "random_state": 3}
NUMBERS |= {"var_smoothing": 1e-6, "shrinkage": 0.25, "n_jobs": 1}


@pytest.mark.parametrize("estimator", [*LEARNERS, *RESAMPLERS])
def test_numbers_of_numpy_are_numbers(estimator):
    """The narrowest dtypes give what the same numbers of Python do: nothing is computed in them."""
    X, y = table(48)

    def learn(**change):
        names = inspect.signature(estimator).parameters
        quick = {name: NUMBERS[name] for name in ("n_estimators", "random_state") if name in names}
        model = estimator(**quick | change)
        if hasattr(model, "fit_resample"):
            return model.fit_resample(X, np.minimum(y, 1))[0]
        return model.fit(X, y).predict(X), *outputs_of(model, X)

    for name, parameter in inspect.signature(estimator).parameters.items():
        number = NUMBERS.get(name, parameter.default)
        if isinstance(number, bool) or not isinstance(number, int | float) or number == math.inf:
            continue
        narrow = np.float16(number) if isinstance(number, float) else np.min_scalar_type(number).type(number)
        try:
            expected = learn(**{name: narrow.item()})
        except ValueError:
            assert name in ("max_samples", "max_features")  # not in this setting
            continue
        np.testing.assert_equal(learn(**{name: narrow}), expected, err_msg=name)


def outputs_of(model, X):
    """The probabilities or decision values of a model that has them."""
    names = ("predict_proba", "decision_function")
    return [getattr(model, name)(X) for name in names if hasattr(model, name)]


def test_labels_that_no_array_library_holds(subject, rung):
    X, y = table()
    name = rung.float_dtypes[-1]
    model = subject.make().fit(rung.from_host(X, name), LABELS[y])
    queries = rung.from_host(new_rows(), name)
    labels = model.predict(queries)
    assert isinstance(labels, np.ndarray)
    expected = subject.make().fit(X, LABELS[y]).predict(new_rows())
    np.testing.assert_array_equal(labels, expected)
    assert labels.dtype == expected.dtype
    assert model.classes_.tolist() == ["blue", "green", "red"]


def test_backend_moves_in_and_results_come_home(subject, rung):
    X, y = table()
    moved = subject.make(backend=BACKEND_NAMES[rung.name]).fit(X, LABELS[y])
    stayed = subject.make().fit(X, LABELS[y])
    labels = moved.predict(new_rows())
    assert isinstance(labels, np.ndarray)
    np.testing.assert_array_equal(labels, stayed.predict(new_rows()))
    tolerance = {} if "float64" in rung.float_dtypes else {"rtol": 2e-3, "atol": 2e-3}
    found = outputs(subject, moved, new_rows())
    assert all(isinstance(values, np.ndarray) for values in found.values())
    assert_results_close(subject, found, outputs(subject, stayed, new_rows()), **tolerance)


@one_strict_device
def test_a_saved_model_passes_its_checks_and_serves_the_host(subject, rung, tmp_path):
    X, y = table()
    name = rung.float_dtypes[-1]
    model = subject.make().fit(rung.from_host(X, name), LABELS[y])
    al.save(model, tmp_path / "model")
    again = al.load(tmp_path / "model")  # checks every field of every record
    np.testing.assert_array_equal(again.predict(new_rows()), model.predict(rung.from_host(new_rows(), name)))


def test_a_fitted_model_serves_other_libraries(subject, rung):
    X, y = table()
    name = rung.float_dtypes[-1]
    model = subject.make().fit(rung.from_host(X, name), y)
    expected = subject.make().fit(X, y)
    np.testing.assert_array_equal(model.predict(new_rows()), expected.predict(new_rows()))
    back = expected.predict(rung.from_host(new_rows(), name))
    assert_close(back, expected.predict(new_rows()), rung=rung)


@pytest.mark.parametrize("library", FRAMES)
def test_data_frames(host_subject, library):
    X, y = table()
    names = ["a", "b", "c", "d"]
    labels = frame(library, y[:, None], ["label"])["label"]
    model = host_subject.make().fit(frame(library, X, names), labels)
    expected = host_subject.make().fit(X, y)
    queries = frame(library, new_rows(), names)
    np.testing.assert_array_equal(model.predict(queries), expected.predict(new_rows()))
    assert_results_close(
        host_subject, outputs(host_subject, model, queries), outputs(host_subject, expected, new_rows())
    )
    assert list(model.feature_names_in_) == names
    with pytest.raises(ValueError, match=r"feature names|column 0"):
        model.predict(frame(library, new_rows(), ["z", "b", "c", "d"]))


@pytest.mark.parametrize("library", FRAMES)
def test_nominal_columns_of_data_frames(host_subject, library):
    X, y = table()
    colours = LABELS[(y + np.arange(60) % 2) % 3]
    columns = {"number": X[:, 0], "colour": colours.tolist()}
    if library == "pyarrow":
        data = pytest.importorskip("pyarrow").table(columns)
    else:
        data = pytest.importorskip(library).DataFrame(columns)
    if not host_subject.accepts_nominal:
        with pytest.raises(ValueError, match=r"numeric columns only.*'colour'"):
            host_subject.make().fit(data, y)
        return
    model = host_subject.make().fit(data, y)
    plain = np.empty((60, 2), dtype=object)
    plain[:, 0], plain[:, 1] = X[:, 0], colours
    expected = host_subject.make().fit(plain, y)
    np.testing.assert_array_equal(model.predict(data), expected.predict(plain))


def test_missing_values(host_subject):
    X, y = table()
    holes = X.copy()
    holes[::7, 1] = np.nan
    if not host_subject.accepts_missing:
        with pytest.raises(ValueError, match="Input X contains NaN"):
            host_subject.make().fit(holes, y)
        model = host_subject.make().fit(X, y)
        with pytest.raises(ValueError, match="Input X contains NaN"):
            model.predict(holes)
        return
    model = host_subject.make().fit(holes, y)
    for values in outputs(host_subject, model, holes).values():
        assert np.isfinite(values).all()


def test_one_bar_shows_the_progress_of_all(host_subject, capsys):
    X, y = table()
    host_subject.make(verbose=1).fit(X, y)
    shown = capsys.readouterr().err
    assert re.search(r"^(counting|growing|boosting|rules|solving) \u2501+ \d+/(\d+|\?) ", shown), shown
    host_subject.make().fit(X, y)
    assert not capsys.readouterr().err


# ---- tensors on the CPU, where torch was not named


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.mark.rungs("torch")
def test_tensors_in_tensors_out_and_the_bits_of_numpy(host_subject, torch):
    X, y = table()
    for dtype in (np.float32, np.float64):
        rows, queries = X.astype(dtype), new_rows().astype(dtype)
        expected = host_subject.make().fit(rows, y)
        model = host_subject.make().fit(torch.from_numpy(rows), torch.from_numpy(y))
        asked = torch.from_numpy(queries)
        found = {"predict": model.predict(asked), **outputs(host_subject, model, asked)}
        wanted = {"predict": expected.predict(queries), **outputs(host_subject, expected, queries)}
        for name, values in wanted.items():
            assert isinstance(found[name], torch.Tensor)
            assert found[name].device.type == "cpu"
            np.testing.assert_array_equal(found[name].numpy(), values, err_msg=name, strict=True)


@pytest.mark.rungs("torch")
def test_the_memory_of_tensors_is_read_in_place(torch):
    X, _ = table()
    rows = torch.from_numpy(X)
    learner = al.NaiveBayesClassifier()
    learner.schema_ = learn_schema(rows, "from_dtype")
    batch = learner._read(rows)
    assert batch.place.library == "numpy"
    assert np.shares_memory(batch.table.numeric, X)
    learner.backend = "torch"
    assert learner._read(rows).table.numeric.data_ptr() == rows.data_ptr()


@pytest.mark.rungs("torch")
@pytest.mark.parametrize("backend", [None, "torch"])
def test_tensors_that_numpy_has_no_form_for(torch, backend):
    X, y = table()
    halves = torch.from_numpy(X).to(torch.bfloat16)
    model = al.SVC(backend=backend).fit(halves, y)
    expected = al.SVC().fit(halves.float().numpy(), y)
    found = model.decision_function(halves)
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found.numpy(), expected.decision_function(halves.float().numpy()), atol=2e-3)
    watched = torch.from_numpy(X).requires_grad_()
    labels = al.NaiveBayesClassifier(backend=backend).fit(watched, y).predict_proba(watched)
    assert not labels.requires_grad
    expected = al.NaiveBayesClassifier().fit(X, y).predict_proba(X)
    np.testing.assert_allclose(labels.numpy(), expected, rtol=1e-7, atol=1e-12)


# ---- states


@one_strict_device
def test_copies(subject, rung):
    X, y = table()
    name = rung.float_dtypes[-1]
    queries = rung.from_host(new_rows(), name)
    model = subject.make().fit(rung.from_host(X, name), LABELS[y])
    expected = model.predict(queries)
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(twin.predict(queries), expected)
    fresh = clone(model)
    assert fresh.get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        fresh.predict(queries)


@one_strict_device
def test_a_failed_fit_leaves_it_unfitted(subject, rung):
    X, y = table()
    name = rung.float_dtypes[-1]
    bad = X.copy()
    bad[3, 2] = np.inf
    model = subject.make().fit(rung.from_host(X, name), y)
    if subject.accepts_infinity:
        with pytest.raises(ValueError, match="inconsistent numbers"):
            model.fit(rung.from_host(X, name), y[:2])
        with pytest.raises(NotFittedError):
            model.predict(rung.from_host(X, name))
        assert model.fit(rung.from_host(bad, name), y).predict(rung.from_host(bad, name)).shape == y.shape
        return
    with pytest.raises(ValueError, match="infinity"):
        model.fit(rung.from_host(bad, name), y)
    with pytest.raises(NotFittedError):
        model.predict(rung.from_host(X, name))
    model.fit(rung.from_host(X, name), y)
    with pytest.raises(ValueError, match="infinity"):
        model.predict(rung.from_host(bad, name))
    for method in outputs(subject, model, rung.from_host(X, name)):
        with pytest.raises(ValueError, match="infinity"):
            getattr(model, method)(rung.from_host(bad, name))


def test_one_class(host_subject):
    X, _ = table()
    model = host_subject.make()
    model.fit(X, np.full(60, "only"))
    assert model.classes_.tolist() == ["only"]
    assert model.predict(new_rows()).tolist() == ["only"] * 25
    if hasattr(model, "predict_proba"):
        np.testing.assert_array_equal(model.predict_proba(new_rows()), np.ones((25, 1)))


def test_wrong_shapes(host_subject):
    X, y = table()
    model = host_subject.make()
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(X, y[:-1])
    with pytest.raises(ValueError, match="Reshape your data"):
        model.fit(X[:, 0], y)
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        model.fit(X[:0], y[:0])
    model.fit(X, y)
    with pytest.raises(ValueError, match=r"X has 3 features, but .* is expecting 4 features"):
        model.predict(X[:, :3])


@pytest.mark.parametrize("host_subject", those(lambda each: each.has_weights), ids=str)
def test_bad_weights(host_subject):
    X, y = table()
    for weights in (-np.ones(60), np.full(60, np.nan), np.zeros(60), np.full(60, np.inf)):
        with pytest.raises(ValueError, match="sample_weight"):
            host_subject.make().fit(X, y, sample_weight=weights)
    with pytest.raises(ValueError, match="sample_weight"):
        host_subject.make().fit(X, y, sample_weight=np.ones(59))


# ---- properties


def small_tables():
    return st.integers(0, 2**16).map(lambda seed: table(n=36, d=3, seed=seed))


@pytest.mark.parametrize("host_subject", those(lambda each: each.ignores_row_order), ids=str)
@hypothesis.settings(max_examples=15)
@hypothesis.given(data=small_tables(), order=st.permutations(range(36)))
def test_rows_in_any_order(host_subject, data, order):
    X, y = data
    order = np.array(order)
    one, other = host_subject.make().fit(X, y), host_subject.make().fit(X[order], y[order])
    assert_results_close(
        host_subject, outputs(host_subject, other, X), outputs(host_subject, one, X), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize(
    "host_subject", those(lambda each: each.has_weights and each.counts_weights), ids=str
)
@hypothesis.settings(max_examples=15)
@hypothesis.given(data=small_tables(), times=st.lists(st.integers(1, 3), min_size=35, max_size=35))
def test_a_weight_counts_as_repetition(host_subject, data, times):
    X, y = data
    times = [1, *times]  # some row counts once: a factor that all weights share would change nothing
    weighted = host_subject.make().fit(X, y, sample_weight=np.array(times, dtype=float))
    repeated = host_subject.make().fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert_results_close(
        host_subject,
        outputs(host_subject, weighted, X),
        outputs(host_subject, repeated, X),
        rtol=1e-6,
        atol=1e-6,
    )


@pytest.mark.parametrize("host_subject", those(lambda each: each.ignores_labels), ids=str)
@hypothesis.settings(max_examples=15)
@hypothesis.given(data=small_tables(), shift=st.integers(-5, 5))
def test_names_of_classes_do_not_matter(host_subject, data, shift):
    X, y = data
    one = host_subject.make().fit(X, y)
    for labels in (LABELS, np.arange(3) * 10 + shift):
        other = host_subject.make().fit(X, labels[y])
        np.testing.assert_array_equal(other.predict(X), labels[one.predict(X)])
        assert_results_close(host_subject, outputs(host_subject, other, X), outputs(host_subject, one, X))


# ---- what a GPU would feel


def count_syncs(rung, work):
    before = rung.counts()["syncs"]
    work()
    return rung.counts()["syncs"] - before


@pytest.mark.rungs("syncs")
@pytest.mark.parametrize("subject", those(lambda each: each.fit_syncs is not None), indirect=True, ids=str)
def test_syncs_with_the_device(subject, rung):
    X, y = table(n=120)
    name = rung.float_dtypes[-1]
    x, codes, queries = rung.from_host(X, name), rung.from_host(y), rung.from_host(new_rows(), name)
    model = subject.make()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(x, codes)  # what is done once per process does not count
        assert count_syncs(rung, lambda: model.fit(x, codes)) <= subject.fit_syncs
    assert count_syncs(rung, lambda: model.predict(queries)) <= subject.predict_syncs
    for method in outputs(subject, model, queries):
        assert (
            count_syncs(rung, lambda method=method: getattr(model, method)(queries)) <= subject.predict_syncs
        )
