"""Statistics of categories and of missing values, against the same computed bag by bag."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bagwise as bw
from bagwise.embeddings import Pool, Statistics
from bagwise.model_files import load_model, save_model
from bagwise.testing import zoo

RNG = np.random.default_rng(0)
N = 120
FRAME = pd.DataFrame(
    {
        "donor": RNG.permutation(np.repeat(np.arange(20), 6)),
        "size": RNG.normal(size=N),
        "light": RNG.normal(size=N),
        "type": RNG.choice(["T", "B", "NK"], N),
    }
)


def bags_of(frame, **options):
    return bw.load(frame, bag="donor", categories="type", **options)[0]


@pytest.mark.parametrize("weights", [None, "weight"])
def test_means_by_level_are_those_of_a_group_by(weights):
    frame = FRAME.assign(weight=RNG.uniform(0.1, 2.0, N))
    bags = bags_of(frame if weights else frame.drop(columns="weight"), weights=weights)
    found = Statistics(("mean", "max"), by="type")
    rows = found.fit(bags)._rows(bags)
    w = frame["weight"] if weights else pd.Series(np.ones(N))
    expected = []
    for donor in bags.ids:
        of = frame[frame["donor"] == donor]
        mean = {c: np.average(of[c], weights=w[of.index]) for c in ("size", "light")}
        shares = [np.average(of["type"] == level, weights=w[of.index]) for level in ("B", "NK", "T")]
        row = [*mean.values(), *shares, 0.0, *(of[c].max() for c in mean)]
        for level in ("B", "NK", "T", None):
            at = of[of["type"] == level]
            row += [np.average(at[c], weights=w[at.index]) if len(at) else mean[c] for c in mean]
        expected.append(row)
    np.testing.assert_allclose(rows, expected, rtol=1e-12)


def test_a_level_has_a_share_and_nothing_else():
    bags = bags_of(FRAME)
    plain = bw.load(FRAME.drop(columns="type"), bag="donor")[0]
    assert Statistics().fit(bags)._rows(bags).shape[1] == Statistics().fit(plain)._rows(plain).shape[1] + 4


def test_an_unknown_category_is_refused():
    with pytest.raises(ValueError, match="by='kind' is not a category .* Categories are: 'type'. Load"):
        Statistics(by="kind").fit(bags_of(FRAME))
    with pytest.raises(ValueError, match="missing must be 'refuse' or 'keep', not 'drop'"):
        Statistics(missing="drop").fit(bags_of(FRAME))


@pytest.mark.parametrize("weighted", [False, True])
def test_missing_values_leave_statistics_of_the_others(weighted):
    frame = FRAME.drop(columns="type").assign(weight=RNG.integers(0, 3, N))
    frame.loc[frame.groupby("donor").head(1).index, "weight"] = 1
    if not weighted:
        frame = frame.drop(columns="weight")
    frame.loc[RNG.choice(N, 40, replace=False), "size"] = np.nan
    frame.loc[frame["donor"] == 3, "light"] = np.nan
    options = {"bag": "donor", "weights": "weight" if weighted else None}
    bags, _ = bw.load(frame, **options, missing="keep")
    names = ("mean", "deviation", "quantiles", "min", "max")
    found = Statistics(names, missing="keep").fit(bags)._rows(bags)
    for k, donor in enumerate(bags.ids):
        for j, column in enumerate(("size", "light")):
            of = frame[(frame["donor"] == donor) & frame[column].notna()]
            of = of[of["weight"] > 0] if weighted else of
            here = [found[k, j], found[k, 2 + j], *found[k, [4 + j, 6 + j, 8 + j]], found[k, 10 + j], found[k, 12 + j]]
            if len(of) == 0:
                assert np.isnan(here).all()
                continue
            alone, _ = bw.load(of[["donor", column, *(["weight"] if weighted else [])]], **options)
            expected = Statistics(names).fit(alone)._rows(alone)[0]
            np.testing.assert_allclose(here, expected, rtol=1e-12)


def test_the_method_reads_missing_values_as_they_are(tmp_path):
    frame = FRAME.drop(columns="type")
    y = frame.groupby("donor", sort=False)["size"].mean()
    frame.loc[RNG.choice(N, 30, replace=False), "light"] = np.nan
    frame.loc[frame["donor"] == 3, "light"] = np.nan
    bags, _ = bw.load(frame, bag="donor", missing="keep")
    model = bw.method("statistics", head__max_iter=10).fit(bags, y)
    together = model.predict(bags)
    assert np.isfinite(together).all()
    np.testing.assert_array_equal([model.predict(bags[[k]])[0] for k in range(len(bags))], together)
    save_model(model, tmp_path / "m.bagwise")
    np.testing.assert_array_equal(load_model(tmp_path / "m.bagwise").predict(bags), together)
    with pytest.raises(ValueError, match="missing feature values"):
        bw.method("statistics:linear").fit(bags, y)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize(
    "embedding", [Pool(("mean", "quantiles", "size")), Statistics(), Statistics(("max",), by="type")]
)
def test_each_column_has_a_name(embedding, missing):
    frame = FRAME.assign(light=np.where(np.arange(N) == 3, np.nan, FRAME["light"])) if missing else FRAME
    rows = embedding.fit(bags_of(frame, missing="impute")).transform(bags_of(frame, missing="impute"))
    names = embedding.get_feature_names_out()
    assert rows.shape[1] == len(names) == len(set(names)) and {"max of light", "quantile 0.25 of light"} & set(names)


def test_pool_statistics_against_numpy_and_scipy():
    bags = zoo(n_features=2)["ragged"]
    pool = Pool(("mean", "median", "variance", "deviation", "skewness", "kurtosis", "min", "max", "quantiles", "size"))
    rows = pool.fit_transform(bags)
    for row, bag in zip(rows, bags, strict=True):
        alone = len(bag) == 1
        expected = [
            *bag.mean(0),
            *np.median(bag, 0),
            *bag.var(0),
            *bag.std(0),
            *([0.0, 0.0] if alone else stats.skew(bag)),
            *([0.0, 0.0] if alone else stats.kurtosis(bag)),
            *bag.min(0),
            *bag.max(0),
            *np.quantile(bag, [0.1, 0.25, 0.5, 0.75, 0.9], axis=0).ravel(),
            np.log1p(len(bag)),
        ]
        np.testing.assert_allclose(row, expected, rtol=1e-10, atol=1e-12)
