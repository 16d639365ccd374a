"""How many Python functions a prediction of one row runs: what its time depends on, without a clock."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import arraylearn as al

# Frames of `predict` on one row of 13 columns, at most; each takes a quarter of a microsecond or less.
BARS = {
    "NaiveBayesClassifier": 190,
    "FullBayesClassifier": 165,
    "DecisionTreeClassifier": 255,
    "RandomForestClassifier": 400,
    "ExtraTreesClassifier": 500,
    "GradientBoostingClassifier": 355,
    "AdaBoostClassifier": 315,
    "SVC": 240,
    "OneClassSVM": 200,
    "SVDD": 220,
    "SequentialCoveringClassifier": 250,
    "RipperClassifier": 205,
}
_FITS_ALONE = ("OneClassSVM", "SVDD")


@pytest.mark.parametrize("name", BARS)
def test_frames_of_one_prediction(name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(180, 13))
    y = X[:, :3].argmax(axis=1)
    model = getattr(al, name)()
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    model.fit(X) if name in _FITS_ALONE else model.fit(X, y)
    row = X[:1].copy()
    model.predict(row)  # what is prepared once per model does not count
    assert count_frames(lambda: model.predict(row)) <= BARS[name]


def count_frames(work):
    """Return how many Python functions a call enters."""
    n_frames = 0

    def note(frame, event, argument):
        nonlocal n_frames
        n_frames += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return n_frames
