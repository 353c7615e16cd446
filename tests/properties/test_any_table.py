"""A table of any types and order gives the bags of a dictionary of lists, or an error of bagwise."""

from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import strategies as st
from tests.helpers.generating import effort, finite, numbers, told, try_all

import bagwise as bw

# What is told on the way is tested in tests/io/test_nothing_unsaid.py.
told_on_the_way = pytest.mark.filterwarnings(
    "ignore:.*(left out|and were dropped|differ only by blanks|looks like a fill value)"
)

ids = st.one_of(
    st.sampled_from(["a", "b", "c", "", " a", "é", "<script>", "2020-01-01", "1"]).map(lambda x: x),
    st.none(),
)
whole = st.integers(-3, 3)
days = st.dates(date(2019, 12, 30), date(2020, 1, 2))


@st.composite
def tables(draw, values=numbers):
    """Generate a bag column of one type, a target that may vary within a bag, and features, in any row order."""
    n = draw(st.integers(0, 12))
    bag = draw(st.lists(draw(st.sampled_from([ids, ids.filter(bool), whole, days])), min_size=n, max_size=n))
    tidy = draw(st.booleans())
    target = draw(st.lists(values, min_size=n, max_size=n))
    if tidy:  # one finite target per bag, from its id
        target = [float(sum(map(ord, str(one)))) for one in bag]
    columns = {"bag": bag, "y": target}
    for name in draw(st.lists(st.sampled_from(["x", "red", "x y", "ü"]), unique=True, max_size=3)):
        columns[name] = draw(st.lists(values, min_size=n, max_size=n))
    return columns


def naive(columns, features):
    """Return bag id -> rows and target, in order of appearance, or None if the table must be refused."""
    found = {}
    for i, bag in enumerate(columns["bag"]):
        row = [columns[name][i] for name in features]
        y = columns["y"][i]
        if bag in (None, "") or not all(abs(value) <= 1e100 for value in [y, *row]):  # False for NaN
            return None
        known, rows = found.setdefault(bag, (y, []))
        if known != y:
            return None
        rows.append(row)
    return found or None


LIBRARIES = {
    "pandas": pd.DataFrame,
    "polars": lambda columns: pl.DataFrame(columns, strict=False),
    "arrow": lambda columns: pa.table(columns),
}


@told_on_the_way
@pytest.mark.parametrize("library", LIBRARIES)
@effort
def test_a_table_is_a_dictionary_of_bags(effort, library):
    def check(columns):
        features = [name for name in columns if name not in ("bag", "y")]
        expected = naive(columns, features) if features else None
        loaded = told(bw.load, LIBRARIES[library](columns), bag="bag", target="y")
        assert (loaded is not None) == (expected is not None)
        if expected is not None:
            bags, y = loaded
            assert [str(one)[:10] for one in bags.ids] == [str(one)[:10] for one in expected]
            for bag, got, (target, rows) in zip(bags, y, expected.values(), strict=True):
                np.testing.assert_array_equal(bag, rows)
                assert got == target

    try_all(effort, check, tables(), few=50, many=2000)


@effort
@told_on_the_way
@pytest.mark.filterwarnings("ignore:.*looks like a fill value")
def test_a_look_at_a_table_agrees_with_loading_it(effort):
    def check(columns):
        frame = pd.DataFrame(columns)
        loaded = told(bw.load, frame, bag="bag", target="y")
        found = bw.check_table(frame, bag="bag", target="y")
        if loaded is None or len(loaded[0]) < 2:  # one bag can be loaded, but not learned from
            assert not found.ok
        else:
            assert found.ok and found.bags == len(loaded[0]) and found.rows == loaded[0].n_instances

    try_all(effort, check, tables(), few=50, many=2000)


@pytest.mark.parametrize("ending", ["csv", "parquet", "feather"])
@effort
@pytest.mark.filterwarnings("ignore:.*(looks like a fill value|differ only by blanks|have the same features as)")
def test_files_give_what_the_frame_gives(effort, ending, tmp_path):
    path = tmp_path / f"table.{ending}"
    write = {"csv": lambda f: f.to_csv(path, index=False), "parquet": lambda f: f.to_parquet(path)}
    write["feather"] = lambda f: f.to_feather(path)

    def check(columns):
        frame = pd.DataFrame(columns)
        if not len(frame) or (frame.columns[2:] == "").any():
            return
        write[ending](frame)
        loaded, expected = told(bw.load, path, bag="bag", target="y"), told(bw.load, frame, bag="bag", target="y")
        if expected is not None and all(isinstance(one, int) for one in columns["bag"]):
            assert loaded is not None
            np.testing.assert_array_equal(loaded[0].instances, expected[0].instances)
            np.testing.assert_array_equal(loaded[0].ids, expected[0].ids)
            np.testing.assert_array_equal(loaded[1], expected[1])

    try_all(effort, check, tables(finite), few=40, many=1000)
