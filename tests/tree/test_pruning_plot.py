"""The picture of error against alpha."""

import pytest
from sklearn.datasets import load_iris

import arraylearn as al
from arraylearn.tree.pruning import cost_complexity_path

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


def test_error_against_alpha():
    from arraylearn.plot import plot_alpha

    X, y = load_iris(return_X_y=True)
    model = al.cart(random_state=0).fit(X, y)
    ax = plot_alpha(model)
    choice = model.alpha_choice_
    assert ax.get_ylabel() == "error"
    assert ax.get_xscale() == "log"
    drawn = ax.containers[0].lines[0].get_ydata()
    assert drawn.tolist() == choice.errors.tolist()
    path = cost_complexity_path(al.DecisionTreeClassifier().fit(X, y).tree_)
    for source in (path, al.DecisionTreeClassifier().fit(X, y)):
        _, fresh = matplotlib.pyplot.subplots()
        assert plot_alpha(source, ax=fresh).get_ylabel() == "risk"
        assert fresh.lines[0].get_ydata().tolist() == path.impurities.tolist()
    leaf = al.DecisionTreeClassifier().fit([[1.0], [1.0]], [0, 1])
    assert plot_alpha(leaf).get_xscale() == "linear"
    matplotlib.pyplot.close("all")


def test_bad_source():
    from arraylearn.plot import plot_alpha

    with pytest.raises(TypeError, match="`source` must be a fitted DecisionTreeClassifier"):
        plot_alpha([1, 2])
