"""What a GPU would feel of growth: waits and launches per level, whatever the nodes, columns and classes."""

import numpy as np
import pytest

import arraylearn as al


def counted_fit(rung, n, d, n_classes, depths=(2, 4), **settings):
    """Waits and launches per level, from two fits that differ by some levels."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = (X @ rng.standard_normal((d, n_classes)) + rng.standard_normal((n, n_classes))).argmax(axis=1)
    X_on = rung.from_host(X)
    estimator = al.DecisionTreeClassifier(max_depth=6, **settings)
    counts = []
    for depth in depths:
        before = rung.counts()
        estimator.set_params(max_depth=depth).fit(X_on, y)
        after = rung.counts()
        counts.append({name: after[name] - before[name] for name in after})
    return {name: (counts[1][name] - counts[0][name]) / (depths[1] - depths[0]) for name in counts[0]}


SPLITTERS = [
    {"splitter": "exact"},
    {"splitter": "exact", "measure": "entropy"},
    {"splitter": "hist", "n_bins": 4},
    {"splitter": "clouds", "n_bins": 4},
    {"splitter": "clouds_sampling", "n_bins": 4},
]


@pytest.mark.parametrize("settings", SPLITTERS, ids=lambda settings: "-".join(map(str, settings.values())))
def test_waits_and_launches_per_level(rung, settings):
    if rung.counts() is None:
        pytest.skip("nothing is counted on this rung")
    few = counted_fit(rung, 800, 3, 6, **settings)
    more_rows = counted_fit(rung, 1600, 3, 6, **settings)
    more_columns = counted_fit(rung, 800, 11, 6, **settings)
    more_classes = counted_fit(rung, 1600, 3, 12, **settings)
    two_classes = counted_fit(rung, 800, 3, 2, **settings)
    for counts in (few, more_rows, more_columns, more_classes, two_classes):
        assert counts["syncs"] <= 2
    assert few["launches"] == more_rows["launches"] == more_columns["launches"] == more_classes["launches"]
    # up to four classes are summed one by one
    assert abs(two_classes["launches"] - few["launches"]) <= 8


@pytest.mark.parametrize("splitter", ["exact", "hist", "clouds"])
def test_launches_do_not_depend_on_the_nodes(rung, splitter):
    if rung.counts() is None:
        pytest.skip("nothing is counted on this rung")
    settings = {"splitter": splitter, "n_bins": 4}
    top = counted_fit(rung, 1500, 3, 5, depths=(1, 3), **settings)  # levels of 2 and 4 nodes
    below = counted_fit(rung, 1500, 3, 5, depths=(3, 5), **settings)  # of 8 and 16
    assert top == below
