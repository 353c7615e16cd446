"""A table read chunk by chunk is the table `load` reads whole."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.helpers.cut_tables import bags_read, rows_read

import bagwise as bw
from bagwise.scale import scan

# `load`, with which scans are compared, names the columns of text that it leaves out.
pytestmark = pytest.mark.filterwarnings("ignore:.*not numeric and w")

RNG = np.random.default_rng


def table(n=200, seed=0, **columns):
    """Bags of scattered rows, features of several types, a target, and a group per bag."""
    rng = RNG(seed)
    code = rng.integers(0, 17, n)
    frame = {
        "site": np.array([f"s{k}" for k in code], dtype=object),
        "x": rng.normal(size=n),
        "n": rng.integers(-5, 5, n),
        "w": rng.normal(size=n).astype("float32"),
        "name": np.array(["text"] * n, dtype=object),
        "county": np.array([f"c{k % 3}" for k in code], dtype=object),
        "aod": code / 7,
    }
    return pd.DataFrame(frame | columns)


def write(frame, folder, rng):
    """The table cut at random into files, and these into row groups."""
    cuts = np.sort(rng.choice(np.arange(1, len(frame)), size=rng.integers(0, 5), replace=False))
    for k, part in enumerate(np.split(np.arange(len(frame)), cuts)):
        size = int(rng.integers(1, 60))
        frame.iloc[part].to_parquet(folder / f"part-{k:02}.parquet", index=False, row_group_size=size)


def assert_same(found, expected):
    assert found[0] == expected[0]
    np.testing.assert_array_equal(found[1], expected[1])


@pytest.mark.parametrize("seed", range(4))
def test_chunks_hold_the_rows_that_load_reads(tmp_path, seed):
    rng, frame = RNG(seed), table(seed=seed)
    write(frame, tmp_path, rng)
    roles = {"bag": "site", "target": "aod", "groups": "county"}
    scanned = scan(tmp_path, **roles, chunk_rows=int(rng.integers(1, 120)))
    assert scanned.feature_names == ("x", "n", "w") and scanned.n_rows == 200
    whole = bw.load(tmp_path, **roles)
    assert_same(bags_read(scanned), whole)
    assert_same(whole, bw.load(frame, **roles))


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.Table.from_pandas])
def test_tables_in_memory(kind):
    frame = table()
    scanned = scan(kind(frame), bag="site", target="aod", groups="county", ignore="name", chunk_rows=37)
    assert repr(scanned) == "Scan: 200 rows in 3 chunks, 3 features (float64)"  # one per group
    assert repr(scanned.chunks[0]).endswith("bags in memory (78 rows)")
    assert_same(bags_read(scanned), bw.load(frame, bag="site", target="aod", groups="county"))


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f.sample(frac=1, random_state=0),
        lambda f: pd.concat([f[:50], f[:20]]),
        lambda f: f.set_index(["name", "county"], append=True),
    ],
    ids=["shuffled", "twice the same labels", "several levels"],
)
def test_the_index_of_a_frame_is_no_column(change):
    frame = change(table())
    scanned = scan(frame, bag="site", target="aod", where="n < 4", chunk_rows=37)
    whole = bw.load(frame[frame.n < 4].reset_index(drop=True)[["site", "x", "n", "w", "aod"]], bag="site", target="aod")
    assert scanned.feature_names == ("x", "n", "w") and scanned.n_rows == len(whole[0].instances)
    assert_same(bags_read(scanned), whole)


@pytest.mark.parametrize("source", ["folder", "frame", "bags"])
def test_a_whole_number_of_rows_may_be_written_as_a_float(tmp_path, source):
    table().to_parquet(tmp_path / "t.parquet", row_group_size=20)
    given = {"folder": tmp_path, "frame": table(), "bags": bw.load(table(), bag="site")[0]}[source]
    options = {} if source == "bags" else {"bag": "site"}
    for rows in (4e1, np.float32(40), np.int16(40)):
        assert len(scan(given, **options, chunk_rows=rows).chunks) == (5 if source == "folder" else 7)
    for rows in (0, 0.5, 40.5, float("nan"), float("inf"), "40", None):
        with pytest.raises(ValueError, match=rf"chunk_rows must be a whole number, at least 1, not {rows!r}"):
            scan(given, **options, chunk_rows=rows)


def test_bags_are_scanned_as_they_are():
    bags, y = bw.load(table(), bag="site", target="aod", groups="county")
    scanned = scan(bags, target=y, bag=None, chunk_rows=23)
    assert (scanned.bag, scanned.target, scanned.groups) == ("bag", "target", "groups")
    assert sum(chunk.n_rows for chunk in scanned.chunks) == 200
    assert_same(bags_read(scanned), (bags, y))
    assert scan(bw.Bags(np.zeros((3, 2)), [0, 3])).feature_names == ("x1", "x2")


@pytest.mark.parametrize(
    ("kinds", "dtype"), [("ff", "float32"), ("fe", "float32"), ("fd", "float64"), ("ee", "float32")]
)
def test_single_precision_is_kept(tmp_path, kinds, dtype):
    for k, kind in enumerate(kinds):
        pd.DataFrame({"site": [1, 2], "x": np.array([0.1, 0.2], dtype=kind)}).to_parquet(tmp_path / f"{k}.parquet")
    scanned = scan(tmp_path, bag="site")
    bags = bags_read(scanned)[0]
    assert scanned.dtype == bags.dtype == dtype and bags == bw.load(tmp_path, bag="site")[0]


@pytest.mark.parametrize("kind", ["int32", "int64", "str", "category", "datetime64[us]"])
def test_ids_are_those_of_load(tmp_path, kind):
    frame = pd.DataFrame({"id": pd.Series([20, 3, 20, 7, 3]).astype(kind), "x": 1.0})
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=2)
    ids, whole = bags_read(scan(tmp_path, bag="id", chunk_rows=2))[0].ids, bw.load(tmp_path, bag="id")[0].ids
    assert ids.dtype == whole.dtype and ids.tolist() == whole.tolist()


def test_ids_of_two_types_are_one(tmp_path):
    pd.DataFrame({"id": np.array([1, 2], dtype="int32"), "x": 1.0}).to_parquet(tmp_path / "a.parquet")
    pd.DataFrame({"id": np.array([2, 3], dtype="int64"), "x": 1}).to_parquet(tmp_path / "b.parquet")
    assert bags_read(scan(tmp_path, bag="id"))[0].ids.tolist() == [1, 2, 3]
    pd.DataFrame({"id": np.array([2**63 + 1], dtype="uint64"), "x": 1.0}).to_parquet(tmp_path / "b.parquet")
    with pytest.raises(ValueError, match=r"'id' of .*b.parquet, row group 0 has values that do not fit int64"):
        bags_read(scan(tmp_path, bag="id"))


def test_texts_of_several_libraries_are_one(tmp_path):
    for name, kind in {"a": pa.string(), "b": pa.large_string(), "c": pa.string_view()}.items():
        pq.write_table(pa.table({"id": pa.array(["u", name], kind), "x": [1.0, 2.0]}), tmp_path / f"{name}.parquet")
    assert bags_read(scan(tmp_path, bag="id", chunk_rows=2))[0].ids.tolist() == ["u", "a", "b", "c"]


def test_columns_may_be_numbered():
    scanned = scan(pd.DataFrame({0: [5, 6], 1: [0.5, 1.5]}), bag=0)
    assert (scanned.bag, scanned.feature_names) == ("0", ("1",)) and rows_read(scanned)["0"].to_pylist() == [5, 6]


def test_what_pandas_adds_is_no_feature(tmp_path):
    table().sample(frac=0.5, random_state=0).to_parquet(tmp_path / "t.parquet")
    assert scan(tmp_path, bag="site", target="aod").feature_names == ("x", "n", "w")
    assert "__index_level_0__" in scan(tmp_path, bag="site", features=["x", "__index_level_0__"]).feature_names
