"""OneClassSVM and SVDD: scikit-learn as the oracle, the identity between them, geometry, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import svm as libsvm
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, make_moons
from sklearn.preprocessing import StandardScaler

import arraylearn as al
from arraylearn.backend.dispatch import use_compiled


def rows(name):
    if name == "iris":
        X = load_iris().data
    elif name == "breast_cancer":
        X = load_breast_cancer().data
    else:
        X = make_moons(900, noise=0.2, random_state=0)[0]
    return StandardScaler().fit_transform(X)


@pytest.mark.parametrize("name", ["iris", "breast_cancer", "moons"])
@pytest.mark.parametrize("nu", [0.05, 0.3, 0.9])
def test_equals_scikit_learn(name, nu):
    X = rows(name)
    theirs = libsvm.OneClassSVM(nu=nu, tol=1e-6).fit(X)
    ours = al.OneClassSVM(nu=nu, tol=1e-5).fit(X)
    value = theirs.decision_function(X)
    # the offset is free within an interval where no multiplier is
    scale = abs(theirs.offset_[0])
    np.testing.assert_allclose(ours.score_samples(X), theirs.score_samples(X), atol=1e-4 * scale)
    np.testing.assert_allclose(ours.offset_, theirs.offset_, rtol=2e-3)
    is_clear = np.abs(value) > 2e-3 * scale
    np.testing.assert_array_equal(ours.predict(X)[is_clear], theirs.predict(X)[is_clear])


@pytest.mark.rungs("float64")
def test_column_weights_of_the_linear_kernel(rung):
    X = load_iris().data[:40]
    theirs = libsvm.OneClassSVM(nu=0.3, kernel="linear", tol=1e-6).fit(X)
    ours = al.OneClassSVM(nu=0.3, kernel="linear", tol=1e-4).fit(rung.from_host(X))
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-3)
    assert isinstance(ours.coef_, np.ndarray)
    assert ours.n_support_.tolist() == [len(ours.support_)]
    with pytest.raises(ValueError, match="read-only"):
        ours.coef_[0, 0] = 1.0
    assert not hasattr(al.OneClassSVM().fit(X), "coef_")


@pytest.mark.parametrize("kernel", ["poly", "sigmoid"])
def test_other_kernels_equal_scikit_learn(kernel):
    X = rows("iris")
    theirs = libsvm.OneClassSVM(nu=0.77, kernel=kernel, gamma=0.1, coef0=0.5, tol=1e-6).fit(X)
    ours = al.OneClassSVM(nu=0.77, kernel=kernel, gamma=0.1, coef0=0.5, tol=1e-5).fit(X)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-3)


@pytest.mark.parametrize("name", ["iris", "moons"])
def test_sphere_and_nu_form_are_one_for_the_gaussian_kernel(name):
    X = rows(name)
    nu = 0.2
    total = nu * len(X)
    region = al.OneClassSVM(nu=nu, tol=1e-6).fit(X)
    sphere = al.SVDD(C=1 / total, tol=1e-6 / total).fit(X)
    np.testing.assert_allclose(
        sphere.decision_function(X), 2 * region.decision_function(X) / total, atol=1e-6
    )
    np.testing.assert_array_equal(sphere.support_, region.support_)


def test_sphere_of_three_points(rung, xp, dtype):
    X = rung.from_host([[0.0, 0.0], [2.0, 0.0], [1.0, 0.5]], dtype)
    ball = al.SVDD(C=1.0, kernel="linear", tol=1e-5).fit(X)
    assert ball.radius_ == pytest.approx(1.0, abs=1e-4)
    np.testing.assert_allclose(ball.center_, [1.0, 0.0], atol=1e-4)
    distance = ball.distance_to_center(rung.from_host([[1.0, 0.0], [4.0, 4.0]], dtype))
    np.testing.assert_allclose(rung.to_host(distance), [0.0, 5.0], atol=2e-2 if dtype == xp.float32 else 1e-3)
    found = ball.predict(rung.from_host([[1.0, 0.5], [4.0, 4.0]], dtype))
    assert rung.to_host(found).tolist() == [1, -1]


def test_soft_sphere_has_no_duality_gap():
    X = rows("iris")
    ball = al.SVDD(C=0.05, gamma=0.5, tol=1e-7).fit(X)
    square = ball.distance_to_center(X) ** 2
    primal = ball.radius_**2 + 0.05 * np.maximum(square - ball.radius_**2, 0).sum()
    assert primal == pytest.approx(2 * ball.objective_, rel=1e-4)
    assert np.all((ball.predict(X) == 1) == (ball.decision_function(X) >= 0))


def test_hard_sphere_encloses_all():
    X = rows("iris")
    ball = al.SVDD(C=1.0, tol=1e-6).fit(X)
    assert ball.distance_to_center(X).max() <= ball.radius_ * (1 + 1e-4)


def test_weights_equal_repetition():
    X = rows("iris")
    weight = np.random.default_rng(0).integers(0, 3, len(X))
    by_weight = al.OneClassSVM(nu=0.3, gamma=0.5, tol=1e-6).fit(X, sample_weight=weight)
    by_rows = al.OneClassSVM(nu=0.3, gamma=0.5, tol=1e-6).fit(np.repeat(X, weight, axis=0))
    np.testing.assert_allclose(by_weight.decision_function(X), by_rows.decision_function(X), atol=1e-4)


@pytest.mark.parametrize(
    ("model", "unit"),
    [
        (al.OneClassSVM(), 1.0),
        (al.OneClassSVM(nu=0.1), 1.0),
        (al.OneClassSVM(nu=0.3, kernel="linear"), 80.0),  # sums of thousands, all rows on the boundary
        (al.SVDD(), 1.0),
        (al.SVDD(C=0.1, kernel="linear"), 1.0),
    ],
    ids=repr,
)
def test_rows_on_the_boundary_are_inside_on_every_body_and_in_every_dtype(model, unit):
    for seed in range(4):
        X = (np.random.default_rng(seed).normal(size=(60, 3)) * 10).round() / 10 * unit
        found = []
        for choice in ("never", "always"):
            with use_compiled(choice):
                found += [clone(model).fit(x) for x in (X, X.astype(np.float32))]
        with al.use_backend("torch"):
            found.append(clone(model).fit(X))
        labels = [each.predict(X) for each in found]
        for other in labels[1:]:
            np.testing.assert_array_equal(other, labels[0])
        bound = found[0].dual_coef_.max()
        is_free = found[0].dual_coef_[0] < bound
        assert (labels[0][found[0].support_[is_free]] == 1).all()


@pytest.mark.parametrize("nu", [0.1, 0.25, 0.5])
def test_no_more_rows_lie_outside_than_nu_allows(nu):
    for seed in range(5):
        X = np.random.default_rng(seed).normal(size=(60, 3))
        assert (al.OneClassSVM(nu=nu).fit_predict(X) == -1).mean() <= nu


@pytest.mark.parametrize("nu", [0.0, -0.1, 1.5, float("nan")])
def test_infeasible_nu_is_refused(nu):
    with pytest.raises(ValueError, match="`nu` must be"):
        al.OneClassSVM(nu=nu).fit(np.eye(3))


def test_infeasible_sphere_is_refused():
    with pytest.raises(ValueError, match=r"`C` must be at least 1 / n = 0\.3333"):
        al.SVDD(C=0.2).fit(np.eye(3))
    with pytest.raises(ValueError, match="`C` must be a positive number"):
        al.SVDD(C=0).fit(np.eye(3))


def test_the_kernel_of_the_fit_decides_not_a_parameter_set_since():
    X = np.arange(12.0).reshape(6, 2)
    model = al.SVDD().fit(X)
    before = model.predict(X)
    model.set_params(kernel="precomputed")
    np.testing.assert_array_equal(model.predict(X), before)
