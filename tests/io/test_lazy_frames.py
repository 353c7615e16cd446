"""Lazy frames: the bags of the collected table, from the columns that are needed and no others."""

import numpy as np
import polars as pl
import pytest

import bagwise as bw


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    columns = {"site": rng.choice(["a", "b", "c"], 30), "red": rng.normal(size=30), "nir": rng.normal(size=30)}
    return pl.DataFrame(
        columns | {"wet": rng.random(30) < 0.5, "area": rng.random(30), "note": ["x"] * 30}
    ).with_columns(aod=pl.col("site").replace_strict({"a": 1.0, "b": 2.0, "c": 3.0}))


def refused(*names):
    """Columns that raise when they are computed."""

    def fail(column):
        raise AssertionError(f"column {column.name} was computed")

    return [pl.col(name).map_batches(fail, return_dtype=pl.Float64) for name in names]


def test_a_lazy_frame_gives_the_bags_of_the_table_without_its_other_columns(table):
    how = {"bag": "site", "target": "aod", "features": ["nir", "red"], "weights": "area"}
    expected, y = bw.load(table, **how, keep=["note"])
    lazy = table.lazy().with_columns(*refused("wet"))
    bags, targets = bw.load(lazy, **how, keep=["note"])
    assert bags == expected and targets.tolist() == y.tolist()
    assert bags.kept["note"].tolist() == ["x"] * 30
    assert bw.load(lazy, **how)[0] == expected
    with pytest.raises(AssertionError, match="column wet was computed"):  # the trap works
        lazy.collect()


def test_without_named_features_texts_and_ignored_columns_are_not_computed(table):
    with pytest.warns(UserWarning, match=r"column 'note' \(String\) is not numeric and was left out"):
        expected, _ = bw.load(table, bag="site", target="aod", ignore=["area"])
    lazy = table.lazy().with_columns(*refused("area"))
    lazy = lazy.with_columns(pl.col("area").cast(pl.String).alias("note"))
    with pytest.warns(UserWarning, match=r"column 'note' \(String\) is not numeric and was left out"):
        bags, _ = bw.load(lazy, bag="site", target="aod", ignore=["area"])
    assert bags == expected and bags.feature_names == ("red", "nir", "wet")


def test_levels_second_tables_and_categories_found_compute_what_they_are_made_of(table):
    lazy = table.lazy().with_columns(*refused("area")).with_columns(crop=pl.Series(["wheat", "rye"] * 15))
    crops = table.with_columns(crop=pl.Series(["wheat", "rye"] * 15))
    how = {"bag": "site", "features": ["red", "crop=wheat", "crop=rye", "crop=other"]}
    assert bw.load(lazy, **how)[0] == bw.load(crops, **how)[0]
    second = table.select("site", "aod").unique().rename({"aod": "depth"})
    how = {"bag": "site", "target": "depth", "targets": second, "features": ["red"]}
    bags, y = bw.load(lazy, **how)
    expected, depths = bw.load(table, **how)
    assert bags == expected and y.tolist() == depths.tolist()
    how = {"bag": "site", "ignore": ["area", "note"], "categories": "auto"}
    with pytest.warns(UserWarning, match="taken as category: 'crop'"):
        assert bw.load(lazy, **how)[0] == bw.load(crops, **how)[0]


def test_a_relation_of_duckdb_computes_the_columns_needed(table):
    duckdb = pytest.importorskip("duckdb", reason="needs duckdb")
    connection = duckdb.connect()
    connection.register("pixels", table.to_arrow())
    relation = connection.sql("select * replace (error('column area was computed') as area) from pixels")
    with pytest.raises(duckdb.Error, match="area was computed"):  # the trap works
        relation.fetchall()
    how = {"bag": "site", "target": "aod", "features": ["nir", "red", "wet"]}
    bags, y = bw.load(relation, **how)
    expected, targets = bw.load(table, **how)
    order = [expected.ids.tolist().index(one) for one in bags.ids]
    assert bags == expected[order] and y.tolist() == targets[order].tolist()
    with pytest.warns(UserWarning, match="column 'note'"):
        assert bw.load(relation, bag="site", target="aod", ignore="area")[0].feature_names == (
            "red",
            "nir",
            "wet",
        )


def test_errors_name_all_columns_and_compute_nothing(table):
    lazy = table.lazy().with_columns(*refused("red"))
    with pytest.raises(ValueError, match=r"no column 'sit' \(did you mean 'site'\?\); the columns are 'site', 'red'"):
        bw.load(lazy, bag="sit")
    with pytest.raises(ValueError, match=r"there is no column 'Red' \(did you mean 'red'\?\)"):
        bw.load(lazy, bag="site", ignore=["Red"])
    with pytest.raises(ValueError, match="bag= is needed: the column that says .*; the columns are 'site', 'red'"):
        bw.load(table.lazy())
    with pytest.raises(TypeError, match="expected a data frame"):
        bw.load(3, bag="site")
