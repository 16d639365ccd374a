"""Many fits in several threads of the caller: no hang, and the same model each time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import arraylearn as al
from arraylearn.backend.dispatch import tuned
from tests.boosting.data import holes, stripes
from tests.boosting.test_gradient import small

N_FITS, N_THREADS = 1_000, 4


@pytest.mark.slow
@tuned(growth_thread_cells=1, thread_share=0)
def test_a_thousand_fits_in_four_threads():
    pytest.importorskip("numba")
    X, y = stripes(400, k=3)
    X = holes(X).astype(np.float32)
    al.set_compiled("always")
    al.set_num_threads(2)
    try:
        expected = small(n_estimators=2).fit(X, y).decision_function(X)
        with ThreadPoolExecutor(N_THREADS) as users:
            fits = [users.submit(lambda: small(n_estimators=2).fit(X, y)) for _ in range(N_FITS)]
            for fit in fits:
                np.testing.assert_array_equal(fit.result(timeout=300).decision_function(X), expected)
    finally:
        al.set_num_threads(None)
        al.set_compiled(None)
