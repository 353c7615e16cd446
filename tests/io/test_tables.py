"""Bags from data frames of three libraries, against a groupby in plain Python."""

import datetime
import decimal
import warnings

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import bagwise as bw
from bagwise import check_table, load
from bagwise.bags.validation import ParameterError

NAN, INF = float("nan"), float("inf")
BUILD = {"pandas": pd.DataFrame, "polars": lambda data: pl.DataFrame(data, strict=False), "pyarrow": pa.table}


@pytest.fixture(params=list(BUILD))
def build(request):
    return BUILD[request.param]


def long_table(n=200, n_bags=17, seed=0):
    """Rows in random order, as plain Python lists."""
    rng = np.random.default_rng(seed)
    of_row = rng.integers(0, n_bags, n)
    targets = rng.normal(size=n_bags)
    return {
        "site": [f"s{i}" for i in of_row],
        "red": rng.normal(size=n).tolist(),
        "aod": targets[of_row].tolist(),
        "count": rng.integers(0, 9, n).tolist(),
        "county": [f"c{i % 4}" for i in of_row],
        "cloudy": (rng.random(n) < 0.5).tolist(),
    }


def by_hand(data, bag, target, features):
    """The groupby a reader would write."""
    bags, y = {}, {}
    for i, key in enumerate(data[bag]):
        bags.setdefault(key, []).append([float(data[name][i]) for name in features])
        y[key] = data[target][i]
    return bags, y


def check_against_hand(bags, y, data, features, bag="site", target="aod"):
    expected, targets = by_hand(data, bag, target, features)
    assert bags.ids.tolist() == list(expected)
    assert y.dtype == np.float64 and y.tolist() == list(targets.values())
    assert bags.feature_names == tuple(features)
    for mine, theirs in zip(bags, expected.values(), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_equals_groupby_by_hand(build):
    data = long_table()
    bags, y = load(build(data), bag="site", target="aod", groups="county")
    check_against_hand(bags, y, data, ["red", "count", "cloudy"])  # not the boolean, not the text
    assert bags.groups.tolist() == [f"c{int(site[1:]) % 4}" for site in bags.ids]


@pytest.mark.parametrize(
    "ids",
    [
        [f"s{i}" for i in range(17)],
        list(range(17, 0, -1)),
        [datetime.datetime(2020, 1, 1) + datetime.timedelta(days=i) for i in range(17)],
        [float(i) for i in range(17)],
        [i % 2 == 0 for i in range(2)],
    ],
    ids=["text", "integers", "dates", "floats", "booleans"],
)
@pytest.mark.parametrize("adjacent", [True, False])
def test_ids_of_every_type(build, ids, adjacent):
    data = long_table(n_bags=len(ids))
    if adjacent:
        order = np.argsort(data["site"], kind="stable")
        data = {name: [column[i] for i in order] for name, column in data.items()}
    data["site"] = [ids[int(site[1:])] for site in data["site"]]
    bags, y = load(build(data), bag="site", target="aod", features=["count", "red", "cloudy"])
    check_against_hand(bags, y, data, ["count", "red", "cloudy"])


@pytest.mark.parametrize("build_ids", [
    lambda ids: pd.DataFrame({"site": pd.Categorical(ids, categories=["z", "c", "b", "a"])}),
    lambda ids: pd.DataFrame({"site": pd.Series(ids, dtype="string")}),
    lambda ids: pd.DataFrame({"site": pd.Series(ids, dtype=object)}),
    lambda ids: pl.DataFrame({"site": pl.Series(ids, dtype=pl.Categorical)}),
    lambda ids: pl.DataFrame({"site": pl.Series(ids, dtype=pl.Enum(["z", "c", "b", "a"]))}),
    lambda ids: pa.table({"site": pa.DictionaryArray.from_arrays(
        pa.array(["cba".index(i) + 1 for i in ids]), pa.array(["z", "c", "b", "a"]))}),
    lambda ids: pa.table({"site": pa.chunked_array([ids[:2], [], ids[2:]])}),
    lambda ids: pa.table({"site": pa.array(ids, pa.string_view())}),
    lambda ids: pa.table({"site": pa.chunked_array([pa.array(ids[:2]).dictionary_encode(),
                                                    pa.array(ids[2:]).dictionary_encode()])}),
])  # fmt: skip
def test_categories_and_kinds_of_text_keep_the_order_of_appearance(build_ids):
    frame = nw.from_native(build_ids(["b", "a", "b", "c", "a"]))
    frame = frame.with_columns(nw.new_series("x", [0.0, 1, 2, 3, 4], backend=frame.implementation))
    bags, y = load(frame.to_native(), bag="site")
    assert y is None
    assert bags.ids.tolist() == ["b", "a", "c"]
    assert [bag.ravel().tolist() for bag in bags] == [[0, 2], [1, 4], [3]]


def test_mixed_ids_and_integer_column_names_of_pandas():
    frame = pd.DataFrame({0: pd.Series([1, "a", 1, "1"], dtype=object), 1: [1.0, 2.0, 3.0, 4.0]})
    with pytest.warns(UserWarning, match="bag ids '1' and \"'1'\" differ only in blanks, quotes"):
        bags, _ = load(frame, bag=0)
    assert bags.ids.tolist() == ["1", "a", "'1'"] and bags.feature_names == ("1",)


def test_the_index_of_pandas_does_not_matter():
    data = long_table()
    frame = pd.DataFrame(data, index=np.random.default_rng(1).integers(0, 5, 200))
    bags, y = load(frame, bag="site", target="aod", groups="county")
    check_against_hand(bags, y, data, ["red", "count", "cloudy"])


@pytest.mark.filterwarnings("ignore:.*(left out|and were dropped)")
def test_input_is_left_alone_and_order_of_rows_inside_a_bag_kept(build):
    data = long_table()
    frame = build(data)
    load(frame, bag="site", target="aod", missing="drop-instances")
    assert nw.from_native(frame).to_dict(as_series=False) == data


@pytest.mark.parametrize(
    ("types", "expected"),
    [(["f4", "f4"], "f4"), (["f4", "f8"], "f8"), (["f4", "i4"], "f8"), (["i1", "i1"], "f8"), (["f2", "f4"], "f4")],
)
def test_precision(build, types, expected):
    data = {"site": ["a", "b"], "x": np.array([1, 2], types[0]), "z": np.array([3, 4], types[1])}
    if build is BUILD["polars"] and "f2" in types:
        data["x"] = pl.Series([1, 2], dtype=pl.Float16)
    bags, _ = load(build(data), bag="site")
    assert bags.dtype == np.dtype(expected) and bags.instances.tolist() == [[1, 3], [2, 4]]


def test_decimals_are_numbers(build):
    data = {"site": ["a", "b"], "x": [decimal.Decimal("1.5"), decimal.Decimal("2.5")]}
    frame = build(data)
    if isinstance(frame, pd.DataFrame):
        frame["x"] = frame["x"].astype(pd.ArrowDtype(pa.decimal128(5, 2)))
    assert load(frame, bag="site")[0].instances.tolist() == [[1.5], [2.5]]


def test_numbers_of_any_type_of_pandas():
    """They were left out without a word."""
    columns = {
        "sparse": pd.arrays.SparseArray([0.0, 1.5, 0.0, np.nan]),
        "objects": pd.Series([1, 2.5, None, np.float32(3)], dtype=object),
        "decimals": [decimal.Decimal("1.5"), decimal.Decimal(2), None, decimal.Decimal("NaN")],
        "truths": pd.Series([True, False, True, True], dtype=object),
    }
    frame = pd.DataFrame({"site": pd.Series([3, 1, 3, 1], dtype=object)} | columns).set_axis([5, 5, 6, 6])
    for features in (None, list(columns)):
        bags = load(frame, bag="site", features=features, missing="keep")[0]
        expected = [[0, 1, 1.5, 1], [0, NAN, NAN, 1], [1.5, 2.5, 2, 0], [NAN, 3, NAN, 1]]
        np.testing.assert_array_equal(bags.instances, expected)
        assert bags.feature_names == tuple(columns) and bags.ids.tolist() == [3, 1]
    known = frame.iloc[:2]
    assert load(known, bag="site", target="decimals")[1].tolist() == [1.5, 2.0]
    assert load(known.astype({"sparse": "Sparse[float32]"}), bag="site", features="sparse")[0].dtype == np.float32


def test_numbers_of_any_type_beside_lists():
    frame = pd.DataFrame({"site": ["a", "b"], "x": [[1.0, 2.0], [3.0]], "n": [decimal.Decimal(4), decimal.Decimal(5)]})
    assert load(frame, bag="site")[0].instances.tolist() == [[1, 4], [2, 4], [3, 5]]


@pytest.mark.filterwarnings("ignore:.*(left out|and were dropped)")
@pytest.mark.parametrize(
    ("column", "words"),
    [
        (["1", "2.5", "?", "-3e2", "x", None, "NA"], r"'\?' in row 2, 'x' in row 4 .* fill_values=\['\?', 'x'\]"),
        (["1", "2.5", " 7 ", "-3e2", ".5", None, "NA"], "its values are numbers; make it a column of numbers"),
    ],
)
def test_text_that_is_mostly_numbers_is_left_out_with_a_warning(build, column, words):
    frame = build({"site": list("aabbcca"), "x": [1.0] * 7, "depth": column})
    with pytest.warns(UserWarning, match=f"column 'depth' is text and was left out: {words}.*ignore=") as told:
        bags, _ = load(frame, bag="site")
    assert bags.feature_names == ("x",) and len(told) == 1 and told[0].filename.endswith("test_tables.py")
    with warnings.catch_warnings(action="error"):
        load(frame, bag="site", ignore="depth")
        load(frame, bag="site", features="x")


@pytest.mark.parametrize("column", [[1, 2, "?"], ["1"] * 150 + [2, 3, "?"], [1] * 150 + ["?"]])
def test_a_column_numeric_but_for_a_few_cells_is_an_error(column):
    """One cell "n/a?" in 4,857 rows dropped the whole column."""
    frame = pd.DataFrame({"depth": pd.Series(column, dtype=object), "x": 1.0, "site": "a"})
    row = len(column) - 1
    with pytest.raises(ParameterError, match=rf"'depth' is numeric but .* '\?' in row {row} ") as caught:
        load(frame, bag="site")
    assert caught.value.parameter == "fill_values"
    found = [one for one in bw.check_table(frame, bag="site").findings if one.level == "error"]
    assert any("'depth'" in one.text and "fill_values=['?']" in one.text for one in found)
    with pytest.warns(UserWarning, match="were dropped"):
        bags, _ = load(frame, bag="site", fill_values="?", missing="drop-instances")
    assert bags.feature_names == ("depth", "x") and bags.n_instances == row
    assert load(frame, bag="site", ignore="depth")[0].feature_names == ("x",)


@pytest.mark.parametrize("column", [["01", "02", "10"], ["a1", "2", "b"], ["", "NA", None], [None] * 3])
def test_text_that_is_none_of_numbers_is_left_out_with_a_word(build, column):
    with pytest.warns(UserWarning, match=r"column 'code' \(\w+\) is not numeric and was left out"):
        bags, _ = load(build({"site": list("abc"), "x": [1.0] * 3, "code": column}), bag="site")
    assert bags.feature_names == ("x",)


@pytest.mark.filterwarnings("ignore:.*(left out|and were dropped)")
def test_roles_and_ignore(build):
    data = long_table()
    only = load(build(data), bag="site", target="aod", ignore="count")[0]
    assert only.feature_names == ("red", "cloudy")
    named = load(build(data), bag="site", features=["aod", "red"], ignore=["red"])[0]
    assert named.feature_names == ("aod", "red")  # ignore is for the default only


# Missing values -------------------------------------------------------------------------------------------------


@pytest.fixture
def holes(build):
    return build({"site": ["a", "b", "a", "b", "c"], "x": [1.0, NAN, 3.0, 4.0, 5.0], "z": [1, 2, None, 4, 5]})


@pytest.mark.filterwarnings("ignore:.*(left out|and were dropped)")
def test_missing_dropped(holes):
    bags, _ = load(holes, bag="site", missing="drop-instances")
    assert bags.ids.tolist() == ["a", "b", "c"] and not bags.has_missing
    assert bags.instances.tolist() == [[1, 1], [4, 4], [5, 5]]


def test_missing_kept(holes):
    bags, _ = load(holes, bag="site", missing="keep")
    np.testing.assert_array_equal(bags.instances, [[1, 1], [3, NAN], [NAN, 2], [4, 4], [5, 5]])
    assert bags.has_missing


@pytest.mark.filterwarnings("ignore:.*(left out|and were dropped)")
def test_infinite_values_are_dropped_or_refused(build):
    frame = build({"site": ["a", "a", "b"], "x": [1.0, INF, 3.0]})
    for missing in ("refuse", "keep"):
        with pytest.raises(ValueError, match="bag 'a' has infinite feature values"):
            load(frame, bag="site", missing=missing)
    assert load(frame, bag="site", missing="drop-instances")[0].instances.ravel().tolist() == [1, 3]


def test_nullable_types_of_pandas():
    frame = pd.DataFrame({
        "site": pd.array([2, 1, 2], dtype="Int64"),
        "i": pd.array([1, None, 3], dtype="Int64"),
        "f": pd.array([1.5, None, 3.5], dtype="Float32"),
        "b": pd.array([True, None, False], dtype="boolean"),
        "a": pd.array([1.5, None, 3.5], dtype="float64[pyarrow]"),
    })  # fmt: skip
    bags, _ = load(frame, bag="site", features=["i", "f", "b", "a"], missing="keep")
    assert bags.ids.tolist() == [2, 1] and bags.ids.dtype == np.int64
    np.testing.assert_array_equal(bags.instances, [[1, 1.5, 1, 1.5], [3, 3.5, 0, 3.5], [NAN] * 4])


# Refusals -------------------------------------------------------------------------------------------------------

NUMERIC = ["red", "aod", "count", "cloudy"]


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"bag": "sit"}, ValueError, r"no column 'sit' \(did you mean 'site'\?\); the columns are 'site', 'red'"),
        ({"bag": "site", "target": "zzz"}, ValueError, "no column 'zzz'; the columns are"),
        ({"bag": "site", "groups": "countyy"}, ValueError, "did you mean 'county'"),
        ({"bag": "site", "features": ["red", "blu"]}, ValueError, "no column 'blu'"),
        ({"bag": "site", "ignore": "blu"}, ValueError, "no column 'blu'"),
        ({"bag": None}, ValueError, "bag= is needed.*the columns are 'site'"),
        ({"bag": "count", "target": "count"}, ValueError, "cannot be both the bag id and the target"),
        ({"bag": "site", "features": []}, ValueError, "features is empty"),
        ({"bag": "site", "target": "aod", "features": ["red", "aod"]}, ValueError, "'aod' is the target; it cannot"),
        ({"bag": "count", "features": "count"}, ValueError, "'count' is the bag id; it cannot"),
        ({"bag": "site", "features": ["red", "county"]}, TypeError, r"'county' is String; encode"),
        ({"bag": "site", "ignore": NUMERIC}, ValueError, r"no numeric feature column; .*'county' \("),
        ({"bag": "site", "ignore": [*NUMERIC, "county"]}, ValueError, "every column has another role, or is ignored$"),
        ({"bag": "SITE"}, ValueError, r"no column 'SITE' \(did you mean 'site'\?\)"),
        ({"bag": "site", "target": "county"}, TypeError, "target must be numbers; column 'county' is String"),
        ({"bag": "site", "missing": "fill"}, ValueError, "missing must be 'refuse', 'drop-instances', 'impute' or"),
    ],
)
def test_wrong_columns_are_refused(build, options, error, match):
    with pytest.raises(error, match=match):
        load(build(long_table(n=20)), **options)


def test_no_rows(build):
    frame = build(long_table())
    with pytest.raises(ValueError, match="the table has no rows"):
        load(frame[:0] if not isinstance(frame, pa.Table) else frame.slice(0, 0), bag="site")


@pytest.mark.parametrize(
    ("columns", "options", "match"),
    [
        ({"site": ["a", None, "b", None]}, {}, r"2 of 4 rows have no bag id \(the first is row 1, .*column 'site'"),
        ({"site": ["a", "", "b", ""]}, {}, "2 of 4 rows have no bag id"),
        ({"site": [1, None, 2, None]}, {}, "2 of 4 rows have no bag id"),
        ({"site": [1.5, NAN, 2.5, NAN]}, {}, "2 of 4 rows have no bag id"),
        ({"y": [1.0, 2.0, 1.0, 2.25]}, {"target": "y"}, r"bag 'b' has more than one target .* 'y' \(2.0 and 2.25\)"),
        ({"y": [1.0, NAN, 1.0, NAN]}, {"target": "y"}, "bag 'b' has a missing or infinite target in column 'y'"),
        ({"y": [1.0, None, 1.0, None]}, {"target": "y"}, "bag 'b' has a missing or infinite target"),
        ({"y": [1.0, INF, 1.0, INF]}, {"target": "y"}, "bag 'b' has a missing or infinite target"),
        ({"y": [1.0, 1e300, 1.0, 1e300]}, {"target": "y"}, r"bag 'b' has a target beyond 1e\+100 in column 'y'"),
        ({"g": list("uuvu")}, {"groups": "g"}, "bag 'a' has more than one group in column 'g'"),
        ({"g": ["u", "v", None, "v"]}, {"groups": "g"}, "bag 'a' has rows without a group in column 'g'"),
        ({"z": [1.0] * 4}, {"bag_features": "x"}, "bag 'a' .* more than one value in .*; use the column as a feature"),
        ({"x": [NAN, None, 1.0, 1.0]}, {}, r"bag 'a' \(and 1 other\) has missing feature values .*drop-instances"),
        ({"x": [NAN, None, INF, 1.0]}, {"missing": "drop-instances"}, "bag 'a' has no finite instance; every bag"),
    ],
)
def test_bad_values_name_the_bag_and_the_column(build, columns, options, match):
    with pytest.raises(ValueError, match=match):
        load(build({"site": list("abab"), "x": [1.0, 2.0, 3.0, 4.0]} | columns), bag="site", **options)


def test_columns_of_one_name():
    with pytest.raises(ValueError, match="two columns have the same name, 'a'; names must be distinct"):
        load(pd.DataFrame([[1, 2, 3]], columns=["a", "a", "b"]), bag="b")


def test_rows_without_a_bag_in_pieces_of_an_arrow_table():
    frame = pa.table({"site": pa.chunked_array([["a", "b"], ["c", None], ["a", None]]), "x": [1.0] * 6})
    with pytest.raises(ValueError, match=r"2 of 6 rows have no bag id \(the first is row 3"):
        load(frame, bag="site")


@pytest.mark.parametrize("frame", [None, [[1, 2]], {"site": [1]}, np.ones((2, 2))], ids=str)
def test_what_is_no_frame(frame):
    with pytest.raises(TypeError, match="expected a data frame .*, not"):
        load(frame, bag="site")


def test_records_cannot_be_ids():
    for frame in (pa.table({"site": [{"u": 1}], "x": [1.0]}), pl.DataFrame({"site": [{"u": 1}], "x": [1.0]})):
        with pytest.raises(TypeError, match="column 'site' holds lists or records"):
            load(frame, bag="site")


def test_a_lazy_frame_is_to_be_collected_before_all_its_columns_are_checked():
    [finding] = check_table(pl.LazyFrame({"site": ["a"], "x": [1.0]}), bag="site").findings
    assert finding.level == "error" and "not LazyFrame; collect() a lazy frame first" in finding.text


@pytest.mark.parametrize(
    ("ids", "pair"),
    [
        (["A1", "B", "A1 "], r"'A1' and 'A1 ' differ"),
        (["a  b", "B", "a\u00a0b"], r"'a  b' and 'a\\xa0b' differ"),  # neither is written as it looks
        (["Z\u00fcrich", "B", "Zu\u0308rich", " B"], r"'Z\\xfcrich' and 'Zu\\u0308rich' \(and 1 more such\) differ"),
        (["A1", "B", "A1\u200b"], r"'A1' and 'A1\\u200b' differ"),
    ],
)
def test_ids_that_look_the_same_are_named(ids, pair):
    """They became bags of their own, and nothing was said."""
    frame = pd.DataFrame({"site": np.repeat(ids, 2), "x": np.arange(2.0 * len(ids))})
    with pytest.warns(UserWarning, match=f"bag ids {pair} only in blanks, quotes, invisible .* Unicode form") as said:
        bags, _ = load(frame, bag="site")
    assert bags.ids.tolist() == ids and len(said) == 1
    found = check_table(frame, bag="site")
    assert [one.text for one in found.findings if "differ" in one.text] == [str(said[0].message)] and found.ok


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("ids", [["A 1", "A1", "a1"], [" A", "B "], [1, 11, 111], [1.5, 2.5], ["m2", "m\u00b2"]])
def test_ids_that_look_different_are_not(ids):
    assert len(load(pd.DataFrame({"site": ids, "x": 1.0}), bag="site")[0]) == len(ids)
