"""Every preset of the catalogue: missing values that are declared on loading, and instances far outside the range."""

import numpy as np
import pytest
from tests.helpers.short_fits import brief

import bagwise as bw

AS_PUBLISHED = ("paper", "notebook")  # presets that extrapolate as their source does
SLOW = {"auto:default", "auto:quick", "auto:best", "auto:additive", "bmir:paper"}  # seconds


def holed(n_bags: int, seed: int, missing: str = "impute") -> tuple[bw.Bags, np.ndarray]:
    """Ragged bags in groups, with a covariate and with gaps, now and then of a column in a whole bag."""
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=(rng.integers(2, 6), 3)) for _ in range(n_bags)]
    y = np.array([array[:, 0].mean() for array in arrays])
    for array in arrays:
        array[rng.random(array.shape) < 0.15] = np.nan
        if rng.random() < 0.2:
            array[:, rng.integers(3)] = np.nan
    groups = np.minimum(np.arange(n_bags), 52)  # `paper` has fifty folds of groups
    bags = bw.from_arrays(arrays, missing=missing, feature_names=["a", "b", "c"], groups=groups)
    return bags.with_covariates(y[:, None] + rng.normal(size=(n_bags, 1)), ["height"]), y


def strange_bags() -> bw.Bags:
    """One -9999 or 1e6 among four instances, and bags in the corners of the range."""
    rng, arrays = np.random.default_rng(2), []
    for j in range(3):
        arrays += [rng.normal(size=(4, 3)) for _ in range(2)]
        arrays[-1][1, j], arrays[-2][2, j] = -9999.0, 1e6
    arrays += [np.array([corner, corner]) for corner in np.array(np.meshgrid(*[[-50.0, 50.0]] * 3)).reshape(3, -1).T]
    bags = bw.from_arrays(arrays, feature_names=["a", "b", "c"])
    return bags.with_covariates(rng.normal(size=(len(bags), 1)), ["height"])


def presets():
    for name in bw.method_names():
        card = bw.method_card(name)
        for preset in card.preset_names:
            text = f"{name}:{preset}"
            yield pytest.param(text, marks=[pytest.mark.slow] * (text in SLOW))


@pytest.mark.filterwarnings("ignore")  # of training cut short
@pytest.mark.parametrize("name", list(presets()))
def test_declared_gaps_are_imputed_and_no_instance_carries_a_bag_away(name):
    (train, y), (new, _) = holed(56, seed=0), holed(6, seed=1)
    model = brief(bw.method(name)).fit(train, y)
    predictions = model.predict(new)
    assert np.isfinite(predictions).all()
    assert list(model.feature_names_in_)[:3] == ["a", "b", "c"]
    alone = np.concatenate([model.predict(new[[i]]) for i in range(3)])
    np.testing.assert_allclose(alone, predictions[:3], rtol=1e-6, atol=1e-6)
    if name.partition(":")[2] not in (*AS_PUBLISHED, "sum"):  # a sum grows with the bag; its rate has the limits
        low, high = y.min() - 0.5 * np.ptp(y), y.max() + 0.5 * np.ptp(y)
        strange = model.predict(strange_bags())
        assert strange.min() >= low - 1e-9 and strange.max() <= high + 1e-9
    filled = train.replace(np.nan_to_num(train.instances), feature_names=train.feature_names)
    assert np.isfinite(brief(bw.method(name)).fit(filled, y).predict(new)).all()  # gaps in new bags alone


@pytest.mark.parametrize("name", ["miles", "miles:sparse"])
def test_rounding_of_the_features_hardly_matters(name):
    bags, y = bw.datasets.make_problem("mean", 60, random_state=0)
    rounded = bags.replace(bags.instances + 1e-9 * np.random.default_rng(0).normal(size=bags.instances.shape))
    moved = bw.method(name).fit(rounded, y).predict(rounded) - bw.method(name).fit(bags, y).predict(bags)
    assert np.abs(moved).max() < 1e-6 * np.ptp(y)


@pytest.mark.parametrize("name", ["bdr:between", "shrinkage:between"])
def test_equal_instance_weights_change_nothing(name):
    bags, y = bw.datasets.make_gaussian(30, instances=5)
    threes = bags.with_weights(np.full(bags.n_instances, 3.0))
    plain, weighted = (brief(bw.method(name)).fit(one, y) for one in (bags, threes))
    np.testing.assert_array_equal(weighted.predict(threes), plain.predict(bags))


@pytest.mark.parametrize("name", ["bmir", "em", "bdr", "attention"])
@pytest.mark.filterwarnings("ignore")
def test_a_constant_target_is_predicted(name):
    bags, _ = bw.datasets.make_gaussian(30, instances=5)
    model = brief(bw.method(name)).fit(bags, np.full(30, 0.3))
    np.testing.assert_allclose(model.predict(bags), 0.3, rtol=1e-12)
