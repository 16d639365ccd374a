"""How cost grows: slopes of known work, their file, page and chart."""

from __future__ import annotations

import numpy as np
import pytest

from arraylearn import cli
from arraylearn.bench import cost_slopes
from arraylearn.bench.data import Shape, noise


def test_slopes():
    assert cost_slopes.slope([1, 2, 4], [5, 5, 5]) == pytest.approx(0.0)
    assert cost_slopes.slope([10, 20, 40, 80], [3 * n**1.5 for n in (10, 20, 40, 80)]) == pytest.approx(1.5)


def test_growth_of_what_is_known(monkeypatch, capsys, tmp_path):
    class Square:
        def fit(self, X, y):
            return np.ones((X.shape[0], X.shape[0]))

    known = cost_slopes._Subject(
        "kernels", "square", Shape(400, 3, 2), noise, Square, ("n_rows", "n_columns")
    )
    monkeypatch.setattr(cost_slopes, "_subjects", lambda: [known])
    monkeypatch.setenv("COLUMNS", "200")
    found = cost_slopes.measure_slopes()
    by_axis = {one.axis: one for one in found.slopes}
    assert by_axis["n_rows"].sizes == [400, 800, 1600, 3200]
    # what is allocated, not what is resident, which other things in the process move
    assert by_axis["n_rows"].memory_slope == pytest.approx(2.0, abs=0.01)
    assert by_axis["n_columns"].sizes == [3, 6, 12, 24]
    assert by_axis["n_columns"].memory_slope == pytest.approx(0.0, abs=0.01)
    kept = tmp_path / "slopes.json"
    found.save(kept)
    assert cli.main(["bench", "--growth", "--read", str(kept), str(kept)]) == 0
    assert capsys.readouterr().out.count("square") == 4


def test_every_learner_of_the_growth_fits():
    for one in cost_slopes._subjects():
        rows = one.data(Shape(60, max(10, one.base.n_columns), 2))
        fitted = one.make().fit(rows.X, rows.y)
        if one.name == "grow and weakest links":
            assert fitted.impurities[0] < fitted.impurities[-1]  # from the full tree to its root
        elif one.family == "selection":
            assert len(fitted.cv_results_["params"]) == 3
        elif one.family == "kernels":
            assert fitted.shape == (60, 60)
        else:  # no worse than the larger class for all rows
            share = (fitted.predict(rows.X) == rows.y).mean()
            assert share >= max(rows.y.mean(), 1 - rows.y.mean()), one.name
        assert set(one.axes) <= set(cost_slopes.AXES)
    with pytest.raises(ValueError, match="`family`"):
        cost_slopes.measure_slopes(["forests"])
    assert np.isfinite(cost_slopes.slope([1, 2], [0, 0]))


def test_chart():
    pytest.importorskip("matplotlib")
    from arraylearn.plot.benchmark import plot_growth

    drawn = cost_slopes.CostSlope("svm", "SVC", "n_rows", [1, 2, 4, 8], [1, 2, 4, 8], [5, 5, 5, 5], 1.0, 0.0)
    figure = plot_growth(cost_slopes.SlopeReport({}, "numpy", 1, None, None, [drawn]))
    assert figure.axes[0].get_legend_handles_labels()[1] == ["SVC: 1.00"]
    np.testing.assert_array_equal(figure.axes[0].lines[0].get_xydata(), [[1, 1], [2, 2], [4, 4], [8, 8]])
