"""Coverage of new bags, over many draws of training bags, against the binomial bounds of what is promised."""

from math import sqrt

import numpy as np
import pytest

import bagwise as bw
from bagwise import Bags
from bagwise.embeddings import Pool
from bagwise.intervals import Intervals, coverage, coverage_by, coverage_by_size, gaussian_coverage
from bagwise.intervals.order_statistics import fifths
from bagwise.regressors import EmbeddingRidge, RidgePath

LEVELS = (0.8, 0.9, 0.95)
KINDS = ("cv+", "jackknife+", "split")
RIDGE = EmbeddingRidge(Pool(("mean",)), RidgePath((1e-3, 1e-2, 1e-1)))
N_NEW = 200
MANY_DRAWS = [(40, 300), (200, 100), (1000, 30)]


def draw(n_bags: int, seed: int) -> tuple[Bags, np.ndarray]:
    """The target is linear in the centre of a bag of 1 to 100 noisy instances: the smaller, the harder."""
    rng = np.random.default_rng(seed)
    sizes = np.exp(rng.uniform(0, np.log(101), n_bags)).astype(int)
    centre = rng.normal(size=(n_bags, 3))
    rows = np.repeat(centre, sizes, axis=0) + 1.5 * rng.normal(size=(sizes.sum(), 3))
    y = centre @ [1.0, -1.0, 0.5] + 0.1 * rng.normal(size=n_bags)
    return Bags(rows, np.concatenate([[0], np.cumsum(sizes)])), y


def covered(n_bags: int, draws: int, **options) -> dict[float, np.ndarray]:
    """For every level the mean, over the draws, of the coverage of all, the smallest and the largest bags."""
    found = {level: [] for level in LEVELS}
    for seed in range(draws):
        bags, y = draw(n_bags + N_NEW, seed)
        model = Intervals(**{"method": RIDGE, "level": 0.95, **options}).fit(bags[:n_bags], y[:n_bags])
        new, y_new = bags[n_bags:], y[n_bags:]
        for level in LEVELS:
            shares = coverage_by_size(y_new, model.predict_interval(new, level=level), new.sizes)
            found[level].append(list(shares.values()))
    return {level: np.mean(values, axis=0) for level, values in found.items()}


def bound(level: float, n_scores: int, draws: int, n_new: int = N_NEW) -> float:
    """Three and a half standard deviations: binomial for the new bags, beta for the scores of a draw."""
    return 3.5 * sqrt(level * (1 - level) * (1 / n_new + 1 / (n_scores + 2)) / draws)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "n_bags, draws",
    [(40, 15), (200, 8), *(pytest.param(*case, marks=pytest.mark.slow) for case in MANY_DRAWS)],
)
def test_each_level_is_covered_over_all_bags_and_by_size(n_bags, draws, kind):
    n_scores = n_bags // 2 if kind == "split" and n_bags < 57 else n_bags // 4 if kind == "split" else n_bags
    for level, (everyone, smallest, largest) in covered(n_bags, draws, kind=kind).items():
        slack = bound(level, n_scores, draws)
        # The rank is rounded up, which covers up to 1 / (n + 1) more; fold models have seen fewer bags: a little more.
        assert level - slack < everyone < level + 1 / (n_scores + 1) + 0.015 + slack
        # A fifth of the new bags; the scale is a fitted formula, hence not exact by size.
        by_size = bound(level, n_scores, draws, N_NEW // 5) + 1 / (n_scores + 1) + 0.03
        assert abs(smallest - level) < by_size and abs(largest - level) < by_size


def test_without_a_scale_small_bags_pay_for_large_ones():
    """What the scale is for: the same coverage over all bags, and 15 points too few for the smallest."""
    everyone, smallest, largest = covered(200, 8, kind="jackknife+", scale="none")[0.9]
    assert abs(everyone - 0.9) < 0.03 and smallest < 0.8 and largest > 0.97


def grouped(n_groups: int, n_bags: int, seed: int) -> tuple[Bags, np.ndarray]:
    """Every group adds a number of its own to the targets of its bags."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(n_groups), n_bags)
    rows, own = rng.normal(size=(3 * len(group), 2)), rng.normal(size=n_groups)[group]
    bags = Bags(rows, 3 * np.arange(len(group) + 1), groups=group)
    return bags, 3.0 * rows.reshape(-1, 3, 2).mean(axis=1)[:, 0] + own + 0.1 * rng.normal(size=len(group))


@pytest.mark.parametrize("draws", [12, pytest.param(150, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_few_large_groups_cover_bags_of_new_groups(kind, draws):
    """12 groups of 20 bags: with the group as the unit the promise holds for new groups; without, it is broken."""
    n_scores, found, careless = (6 if kind == "split" else 12), [], []
    for seed in range(draws):
        bags, y = grouped(12, 20, seed)
        new, y_new = grouped(40, 2, 1000 + seed)
        model = Intervals(RIDGE, kind=kind, level=0.8, folds=2 if kind == "split" else 4)
        found.append(coverage(y_new, model.fit(bags, y).predict_interval(new)))
        apart = Bags(bags.instances, bags.offsets)
        careless.append(coverage(y_new, model.fit(apart, y).predict_interval(Bags(new.instances, new.offsets))))
    slack = bound(0.8, n_scores, draws, n_new=40)
    assert 0.8 - slack < np.mean(found) < 0.8 + 1 / (n_scores + 1) + 0.03 + slack
    assert np.mean(careless) < np.mean(found) - 0.02


def test_coverage_wants_two_bounds_a_bag():
    with pytest.raises(ValueError, match="expected a lower and an upper bound for each of 3 bags, not shape"):
        coverage([1.0, 2.0, 3.0], np.zeros((2, 2)))


def test_gaussian_coverage_tells_too_small_deviations():
    y = np.random.default_rng(0).normal(size=20_000)
    shares = gaussian_coverage(y, 0.0, 0.5, levels=(0.95,))
    assert abs(shares[0.95] - 0.6729) < 0.01  # P(|z| < 0.98)


def test_coverage_by_label_and_fifths():
    y, intervals = np.arange(10.0), np.stack([np.full(10, -1.0), np.full(10, 6.5)], axis=1)
    found = coverage_by(y, intervals, ["a"] * 4 + ["b"] * 6, level=0.8)
    assert found["coverage"] == [1.0, 0.5] and found["bags"] == [4, 6] and found["width"] == [7.5, 7.5]
    assert found["low"] == [0.25, 0.5] and found["high"] == [1.0, 1.0]
    with pytest.raises(ValueError, match=r"one label for each of 10 bags, not shape \(2,\)"):
        coverage_by(y, intervals, ["a", "b"])
    assert np.bincount(fifths(np.arange(50))).tolist() == [10] * 5
    assert fifths(np.ones(7)).tolist() == [0] * 7


@pytest.mark.parametrize("scores", ["absolute", "quantile"])
@pytest.mark.parametrize("kind", ["cv+", "jackknife+", "split"])
def test_held_out_intervals_know_nothing_of_their_bag(kind, scores):
    bags, y = bw.datasets.make_problem("mean", 80)
    method = bw.method("aggregated")
    model = Intervals(method, kind=kind, scores=scores, folds=4).fit(bags, y)
    found = model.held_out_interval(bags, y)
    mine = y[model.calibration_]
    assert 0.75 <= coverage(mine, found) <= 1.0
    held_out = mine - model.residuals_
    i = 3
    rest = model.fold_ != model.fold_[i] if kind != "split" else np.arange(len(mine)) != i
    rank = int(np.ceil(0.9 * (rest.sum() + 1) - 1e-9))
    half = np.sort(model.scores_[rest])[rank - 1]
    one = bags[model.calibration_][[i]]
    if scores == "absolute":
        scales = model.scale_.predict_folds(one)[:, 0]
        half = half * scales[model.fold_[i] % len(scales)]
        expected = held_out[i] - half, held_out[i] + half
    else:
        models = model.quantiles_.models
        low, high = models[model.fold_[i] % len(models)].predict(one, held_out[[i]])[0]
        expected = held_out[i] + low - half, held_out[i] + high + half
    np.testing.assert_allclose(found[i], expected, rtol=1e-9)
    assert model.held_out_interval(bags, y, level=0.999) is None
