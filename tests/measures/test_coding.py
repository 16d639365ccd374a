"""Question lengths: the worked example, Kraft's inequality, Shannon's bounds, optimality."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arraylearn import measures
from arraylearn.measures import coding

P = [0.10, 0.15, 0.16, 0.19, 0.40]
DYADIC = [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 16]
SCHEMES = (
    coding.sequential_code_lengths,
    coding.halving_code_lengths,
    coding.shannon_fano_code_lengths,
    coding.huffman_code_lengths,
)
distributions = st.lists(st.integers(0, 1000), min_size=2, max_size=20).filter(any)


@pytest.mark.parametrize(
    ("scheme", "questions", "efficiency"),
    list(zip(SCHEMES, (3.24, 2.59, 2.25, 2.20), (0.664, 0.830, 0.955, 0.977), strict=True)),
)
def test_worked_example(scheme, questions, efficiency):
    expected = coding.expected_length(P, scheme(P))
    assert expected == pytest.approx(questions, abs=1e-9)
    assert measures.entropy(P) == pytest.approx(2.1498, abs=5e-5)
    assert measures.entropy(P) / expected == pytest.approx(efficiency, abs=6e-4)


def test_dyadic_probabilities_meet_the_entropy():
    huffman = coding.huffman_code_lengths(DYADIC)
    assert coding.expected_length(DYADIC, huffman) == measures.entropy(DYADIC) == 1.875


@pytest.mark.parametrize("scheme", SCHEMES)
@given(p=distributions)
def test_lengths_are_those_of_a_full_binary_tree(scheme, p):
    assert sum(2.0**-length for length in scheme(p)) == 1


@given(p=distributions)
def test_bounds(p):
    lengths = [coding.expected_length(p, scheme(p)) for scheme in SCHEMES]
    entropy = float(measures.entropy(p))
    assert min(lengths) == pytest.approx(lengths[-1])
    assert entropy - 1e-9 <= lengths[-1] <= entropy + 1 + 1e-9


@given(p=st.lists(st.integers(1, 100), min_size=2, max_size=5))
def test_huffman_is_optimal(p):
    best = min(
        coding.expected_length(p, lengths)
        for lengths in itertools.product(range(1, 5), repeat=len(p))
        if sum(2.0**-length for length in lengths) <= 1
    )
    assert coding.expected_length(p, coding.huffman_code_lengths(p)) == pytest.approx(best)


def test_arrays_of_any_library(rung):
    p = rung.from_host(P, rung.float_dtypes[0])
    assert measures.huffman_code_lengths(p) == [3, 3, 3, 3, 1]
    assert measures.shannon_fano_code_lengths(p) == [3, 3, 2, 2, 2]
    assert measures.halving_code_lengths(p) == [2, 2, 2, 3, 3]
    assert measures.sequential_code_lengths(p) == [1, 2, 3, 4, 4]


def test_one_value_needs_no_question():
    assert [scheme([3.0]) for scheme in SCHEMES] == [[0]] * 4


@pytest.mark.parametrize("p", [[], [0, 0], [1, -1, 3], [np.nan, 1.0]])
def test_refusals(p):
    for scheme in SCHEMES:
        with pytest.raises(ValueError, match="`p` must hold finite numbers"):
            scheme(p)
    with pytest.raises(ValueError, match=r"`lengths` must have one entry per probability \(2\); got 3"):
        coding.expected_length([0.5, 0.5], [1, 1, 1])
