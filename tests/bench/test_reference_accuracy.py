"""The accuracy script: the same trees give the same accuracy, and Weka's figures are read."""

from __future__ import annotations

import pytest

pytest.importorskip("pandas")

from benchmarks import reference_accuracy
from tests.reference_data import ACCURACIES, load_reference


def test_boosted_stumps_are_those_of_scikit_learn():
    one = reference_accuracy.compare_held_out("stumps", "generated_400_2", [0, 1])
    assert one.lead == pytest.approx(0.0, abs=0.2)  # the same stumps but for ties
    assert one.error <= 0.2
    assert 60 < one.ours < 95  # better than a coin, worse than labels of which a tenth is random allow
    assert set(one.peers) == {"scikit-learn"}
    assert "generated_400_2" in str(one)


def test_categories_become_numbers_where_the_peer_takes_no_others():
    load_reference("credit.a")
    frame, *_ = reference_accuracy.load_split("credit.a", 0, as_numbers=True)
    assert {str(dtype) for dtype in frame.dtypes} == {"float64"}
    assert not frame.isna().any(axis=None)
    frame, new, y, y_new = reference_accuracy.load_split("credit.a", 0, as_numbers=False)
    assert "category" in {str(dtype) for dtype in frame.dtypes}
    assert (len(frame), len(new)) == (len(y), len(y_new)) == (483, 207)


def test_beside_weka():
    load_reference("labor")
    one = reference_accuracy.compare_with_weka("naive-bayes", "labor", [0])
    assert one.peers == {"NaiveBayes": ACCURACIES["labor"][2]}
    assert one.lead == pytest.approx(one.ours - ACCURACIES["labor"][2])
    assert abs(one.lead) < 6  # three of 57 rows


def test_the_command(capsys):
    assert reference_accuracy.main(["stumps", "--sets", "generated_300_2", "--seeds", "1"]) == 0
    assert "stumps: reached" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        reference_accuracy.main(["oracle"])
    assert "'oracle' is not one of forest" in capsys.readouterr().err
