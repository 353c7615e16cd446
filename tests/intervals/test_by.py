"""Intervals calibrated within the values of a column."""

import numpy as np
import pytest

import bagwise as bw
from bagwise.intervals.order_statistics import conformal_quantile

SITES = np.array(["a", "b", "c", "d"])


def make_sites(per_site, seed):
    """Return bags whose targets have a noise of deviation 1, 2, 3 and 4 at four sites, and the sites."""
    rng = np.random.default_rng(seed)
    site = np.tile(np.arange(4), per_site)
    value = rng.normal(size=len(site))
    arrays = [v + rng.normal(size=(5, 2)) for v in value]
    y = value + (1.0 + site) * rng.normal(size=len(site))
    bags = bw.from_arrays(arrays)
    return bags._with(kept={"site": np.repeat(SITES[site], bags.sizes)}), y, site


def coverage_by_site(model, bags, y, site):
    low, high = model.predict_interval(bags).T
    inside = (low <= y) & (y <= high)
    return np.array([inside[site == k].mean() for k in range(4)])


@pytest.mark.parametrize("kind", ["cv+", "split"])
def test_the_level_holds_within_each_site(kind):
    pooled, within = [], []
    for seed in range(5):
        bags, y, site = make_sites(60 if kind == "cv+" else 240, seed)
        new, new_y, new_site = make_sites(500, 100 + seed)
        for by, results in ((None, pooled), ("site", within)):
            model = bw.Intervals("aggregated", kind=kind, by=by, scale="none").fit(bags, y)
            results.append(coverage_by_site(model, new, new_y, new_site))
    assert (np.abs(np.mean(within, axis=0) - 0.9) <= 0.04).all()
    assert np.ptp(np.mean(pooled, axis=0)) > 0.15


def test_intervals_are_those_of_the_scores_of_the_site():
    bags, y, site = make_sites(120, 0)
    model = bw.Intervals("aggregated", kind="split", by="site", scale="none").fit(bags, y)
    new, _, new_site = make_sites(3, 1)
    own = model.label_ == "c"
    half = conformal_quantile(model.scores_[None, own], np.ones(own.sum()), 0.9)[0]
    low, high = model.predict_interval(new)[new_site == 2].T
    assert own.sum() >= 20
    assert np.allclose(high - low, 2 * half)


def test_a_site_with_few_bags_or_unknown_takes_all_scores():
    bags, y, site = make_sites(60, 0)
    few = np.flatnonzero((site != 3) | (np.cumsum(site == 3) <= 10))
    model = bw.Intervals("aggregated", by="site").fit(bags[few], y[few])
    pooled = bw.Intervals("aggregated").fit(bags[few], y[few])
    new, _, new_site = make_sites(5, 1)
    assert np.allclose(model.predict_interval(new)[new_site == 3], pooled.predict_interval(new)[new_site == 3])
    elsewhere = new._with(kept={"site": np.full(new.n_instances, "new")})
    assert np.allclose(model.predict_interval(elsewhere), pooled.predict_interval(elsewhere))
    assert not np.allclose(model.predict_interval(new)[new_site == 0], pooled.predict_interval(new)[new_site == 0])


def test_a_covariate_and_a_category_do_as_well(tmp_path):
    bags, y, site = make_sites(60, 0)
    by_covariate = bw.Intervals("aggregated", by="code").fit(bags.with_covariates(site[:, None], ["code"]), y)
    assert set(by_covariate.label_) == {"0.0", "1.0", "2.0", "3.0"}
    frame = bags.to_frame(y)
    loaded, targets = bw.load(frame, bag="bag", target="target", features=["x1", "x2"], categories=["site"])
    by_category = bw.Intervals("aggregated", by="site").fit(loaded, targets)
    assert set(by_category.label_) == set(SITES)
    bw.save_model(by_category, tmp_path / "m.bagwise")
    again = bw.load_model(tmp_path / "m.bagwise")
    assert np.array_equal(again.predict_interval(loaded), by_category.predict_interval(loaded))


def test_a_column_that_is_not_there_or_varies_is_named():
    bags, y, _ = make_sites(10, 0)
    with pytest.raises(ValueError, match="'field'.*'site'"):
        bw.Intervals("aggregated", by="field").fit(bags, y)
    varying = bags._with(kept={"site": np.arange(bags.n_instances)})
    with pytest.raises(ValueError, match="'site'.*bag 0"):
        bw.Intervals("aggregated", by="site").fit(varying, y)
    model = bw.Intervals("aggregated", by="site").fit(bags, y)
    with pytest.raises(ValueError, match="'site'"):
        model.predict_interval(bags._with(kept=None))
