"""Tables as users have them: categories, dates, a second table, several targets, and the names of their columns."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import bagwise as bw

RNG = np.random.default_rng(0)
PLOTS = [f"{k:03d}" for k in range(12)]
N = 48
NIR = RNG.normal(size=N)
DAYS = pd.Timestamp("2019-12-25") + pd.to_timedelta(RNG.integers(0, 500, N), "D")


def pixels(**columns) -> pd.DataFrame:
    plain = {"plot": np.tile(PLOTS, 4), "red": np.arange(N) / 7, "nir": NIR}
    return pd.DataFrame(plain | columns)


def yields(**columns) -> pd.DataFrame:
    return pd.DataFrame({"plot": PLOTS, "yield": np.arange(12.0)} | columns)


def quiet(source, **options):
    with warnings.catch_warnings(action="ignore"):
        return bw.load(source, **{"bag": "plot"} | options)


CROPS = RNG.choice(["wheat", "maize", "rye"], N)
LIBRARIES = [lambda frame: frame, pl.from_pandas, lambda frame: pl.from_pandas(frame).to_arrow()]

# Categories -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_frame", LIBRARIES)
def test_levels_are_columns_of_zeros_and_ones(as_frame):
    frame = pixels(crop=CROPS)
    bags, _ = bw.load(as_frame(frame), bag="plot", categories="crop")
    assert bags.feature_names == ("red", "nir", "crop=maize", "crop=rye", "crop=wheat", "crop=other")
    assert bags.categories == {"crop": bags.feature_names[2:]}
    of_row = frame["crop"].to_numpy()[bags.kept["row"]]
    for j, level in enumerate(["maize", "rye", "wheat", "other"]):
        np.testing.assert_array_equal(bags.instances[:, 2 + j], of_row == level)


def test_new_data_have_the_levels_of_training_by_the_names_of_its_features():
    bags, _ = bw.load(pixels(crop=CROPS), bag="plot", categories=["crop"])
    model = bw.method("aggregated").fit(bags, np.arange(12.0))
    new = pixels(crop=np.where(CROPS == "rye", "spelt", CROPS))
    with pytest.warns(UserWarning, match=r"rows of column 'crop' with other levels \(the first is 'spelt'\) count as"):
        again, _ = bw.load(new, bag="plot", features=list(model.feature_names_in_))
    assert again.feature_names == bags.feature_names
    np.testing.assert_array_equal(again.instances[:, 5], bags.instances[:, 3])  # spelt is another one
    assert not again.instances[:, 3].any()
    alone = quiet(new[new["plot"] == "003"], features=list(model.feature_names_in_))[0]
    np.testing.assert_array_equal(alone.instances, again[[3]].instances)
    given = quiet(new, categories={"crop": ["maize", "rye", "wheat"]})[0]
    np.testing.assert_array_equal(given.instances, again.instances)
    np.testing.assert_allclose(model.predict(again)[3], model.predict(alone)[0], rtol=1e-12)


def test_missing_levels_are_others_and_it_is_said():
    crops = CROPS.astype(object)
    crops[:5] = None
    with pytest.warns(UserWarning, match="5 rows without a value in column 'crop' count as 'crop=other'"):
        bags, _ = bw.load(pixels(crop=crops), bag="plot", categories="crop")
    assert bags.instances[:, -1].sum() == 5 and (bags.instances[:, 2:].sum(axis=1) == 1).all()


def test_the_rarest_of_many_levels_are_others():
    levels = [f"L{k:02d}" for k in range(55)]
    frame = pd.DataFrame({"plot": np.repeat([1, 2], 60), "x": 1.0, "kind": ([*levels, *levels[:5]] * 2)})
    with pytest.warns(UserWarning, match="5 of 55 levels of column 'kind', the rarest, count as 'kind=other'"):
        bags, _ = bw.load(frame, bag="plot", categories="kind")
    assert bags.n_features == 1 + 51 and bags.instances[:, -1].sum() == 10


def test_auto_takes_few_valued_text_and_names_it():
    frame = pixels(crop=CROPS, note=[f"n{k}" for k in range(N)], farm=[f"f{p}" for p in np.tile(PLOTS, 4)])
    with pytest.warns(UserWarning, match=r"taken as category: 'crop' \(3 levels\); columns 'note' .*, 'farm' "):
        bags, _ = bw.load(frame, bag="plot", categories="auto")
    assert list(bags.categories) == ["crop"]
    with pytest.warns(UserWarning, match="no column of text has few enough levels"):
        bw.load(frame.drop(columns="crop"), bag="plot", categories="auto")


def test_codes_of_a_csv_keep_their_zeros(tmp_path):
    pixels(soil=np.where(CROPS == "rye", "01", "1")).to_csv(tmp_path / "p.csv", index=False)
    bags, _ = bw.load(tmp_path / "p.csv", bag="plot", categories="soil")
    assert bags.categories["soil"] == ("soil=01", "soil=1", "soil=other") and bags.ids[1] == "001"
    again, _ = bw.load(tmp_path / "p.csv", bag="plot", features=list(bags.feature_names))
    np.testing.assert_array_equal(again.instances, bags.instances)


def test_a_category_of_the_bag_is_a_covariate():
    frame = pixels(crop=np.tile(["wheat", "maize"], 24))
    bags, _ = bw.load(frame, bag="plot", categories="crop", bag_features="crop")
    assert bags.feature_names == ("red", "nir") and bags.covariate_names == ("crop=maize", "crop=wheat", "crop=other")
    found, _ = bw.load(frame, bag="plot", categories="crop", bag_features="auto")
    np.testing.assert_array_equal(found.covariates, bags.covariates)
    varied, _ = bw.load(pixels(crop=CROPS), bag="plot", categories="crop", bag_features="auto")
    assert varied.covariates is None  # though no row is of another level


# Dates ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%d.%m.%Y", "%Y-%m-%dT10:00", "%Y%m%d", None])
@pytest.mark.parametrize("as_frame", LIBRARIES)
def test_dates_are_a_circle_and_a_year(as_frame, form):
    frame = pixels(sown=DAYS if form is None else DAYS.strftime(form))
    bags, _ = bw.load(as_frame(frame), bag="plot", dates="sown")
    assert bags.feature_names == ("red", "nir", "sown_sine", "sown_cosine", "sown_year")
    days = DAYS[bags.kept["row"]]
    angle = 2 * np.pi * (days.day_of_year - 1) / np.where(days.is_leap_year, 366, 365)
    expected = np.column_stack([np.sin(angle), np.cos(angle), days.year])
    np.testing.assert_allclose(bags.instances[:, 2:], expected, rtol=1e-12, atol=1e-12)
    again, _ = bw.load(as_frame(frame), bag="plot", features=["red", "sown_year"])
    np.testing.assert_array_equal(again.instances[:, 1], expected[:, 2])


def test_dates_that_are_none_name_the_bag():
    sown = DAYS.strftime("%Y-%m-%d").to_numpy(dtype=object)
    sown[13] = "4/23/2019"
    with pytest.raises(ValueError, match=r"bag '001' has '4/23/2019' in column 'sown', which cannot be .*2019-04-23"):
        bw.load(pixels(sown=sown), bag="plot", dates="sown")


@pytest.mark.parametrize("what", ["categories", "dates"])
def test_wrong_columns_are_refused(what):
    with pytest.raises(ValueError, match=r"there is no column 'crops' \(did you mean 'crop'\?\)"):
        bw.load(pixels(crop=CROPS), bag="plot", **{what: "crops"})
    with pytest.raises(ValueError, match=f"column 'plot' has another role; it cannot be in {what} as well"):
        bw.load(pixels(crop=CROPS), bag="plot", **{what: "plot"})
    with pytest.raises(ValueError, match="no column 'sown_sine', nor a column 'sown' of dates to make it from; the"):
        bw.load(pixels(), bag="plot", features=["red", "sown_sine"])
    with pytest.raises(ValueError, match="there is a column 'crop=rye' already; rename it"):
        bw.load(pixels(**{"crop": CROPS, "crop=rye": 1.0}), bag="plot", categories="crop")
    with pytest.raises(ValueError, match="column 'empty' has no values; leave it out"):
        bw.load(pixels(empty=np.array([None] * N)), bag="plot", categories="empty")


@pytest.mark.parametrize("role", ["categories", "dates", "groups", "fold", "bag"])
def test_records_are_no_labels(role):
    table = pa.Table.from_pandas(pixels()).append_column("place", pa.array([{"x": 1, "y": 2}] * N))
    with pytest.raises(TypeError, match="must be text, integers or dates; column 'place' holds lists or records"):
        bw.load(table, **{"bag": "plot", role: "place"})
    with pytest.warns(UserWarning, match=r"'place' \(Struct\) is not numeric and was left out; ignore=\['place'\]"):
        bw.load(table, bag="plot")
    with pytest.raises(TypeError, match="column 'place' is Struct; encode it, for example one of its fields"):
        bw.load(table, bag="plot", features="place")


# The second table -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_frame", LIBRARIES)
def test_a_second_table_is_the_same_as_a_merge(as_frame):
    second = yields(rain=RNG.normal(size=12), county=["a", "b", "c"] * 4).sample(frac=1.0, random_state=1)
    options = {"bag": "plot", "target": "yield", "groups": "county", "bag_features": "rain"}
    bags, y = bw.load(as_frame(pixels()), targets=as_frame(second), **options)
    expected, known = bw.load(pixels().merge(second, on="plot"), **options)
    assert bags == expected
    np.testing.assert_array_equal(y, known)


def test_files_are_joined_by_ids_as_they_are_written(tmp_path):
    pixels().to_csv(tmp_path / "p.csv", index=False)
    yields().to_csv(tmp_path / "y.csv", index=False)
    bags, y = bw.load(tmp_path / "p.csv", bag="plot", targets=tmp_path / "y.csv")
    assert bags.ids[7] == "007" and y[7] == 7 and bags.target_name == "yield" and bags.id_name == "plot"
    numbered = pixels().assign(plot=np.tile(np.arange(12), 4))
    assert (bw.load(numbered, bag="plot", targets=yields(plot=[str(k) for k in range(12)]))[1] == np.arange(12)).all()


def test_bags_and_targets_without_a_partner_are_counted_and_named():
    second = yields(plot=[*PLOTS[:9], "x1", "x2", "x3"])
    second.loc[2, "yield"] = np.nan
    text = (
        r"4 of 12 bags have no target in targets and were left out \(the first is '002'\); "
        r"3 rows of targets have no bag \(the first is 'x1'\)"
    )
    with pytest.warns(UserWarning, match=text):
        bags, y = bw.load(pixels(), bag="plot", targets=second)
    assert bags.ids.tolist() == [*PLOTS[:2], *PLOTS[3:9]] and y.tolist() == [0, 1, 3, 4, 5, 6, 7, 8]
    np.testing.assert_array_equal(pixels()["red"].to_numpy()[bags.kept["row"]], bags.instances[:, 0])


@pytest.mark.parametrize(
    "second, options, match",
    [
        (yields().rename(columns={"plot": "id"}), {}, "targets has no column 'plot', by which it is joined; .*id, yi"),
        (yields(), {"bag": None}, "bag= is needed: the column that says which bag a row belongs to"),
        (yields(), {"bag": "field"}, "there is no column 'field'; the columns are 'plot', 'red', 'nir'"),
        (yields(**{"yield": ["n/a?", *"12345678901"]}), {"target": "yield"}, r"missing with fill_values=\['n/a\?'\]$"),
        (
            yields(rain=["7", "n/a?", *map(str, range(10))]),
            {"target": "yield", "bag_features": "rain"},
            r"column 'rain' is String: 'n/a\?' in row 1 ",
        ),
        (yields(rain=1.0), {}, r"targets has several columns of numbers \(yield, rain\); name the target with target="),
        (yields(red=1.0), {"bag_features": "red"}, "column 'red' is in the table and in targets; drop it"),
        (yields(plot=["001", *PLOTS[1:]]), {}, "bag '001' has several rows in targets; a second table has one row"),
        (yields(plot=np.arange(12)), {}, "no bag id is in both tables: the first has '000', and targets has 0; write"),
        (yields(**{"yield": np.nan}), {"target": "yield"}, "no bag has a target in column 'yield' of targets; fill"),
        (yields()[:7], {"bag_features": "yield"}, r"bag '007' \(and 4 others\) has no row in targets; give every"),
        (yields().set_index("plot")["yield"], {}, "targets is a Series; pass targets=series.rename_axis"),
    ],
)
def test_a_second_table_that_does_not_fit_is_refused(second, options, match):
    with pytest.raises(ValueError, match=match):
        bw.load(pixels(), **{"bag": "plot", "targets": second} | options)
    if "bag" in options:
        with pytest.raises(ValueError, match=match):
            bw.load(pl.from_pandas(pixels()).lazy(), **{"targets": second} | options)


@pytest.mark.parametrize(
    "column, way", [("rain", r"bag_features=\['rain'\] takes"), ("county", "groups='county' would keep")]
)
def test_unused_columns_of_a_second_table_are_named_with_a_use(column, way):
    with pytest.warns(UserWarning, match=f"column '{column}' of targets is not used; {way}"):
        bw.load(pixels(), bag="plot", target="yield", targets=yields(rain=1.0, county="a")[["plot", "yield", column]])


# Several targets ------------------------------------------------------------------------------------------------------


def test_a_bag_may_lack_some_of_several_targets():
    second = yields(protein=RNG.normal(size=12))
    second.loc[4, "protein"] = np.nan
    bags, y = bw.load(pixels(), bag="plot", targets=second, target=["yield", "protein"])
    np.testing.assert_array_equal(y, second[["yield", "protein"]].to_numpy())
    assert bags.target_name == ("yield", "protein")
    second.loc[4, "yield"] = np.nan
    merged = pixels().merge(second, on="plot")
    with pytest.raises(ValueError, match="bag '004' has no target in columns 'yield', 'protein'; drop such bags"):
        bw.load(merged, bag="plot", target=["yield", "protein"])
    with pytest.raises(ValueError, match="no bag has a target in column 'protein'; leave it out"):
        bw.load(pixels(), bag="plot", targets=yields(protein=np.nan), target=["yield", "protein"])


# Names of the user, and what is kept ----------------------------------------------------------------------------------


def test_a_model_saved_in_python_knows_the_names_of_the_table(tmp_path):
    from bagwise.model_files import describe_training, read_header

    bags, y = quiet(pixels(), targets=yields())
    training = describe_training(bags, y)
    bw.save_model(bw.method("aggregated").fit(bags, y), tmp_path / "m.bagwise", training=training)
    assert read_header(tmp_path / "m.bagwise")["training"]["columns"] == {"bag": "plot", "target": "yield"}


def test_tables_of_results_use_the_names_of_the_table():
    bags, y = quiet(pixels(), targets=yields())
    results = bw.evaluate(bags, y, ["aggregated"], repeats=1, folds=3)
    assert list(results.predictions("aggregated")) == ["repeat", "fold", "plot", "size", "yield", "prediction", "std"]
    assert next(iter(bw.explain(bw.method("aggregated").fit(bags, y), bags).table())) == "plot"
    odd, y = quiet(
        pixels().rename(columns={"plot": "fold"}),
        bag="fold",
        targets=yields().rename(columns={"plot": "fold", "yield": "prediction"}),
    )
    results = bw.evaluate(odd, y, ["aggregated"], repeats=1, folds=3)
    assert list(results.predictions("aggregated")) == ["repeat", "fold", "bag", "size", "target", "prediction", "std"]
    assert results.pooled("aggregated").shape == (1,)


@pytest.mark.parametrize("missing", ["refuse", "drop-instances"])
def test_an_archive_of_bags_holds_what_load_knew(tmp_path, missing):
    frame = pixels(crop=CROPS, barcode=[f"c{k}" for k in range(N)])
    second = yields(protein=RNG.normal(size=12))
    second.loc[4, "protein"] = np.nan
    more = {"target": ["yield", "protein"], "categories": "crop", "keep": "barcode"}
    bags, y = quiet(frame, targets=second, **more)
    if missing == "drop-instances":
        bags = bags._with(instances=np.where(bags.instances == bags.instances[7, 1], np.nan, bags.instances))
        bags = bags._with(has_missing=True)
    bw.save_npz(tmp_path / "b.npz", bags, y)
    again, known = bw.load(tmp_path / "b.npz", missing=missing)
    np.testing.assert_array_equal(known, y)
    assert (again.id_name, again.target_name, again.categories) == ("plot", ("yield", "protein"), bags.categories)
    rows = np.delete(np.arange(N), 7) if missing == "drop-instances" else np.arange(N)
    assert list(again.kept) == ["row", "barcode"]
    for name in again.kept:
        np.testing.assert_array_equal(again.kept[name], bags.kept[name][rows])
    with pytest.raises(ValueError, match="holds bags, not a table; features=.*targets= do not apply"):
        bw.load(tmp_path / "b.npz", targets=second)


def test_archives_are_no_second_table_and_have_one_target(tmp_path):
    from scipy.io import savemat

    bags, y = quiet(pixels(), targets=yields())
    bw.save_npz(tmp_path / "b.npz", bags, y)
    with pytest.raises(ValueError, match="b.npz is not a table with named columns; give a .csv or .parquet"):
        bw.load(pixels(), bag="plot", targets=tmp_path / "b.npz")
    savemat(tmp_path / "m.mat", {"m": np.arange(20.0).reshape(4, 5)})
    with pytest.raises(ValueError, match="m.mat has one target; load it once for each of several"):
        bw.load(tmp_path / "m.mat", target=[3, 4])
    arrays = dict(np.load(tmp_path / "b.npz"))
    np.savez(tmp_path / "c.npz", **arrays | {"kept_0": np.arange(3)})
    with pytest.raises(ValueError, match="kept column 'row' has 3 values; one per instance is needed"):
        bw.load(tmp_path / "c.npz")
