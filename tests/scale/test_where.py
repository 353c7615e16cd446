"""Only the rows that are asked for, exactly, and no row group that cannot have one."""

import threading
from datetime import date

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.helpers.cut_tables import rows_read

from bagwise.io.conditions import as_where
from bagwise.scale import scan


@pytest.fixture
def dataset(tmp_path):
    """Three years in folders; days rise from file to file and row group to row group, four rows in each."""
    for k, year in enumerate((2019, 2020, 2021)):
        (tmp_path / f"year={year}").mkdir()
        rng = np.random.default_rng(k)
        frame = pd.DataFrame(
            {
                "site": rng.choice(["A", "B", "C's"], 12),
                "day": np.arange(12) + 12 * k,
                "when": pd.date_range("2019-01-01", periods=12).to_numpy() + np.timedelta64(12 * k, "D"),
                "x": rng.normal(size=12),
            }
        )
        frame.to_parquet(tmp_path / f"year={year}" / "a.parquet", row_group_size=4)
    return tmp_path


def found(scanned):
    table = rows_read(scanned)
    return np.column_stack([table[name].to_numpy() for name in scanned.feature_names])


def whole(dataset):
    frames = [pd.read_parquet(path).assign(year=int(path.parent.name[5:])) for path in sorted(dataset.glob("*/*"))]
    return pd.concat(frames, ignore_index=True)


CONDITIONS = [
    ("year >= 2020", [("year", ">=", 2020)], lambda t: t.year >= 2020, 6),
    ("day>5 and day <= 17.5", [("day", ">", 5), ("day", "<=", 17.5)], lambda t: (t.day > 5) & (t.day <= 17.5), 4),
    (
        "year == 2021 and site = 'B'",
        [("year", "==", 2021), ("site", "=", "B")],
        lambda t: (t.year == 2021) & (t.site == "B"),
        3,
    ),
    ("day in (1, 30)", [("day", "in", {1, 30})], lambda t: t.day.isin([1, 30]), 2),
    ("year not in (2019, 2020)", [("year", "not in", [2019, 2020])], lambda t: t.year == 2021, 3),
    ("year != 2019 and day < 12", [("year", "!=", 2019), ("day", "<", 12)], None, 0),
    ('site == "C\'s"', [("site", "==", "C's")], lambda t: t.site == "C's", 8),
    ("when < '2019-01-06'", [("when", "<", date(2019, 1, 6))], lambda t: t.day < 5, 2),
    ("when in ('2019-01-06')", [("when", "in", ["2019-01-06"])], lambda t: t.day == 5, 1),
    (None, [[("day", "<", 2)], [("year", "=", 2021), ("day", ">=", 33.0)]], lambda t: (t.day < 2) | (t.day >= 33), 2),
]


@pytest.mark.parametrize(("text", "tuples", "rows", "groups"), CONDITIONS, ids=[str(c[0]) for c in CONDITIONS])
def test_rows_are_chosen_exactly_and_row_groups_by_their_statistics(dataset, text, tuples, rows, groups):
    for where in [tuples] if text is None else [text, tuples]:
        options = {"bag": "site", "features": ["day", "x"], "where": where, "chunk_rows": 4}
        if rows is None:
            with pytest.raises(ValueError, match="No row can satisfy where: it leaves out all 36 rows"):
                scan(dataset, **options)
            continue
        scanned = scan(dataset, **options)
        assert len(scanned.chunks) == groups and scanned.n_rows == 36
        expected = whole(dataset)[rows(whole(dataset))]
        np.testing.assert_array_equal(found(scanned), expected[["day", "x"]])
        assert rows_read(scanned)["site"].to_pylist() == expected.site.tolist()
        memory = scan(whole(dataset), **options)
        np.testing.assert_array_equal(found(memory), expected[["day", "x"]])


def test_row_groups_that_are_left_out_are_not_read(dataset, damage):
    path = dataset / "year=2019" / "a.parquet"
    for column in range(4):
        damage(path, column=column, group=1)
    scanned = scan(dataset / "year=2019", bag="site", features=["day"], where=[[("day", "<", 4)], [("day", ">", 7)]])
    assert found(scanned)[:, 0].tolist() == [0, 1, 2, 3, 8, 9, 10, 11]
    assert [chunk.groups for chunk in scanned.chunks] == [(0,), (2,)]
    assert scanned.chunks[1].name.endswith("a.parquet, row group 2")


def test_a_chunk_may_be_left_without_rows(dataset):
    scanned = scan(dataset, bag="site", ignore="when", where="site == 'Bonn'")  # between B and C, so no statistics tell
    assert len(scanned.chunks) == 4
    assert repr(scanned).startswith(f"Scan: {scanned.n_rows} rows before where in 4 chunks of ")
    assert rows_read(scanned).num_rows == 0


def test_nan_is_in_no_statistics_and_a_null_satisfies_nothing(tmp_path):
    """A row group of 5, 5 and NaN has the least and the greatest value 5, but NaN is not 5."""
    pq.write_table(pa.table({"site": [1, 1, 2], "x": [5, 5, float("nan")]}), tmp_path / "a.parquet")
    for where in ("x != 5", "x not in (5, 6)"):
        assert np.isnan(found(scan(tmp_path, bag="site", where=where))).tolist() == [[True]]
    pq.write_table(pa.table({"site": [1, 1, 2], "x": [5.0, None, 7.0]}), tmp_path / "a.parquet")
    for source in (tmp_path, pq.read_table(tmp_path / "a.parquet")):
        for where in ("x != 5", "x not in (5)", "x not in (5, 6)", "x > 6", "x in (7)"):
            assert found(scan(source, bag="site", where=where)).tolist() == [[7.0]]
        lists = [[("x", "not in", [5])], [("x", "==", 5)]]
        assert found(scan(source, bag="site", where=lists)).tolist() == [[5.0], [7.0]]
    for value in ("1", "2", "__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / "of" / f"g={value}").mkdir(parents=True)
        pq.write_table(pa.table({"site": [1], "x": [1.0]}), tmp_path / "of" / f"g={value}" / "a.parquet")
    for where in ("g != 1", "g not in (1)", "g > 1"):
        assert len(found(scan(tmp_path / "of", bag="site", where=where))) == 1


@pytest.mark.parametrize("text", ["\\", r"\x4", r"C:\new", r"C:\data", "two\nlines", "", "it's", "a, 'b'", "007"])
def test_what_stands_between_quotes_is_taken_as_it_is(text):
    frame = pd.DataFrame({"site": [1, 2], "s": [text, "other"], "x": [1.0, 2.0]})
    quote = '"' if "'" in text else "'"
    for where in (f"s == {quote}{text}{quote}", f"s in ('none', {quote}{text}{quote})", "s != 'other' and x == 01"):
        assert found(scan(frame, bag="site", where=where)).tolist() == [[1.0]]


def test_the_condition_may_be_on_what_is_not_read_otherwise(dataset):
    assert scan(dataset, bag="site", features=["x"], where="`day` == 3").chunks[0].layout.features == ("x",)
    assert found(scan(dataset, bag="site", features=["x"], where="day == 3")).shape == (1, 1)


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("year >", r"where='year >' cannot be read from 'year >' on; write comparisons joined by 'and'"),
        ("year > 3 or day < 2", "cannot be read from 'year > 3 or day < 2' on"),
        ("year > 3 and", "cannot be read from '' on"),
        ("year in 3", "'in' takes values in brackets"),
        ("year == (3, 4)", "'==' takes one value"),
        ([("year", ">")], r"is not understood; give a list of tuples \(column, operator, value\)"),
        ([("year", "~", 3)], "is not understood; .*operators are ==, =, !=, <=, >=, <, >, in, not in"),
        ([], r"where=\[\] is not understood"),
        ([[("year", "==", 2019)], []], r"where=.* is not understood"),
        ("day < 99999999999999999999", "where: column 'day' is int64 and cannot be < 99999999999999999999"),
        ("when < 99999999999999999999", r"column 'when' is timestamp\[..\] and cannot be < 99999999999999999999"),
        ([("day", "==", None)], "where: column 'day' is compared with None; a null satisfies no condition"),
        (3, "where=3 is not understood"),
        (" or ".join(f"day > {k}" for k in range(10_000)), r"^where='day > 0 or .{0,650}$"),
        ([("year", "in", "2019")], "'in' takes a list of values, not '2019'"),
        ("yaer > 3", r"there is no column 'yaer' \(did you mean 'year'\?\)"),
        ("site > 3", "where: column 'site' is (large_)?string and cannot be > 3"),
        ("when < 'May'", r"where: column 'when' is timestamp\[..\] and cannot be < 'May'"),
    ],
)
def test_what_is_not_understood_is_said(dataset, where, words):
    with pytest.raises(ValueError, match=words):
        scan(dataset, bag="site", where=where)


@pytest.mark.parametrize("where", [
    [("day", ">", k % 5) for k in range(10_000)],
    [[("day", "==", k)] for k in range(10_000)],
    " and ".join(["day > 4"] * 10_000),
], ids=["all", "any", "text"])  # fmt: skip
def test_conditions_without_end_are_refused(dataset, where):
    """Ten thousand ended in a segmentation fault."""
    words = r"where has 10,000 conditions, and at most 250 are taken; write values of one column as one condition"
    with pytest.raises(ValueError, match=words):
        scan(dataset, bag="site", where=where)
    few = scan(dataset, bag="site", features=["day"], where=[("day", "in", list(range(5, 10_000)))])
    assert found(few)[:, 0].tolist() == list(range(5, 36))  # a list may be long


@pytest.mark.parametrize("where", [
    [("day", ">", k % 5) for k in range(250)],
    [[("day", "==", k + 5)] for k in range(250)],
    [[("day", ">", 4), ("day", "<", k)] for k in range(125)],
], ids=["all", "any", "any of all"])  # fmt: skip
def test_the_most_conditions_fit_a_small_stack(dataset, where):
    result, before = [], threading.stack_size(2**19)
    try:
        sources, options = (dataset, whole(dataset)), {"bag": "site", "features": ["day"], "where": where}
        thread = threading.Thread(target=lambda: result.extend(found(scan(one, **options)) for one in sources))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert [days[:, 0].tolist() for days in result] == [list(range(5, 36))] * 2


def test_texts_are_read():
    text = "`a b`==-1.5e3 and c.d in ('x', \"y\",) and e not  in (1) and f=True"
    expected = (("a b", "==", -1500.0), ("c.d", "in", ["x", "y"]), ("e", "not in", [1]), ("f", "=", True))
    assert as_where(text).any_of == (expected,)
    numbers = "a == 007 and b == -0.50 and c in (+1, 1e2, .5, 3.) and d == False"
    assert [value for _, _, value in as_where(numbers).any_of[0]] == [7, -0.5, [1, 100.0, 0.5, 3.0], False]
    assert [type(value) for _, _, value in as_where("a == 007 and b == 7.0").any_of[0]] == [int, float]
    assert as_where("n == '3'").any_of == ((("n", "==", "3"),),)
