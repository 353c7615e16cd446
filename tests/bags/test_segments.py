"""Reductions over bags equal a loop over bags."""

import numpy as np
import pytest

from bagwise.bags import segments


@pytest.fixture(params=[(1,), (5, 1, 3), (1,) * 4, (40, 2, 1, 1, 17)], ids=str)
def offsets(request):
    return np.concatenate([[0], np.cumsum(request.param)])


@pytest.fixture(params=[(), (1,), (4,), (2, 3)], ids=str)
def values(request, offsets):
    return np.random.default_rng(0).normal(size=(offsets[-1], *request.param)).round(1)  # with ties


def loop(function, values, offsets):
    return np.array([function(values[a:b]) for a, b in zip(offsets[:-1], offsets[1:], strict=True)])


@pytest.mark.parametrize("name", ["sum", "mean", "min", "max", "median"])
def test_reduction_equals_loop(name, values, offsets):
    expected = loop(lambda bag: getattr(np, name)(bag, axis=0), values, offsets)
    np.testing.assert_allclose(getattr(segments, f"segment_{name}")(values, offsets), expected, atol=1e-12)


def test_quantiles_equal_numpy(values, offsets):
    probabilities = [0.0, 0.1, 0.25, 1 / 3, 0.9, 1.0]
    expected = loop(lambda bag: np.quantile(bag, probabilities, axis=0), values, offsets)
    np.testing.assert_allclose(segments.segment_quantiles(values, offsets, probabilities), expected, atol=1e-12)


def test_quantiles_of_a_bag_with_nan_are_nan():
    values, offsets = np.array([1.0, np.nan, 3.0, 4.0]), np.array([0, 2, 4])
    np.testing.assert_array_equal(segments.segment_quantiles(values, offsets, [0.0, 1.0]), [[np.nan] * 2, [3, 4]])


@pytest.mark.parametrize("probabilities", [[1.5], [-0.1], [np.nan], 0.5])
def test_quantiles_refuse_what_is_no_probability(probabilities):
    with pytest.raises(ValueError, match="between 0 and 1"):
        segments.segment_quantiles(np.ones(3), np.array([0, 3]), probabilities)


def test_single_precision_is_added_up_in_double():
    values = np.random.default_rng(0).normal(1e4, size=(1000, 3)).astype(np.float32)
    offsets = np.array([0, 400, 1000])
    double = segments.segment_mean(values.astype(np.float64), offsets)
    np.testing.assert_array_equal(segments.segment_mean(values, offsets), double)


def test_sum_counts_booleans():
    assert segments.segment_sum(np.array([True, True, False]), np.array([0, 2, 3])).tolist() == [2, 0]


def test_softmax_equals_loop_and_survives_large_scores(offsets):
    scores = np.random.default_rng(0).normal(size=offsets[-1])
    expected = np.concatenate([np.exp(bag) / np.exp(bag).sum() for bag in np.split(scores, offsets[1:-1])])
    np.testing.assert_allclose(segments.segment_softmax(scores, offsets), expected)
    np.testing.assert_allclose(segments.segment_softmax(scores + 1e4, offsets), expected)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_blocks_add_up(values, offsets, size):
    total, seen = np.zeros((len(offsets) - 1, *values.shape[1:])), []
    for rows, bags, own in segments.row_blocks(offsets, size):
        assert 0 < rows.stop - rows.start <= size and (np.diff(own) > 0).all()
        total[bags] += segments.segment_sum(values[rows], own)
        seen.extend(range(rows.start, rows.stop))
    assert seen == list(range(len(values)))
    np.testing.assert_allclose(total, segments.segment_sum(values, offsets), atol=1e-12)


@pytest.fixture
def weights(offsets):
    weights = np.random.default_rng(1).integers(0, 4, size=offsets[-1]).astype(float)
    weights[offsets[:-1]] += 1.0  # none without weight
    return weights


@pytest.mark.parametrize("name", ["mean", "min", "max"])
def test_a_weight_is_a_number_of_copies(name, values, offsets, weights):
    copies = np.repeat(np.arange(offsets[-1]), weights.astype(int))
    sizes = np.add.reduceat(weights, offsets[:-1]).astype(int)
    reduction = getattr(segments, f"segment_{name}")
    expected = reduction(values[copies], np.concatenate([[0], np.cumsum(sizes)]))
    np.testing.assert_allclose(reduction(values, offsets, 0.3 * weights), expected, atol=1e-12)


def test_weighted_quantiles_stand_at_the_middle_of_their_weight(values, offsets, weights):
    probabilities = [0.0, 0.1, 0.5, 1 / 3, 0.9, 1.0]

    def one(bag, w):
        bag, w = bag[w > 0], w[w > 0]
        order = np.argsort(bag, kind="stable")
        middle = np.cumsum(w[order]) - w[order] / 2
        span = max(middle[-1] - middle[0], 1e-300)
        return np.interp(probabilities, (middle - middle[0]) / span, bag[order])

    got = segments.segment_quantiles(values, offsets, probabilities, 7.0 * weights)
    flat, got = values.reshape(len(values), -1), got.reshape(len(offsets) - 1, len(probabilities), -1)
    for i, (a, b) in enumerate(zip(offsets[:-1], offsets[1:], strict=True)):
        expected = np.column_stack([one(flat[a:b, j], weights[a:b]) for j in range(flat.shape[1])])
        np.testing.assert_allclose(got[i], expected, atol=1e-9)


def test_quantiles_of_equal_weights_are_those_without(values, offsets):
    probabilities = [0.0, 0.1, 0.25, 1 / 3, 0.9, 1.0]
    got = segments.segment_quantiles(values, offsets, probabilities, np.full(offsets[-1], 2.5))
    np.testing.assert_allclose(got, segments.segment_quantiles(values, offsets, probabilities), atol=1e-9)
