"""What adds up over rows is the same however they are cut."""

from collections import Counter
from functools import reduce

import numpy as np
from numpy.testing import assert_allclose

from bagwise.kernels.formulas import sample_rows
from bagwise.out_of_core.passes import add, added
from bagwise.out_of_core.survey import ColumnSums, Sample, sum_rows

rng = np.random.default_rng(0)
X = rng.normal(size=(500, 4)) * [1.0, 1e-3, 1e6, 0.0] + [1e6, 5.0, 0.0, 0.1]


def pieces(X, seed):
    borders = np.sort(np.random.default_rng(seed).choice(np.arange(1, len(X)), size=6, replace=False))
    return np.split(X, borders)


def test_mean_and_scatter_are_those_of_all_rows():
    for seed in range(5):
        found = reduce(ColumnSums.merge, map(ColumnSums.of, pieces(X, seed)))
        assert found.n == 500
        assert_allclose(found.mean, X.mean(axis=0), rtol=1e-14)
        assert_allclose(found.variance, X.var(axis=0), rtol=1e-9, atol=1e-30)
        assert (found.low == X.min(axis=0)).all() and (found.high == X.max(axis=0)).all()


def test_a_column_that_never_varies_has_no_scatter_at_all():
    found = reduce(ColumnSums.merge, map(ColumnSums.of, pieces(X, 0)))
    assert found.scatter[3] == 0.0 and found.mean[3] == 0.1


def test_the_sample_does_not_depend_on_the_order_of_the_rows():
    few = np.round(X[:, :1])  # with copies
    for table, size in ((X, 50), (X, 600), (few, 3), (few, 50)):
        expected = table[sample_rows(table, size, 7)]
        for seed in range(4):
            parts = pieces(table[np.random.default_rng(seed).permutation(len(table))], seed)
            found = reduce(Sample.merge, [Sample.of(part, size, 7) for part in parts])
            assert (found.rows == expected).all()


def test_no_sample_is_no_work():
    assert Sample.of(X, 0, 0).merge(Sample.of(X, 0, 0)).rows.shape == (0, 4)


def test_rows_are_summed_by_bag_in_any_order():
    bag = rng.integers(0, 20, size=500)
    expected = np.array([X[bag == b].sum(axis=0) for b in range(21)])
    assert_allclose(sum_rows(bag, X, 21), expected, rtol=1e-12)
    single = sum_rows(bag, X.astype(np.float32), 21)
    assert single.dtype == np.float64


def test_results_of_parts_are_added_by_their_kind():
    def found(part):
        kinds = part[:, 1] > 5.0
        sums = {int(kind): (int((kinds == kind).sum()), part[kinds == kind].sum(axis=0)) for kind in set(kinds)}
        return sums, ColumnSums.of(part), [Sample.of(part, 9, 7)], Counter(kinds.tolist()), None

    for seed in range(3):
        total, expected = added([None, *map(found, pieces(X, seed)), None]), found(X)
        assert list(total[0]) == [0, 1] and [total[0][k][0] for k in (0, 1)] == [expected[0][k][0] for k in (0, 1)]
        assert_allclose(total[0][1][1], expected[0][1][1], rtol=1e-9)
        assert_allclose(total[1].mean, expected[1].mean, rtol=1e-12)
        assert (total[2][0].rows == expected[2][0].rows).all()
        assert total[3:] == expected[3:]
    assert added([]) is None and add(None, 0.0) == 0.0
