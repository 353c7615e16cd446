import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from bagwise.auto import blend_weights
from bagwise.auto.blend import best_member, blend, sparse_weights


def problem(n=120, seed=0, errors=(0.3, 0.5, 1.0, 2.0)):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=n)
    return np.column_stack([y + e * rng.normal(size=n) for e in errors]), y, np.arange(n) % 5


def naive_weights(Z, y, sample_weight=None):
    """The same minimum by a general solver under the two constraints."""
    weight = np.ones(len(y)) if sample_weight is None else sample_weight

    def loss(w):
        return float(np.average((y - Z @ w) ** 2, weights=weight))

    m = Z.shape[1]
    total = {"type": "eq", "fun": lambda w: w.sum() - 1}
    options = {"ftol": 1e-15, "maxiter": 1000}
    return minimize(loss, np.full(m, 1 / m), bounds=[(0, None)] * m, constraints=total, options=options).x


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("weighted", [False, True])
def test_weights_are_the_constrained_minimum(seed, weighted):
    Z, y, _ = problem(seed=seed)
    weight = np.random.default_rng(seed).uniform(size=len(y)) if weighted else None
    np.testing.assert_allclose(blend_weights(Z, y, weight), naive_weights(Z, y, weight), atol=1e-4)


def test_weights_are_a_share_and_keep_the_unit():
    Z, y, _ = problem()
    weights = blend_weights(Z, y)
    assert weights.sum() == pytest.approx(1) and (weights >= 0).all()
    for scale in (1e-12, 1e12):
        np.testing.assert_allclose(blend_weights(scale * Z, scale * y), weights, atol=1e-8)


def test_a_perfect_member_takes_all():
    Z, y, fold = problem()
    Z[:, 2] = y
    np.testing.assert_allclose(blend_weights(Z, y), [0, 0, 1, 0], atol=1e-8)
    np.testing.assert_allclose(blend(Z, y, fold).weights, [0, 0, 1, 0], atol=1e-8)


def test_a_useless_member_is_dropped():
    """Non-negative least squares often gives noise a little weight; the sparse rule mostly does not."""
    given = kept = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        y = rng.normal(size=100)
        Z = np.column_stack([y + 0.3 * rng.normal(size=100), rng.normal(size=(100, 3))])
        given += np.count_nonzero(blend_weights(Z, y)[1:])
        kept += np.count_nonzero(sparse_weights(Z, y, np.arange(100) % 5)[1:])
    assert kept < 0.5 * given


def test_a_member_twice_is_kept_once():
    Z, y, fold = problem()
    weights = sparse_weights(np.column_stack([Z, Z[:, 0]]), y, fold)
    assert np.count_nonzero(weights[[0, 4]]) == 1


def test_held_out_predictions_know_nothing_of_their_fold():
    Z, y, fold = problem()
    found = blend(Z, y, fold)
    changed = np.where(fold == 2, y + 5 * np.random.default_rng(1).normal(size=len(y)), y)
    again = blend(Z, changed, fold)
    assert found.kind == again.kind == "blend"
    np.testing.assert_allclose(again.held_out[fold == 2], found.held_out[fold == 2])
    assert not np.allclose(again.held_out[fold == 1], found.held_out[fold == 1])


@pytest.mark.parametrize("seed", range(8))
def test_the_choice_is_never_worse_than_a_single_member_chosen_in_the_same_way(seed):
    Z, y, fold = problem(60, seed, errors=(0.5, 0.6, 3.0))
    held_out = np.empty(len(y))
    for k in range(5):
        held_out[fold == k] = Z[fold == k, best_member(Z[fold != k], y[fold != k])]
    found = blend(Z, y, fold)
    np.testing.assert_array_equal(found.single, held_out)
    assert np.mean((found.held_out - y) ** 2) <= np.mean((held_out - y) ** 2) * (1 + 1e-12)


def test_errors_that_cancel_are_blended_and_a_lone_good_member_is_not():
    Z, y, fold = problem(200)
    apart = y[:, None] + np.where(np.arange(200) % 2, 1.0, -1.0)[:, None] * [1, -1]
    assert blend(apart, y, fold).kind == "blend"
    lone = np.column_stack([Z[:, 0], np.full(200, y.mean())])
    assert blend(lone, y, fold).weights.argmax() == 0


def test_two_folds_take_the_best():
    Z, y, _ = problem()
    found = blend(Z, y, np.arange(len(y)) % 2)
    assert found.kind == "single" and found.weights.tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("weighted", [False, True])
def test_weights_of_least_absolute_error_are_those_of_a_linear_programme(seed, weighted):
    """min Σ c t over w ≥ 0, Σ w = 1, -t ≤ y - Z w ≤ t."""
    Z, y, _ = problem(60, seed)
    weight = np.random.default_rng(seed).uniform(size=len(y)) if weighted else np.ones(len(y))
    n, m = Z.shape
    inequalities = np.block([[-Z, -np.eye(n)], [Z, -np.eye(n)]])
    exact = linprog(np.r_[np.zeros(m), weight], inequalities, np.r_[-y, y], np.r_[np.ones(m), np.zeros(n)][None], [1.0])
    found = np.average(np.abs(y - Z @ blend_weights(Z, y, weight, "mae")), weights=weight)
    assert found <= 1.002 * exact.fun / weight.sum()


def test_the_metric_decides_between_many_small_errors_and_one_large():
    y, fold = np.zeros(100), np.arange(100) % 5
    small, large = np.full(100, 0.5), np.where(np.arange(100) % 20 == 7, 5.0, 0.0)
    Z = np.column_stack([small, large])  # mean absolute errors 0.5 and 0.25, root mean squares 0.5 and 1.1
    assert best_member(Z, y) == 0 and best_member(Z, y, metric="mae") == 1
    assert sparse_weights(Z, y, fold, metric="mae")[1] > 0.99 and sparse_weights(Z, y, fold)[0] > 0.8


def test_weights_of_averages_are_applied_to_what_is_shown():
    """Of several deals of folds the weights are decided on the mean, and the predictions shown are those of one."""
    Z, y, fold = problem(200, errors=(0.5, 0.5, 1.0))
    shown = Z + 1.0
    plain, other = blend(Z, y, fold), blend(Z, y, fold, shown=shown)
    np.testing.assert_array_equal(other.weights, plain.weights)
    np.testing.assert_allclose(other.held_out, plain.held_out + 1.0)
