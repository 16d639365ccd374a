"""Categories of too few rows to learn from, which count as missing."""

import numpy as np
import pytest

import arraylearn as al
from arraylearn.backend.namespace import locate
from arraylearn.table import learn_schema, read_table
from arraylearn.table.rare import leave_out_rare


def twenty_of_four(n_pure):
    """Return twenty categories of four rows: some of one class, the others of two rows of each."""
    names = np.repeat([f"c{j:02d}" for j in range(20)], 4)
    labels = np.tile([0, 0, 1, 1], 20)
    labels[: 4 * n_pure] = np.repeat(np.arange(n_pure) % 2, 4)
    return names, labels


def left(rung, names, labels, weights=None):
    X = np.unique(names, return_inverse=True)[1].astype(float)[:, None]
    X = rung.from_host(X, rung.float_dtypes[0])
    place = locate(X)
    table = read_table(X, learn_schema(X, [0]), place)
    found = leave_out_rare(
        place, table, labels, 2, None if weights is None else rung.from_host(weights, rung.float_dtypes[0])
    )
    assert found.schema.n_values == (int(rung.to_host(found.codes).max()) + 1,)
    return rung.to_host(found.codes)[0]


def test_as_many_rows_as_the_classes_differ_little(rung):
    # n = 80 rows, halves of two classes: s2 = 40 / 79, and n - sum n_j**2 / n = 76. The sum over the cells is
    # 40 + 2 m with m pure categories, and the numerator of tau2 is 2 m - 19 * 40 / 79, whose standard error
    # is sqrt(2 * 19 / 4): 4.4 for m = 7, within two of them, and 8.4 for m = 9, which asks for 1.5 rows
    assert (left(rung, *twenty_of_four(7)) == -1).all()
    names, labels = twenty_of_four(9)
    expected = np.repeat(np.arange(20), 4)
    np.testing.assert_array_equal(left(rung, names, labels), expected)
    # rows of weight 0 do not count, and the weight of the others does not matter
    weights = np.concat((np.full(80, 0.1), np.zeros(80)))
    twice = np.concat((labels, 1 - labels))
    found = left(rung, np.tile(names, 2), twice, weights)
    np.testing.assert_array_equal(found, np.tile(expected, 2))
    # one row more of its own: too few
    found = left(rung, np.append(names, "d"), np.append(labels, 0))
    np.testing.assert_array_equal(found, np.append(expected, -1))


@pytest.mark.rungs("numpy")
@pytest.mark.parametrize(
    ("n_categories", "n_rows", "is_kept"), [(8, 12, True), (9, 45, True), (9, 44, False), (17, 170, False)]
)
def test_a_column_of_few_categories_keeps_all(rung, n_categories, n_rows, is_kept):
    names = [f"c{i % n_categories:02d}" for i in range(n_rows)]
    labels = np.random.default_rng(0).integers(0, 2, n_rows)
    assert left(rung, names, labels).tolist() == [i % n_categories if is_kept else -1 for i in range(n_rows)]


LEARNERS = [
    al.cart(random_state=0),
    al.c45(),
    al.id3(),
    al.DecisionTreeClassifier(nominal="binary"),
    al.DecisionTreeClassifier(splitter="hist"),
    al.RandomForestClassifier(5, random_state=0),
    al.ExtraTreesClassifier(5, random_state=0),
    al.AdaBoostClassifier(n_estimators=3),
    al.GradientBoostingClassifier(5, min_samples_leaf=5),
    al.SequentialCoveringClassifier(),
]


@pytest.mark.rungs("numpy")
@pytest.mark.parametrize("is_unique", [True, False])
@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)
def test_names_change_nothing(learner, is_unique):
    """Neither an identifier nor a column of n / 2 random names, which took all splits of C4.5."""
    generator = np.random.default_rng(3)
    X = generator.integers(0, 4, size=(90, 3)).astype(object)
    y = (X[:, 0] + X[:, 1] + generator.integers(0, 3, 90) > 4).astype(int)
    X = np.where(generator.random(X.shape) < 0.05, None, np.char.add("v", X.astype(str)))
    numbers = generator.permutation(90) if is_unique else generator.integers(0, 45, 90)
    names = [f"n{i}" for i in numbers]
    more = np.column_stack((X, names))
    without = learner.fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(learner.fit(more, y).predict_proba(more), without)
