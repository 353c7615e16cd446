"""A table read chunk by chunk is the table `load` reads whole."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bagwise as bw
from bagwise.out_of_core import Scan, scan

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
        frame.iloc[part].to_parquet(
            folder / f"part-{k:02}.parquet", index=False, row_group_size=int(rng.integers(1, 60))
        )


def rows_of(scanned: Scan, **options):
    """Everything a scan gives, put together row by row."""
    ids, X, y, groups = [], [], [], []
    for chunk in scanned.chunks:
        own, codes = chunk.bags()
        blocks = list(chunk.blocks(**options))
        np.testing.assert_array_equal(np.concatenate([codes[:0], *(block.bag for block in blocks)]), codes)
        ids += own[codes].tolist()
        X += [block.X for block in blocks]
        y += [block.y for block in blocks if block.y is not None]
        groups += [label for block in blocks if block.groups is not None for label in block.groups.tolist()]
    return ids, np.concatenate(X), np.concatenate(y) if y else None, groups


def as_bags(scanned: Scan, **options):
    ids, X, y, groups = rows_of(scanned, **options)
    columns = {"bag": ids} | {name: X[:, j] for j, name in enumerate(scanned.feature_names)}
    columns |= ({} if y is None else {"target": y}) | ({"groups": groups} if groups else {})
    roles = {"target": None if y is None else "target", "groups": "groups" if groups else None}
    return bw.load(pd.DataFrame(columns), bag="bag", features=list(scanned.feature_names), **roles)


def assert_same(found, expected):
    assert found[0] == expected[0]
    np.testing.assert_array_equal(found[1], expected[1])


@pytest.mark.parametrize("seed", range(8))
def test_chunks_hold_the_rows_that_load_reads(tmp_path, seed):
    rng, frame = RNG(seed), table(seed=seed)
    write(frame, tmp_path, rng)
    roles = {"bag": "site", "target": "aod", "groups": "county"}
    scanned = scan(tmp_path, **roles, chunk_rows=int(rng.integers(1, 120)))
    assert scanned.feature_names == ("x", "n", "w") and scanned.n_rows == 200
    rows = int(rng.integers(1, 70))
    whole = bw.load(tmp_path, **roles)
    assert_same(as_bags(scanned, rows=rows, target=True, groups=True), whole)
    assert_same(whole, bw.load(frame, **roles))
    np.testing.assert_array_equal(rows_of(scanned, rows=rows)[1], frame[["x", "n", "w"]].to_numpy(float))
    for chunk in scanned.chunks:
        sizes = [len(block.bag) for block in chunk.blocks(rows=rows)]
        assert sizes == [min(rows, chunk.n_rows - start) for start in range(0, chunk.n_rows, rows)]


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.Table.from_pandas])
def test_tables_in_memory(kind):
    frame = table()
    scanned = scan(kind(frame), bag="site", target="aod", groups="county", chunk_rows=37)
    assert repr(scanned) == "Scan: 200 rows in 6 chunks, 3 features (float64)"
    assert scanned.chunks[1].name == "rows 37 to 73 of the table"
    assert_same(
        as_bags(scanned, rows=10, target=True, groups=True),
        bw.load(frame, bag="site", target="aod", groups="county"),
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f[f.x > 0],
        lambda f: f.sample(frac=1, random_state=0),
        lambda f: pd.concat([f[:50], f[:20]]),
        lambda f: f.set_index("name"),
        lambda f: f.set_index(["name", "county"], append=True),
        lambda f: f[60:],
    ],
    ids=["some rows", "shuffled", "twice the same labels", "named", "several levels", "a later range"],
)
def test_the_index_of_a_frame_is_no_column(change):
    frame = change(table())
    scanned = scan(frame, bag="site", target="aod", where="n < 4", chunk_rows=37)
    whole = bw.load(frame[frame.n < 4].reset_index(drop=True)[["site", "x", "n", "w", "aod"]], bag="site", target="aod")
    assert scanned.feature_names == ("x", "n", "w") and scanned.n_rows == len(frame)
    assert_same(as_bags(scanned, target=True), whole)


def test_numbers_of_any_type_of_pandas_are_those_of_load():
    """Sparse columns and columns of objects were no features."""
    odd = {"sparse": pd.arrays.SparseArray([0.0, 1, 0, 2]), "objects": pd.Series([1, 2.5, 3, 4], dtype=object)}
    frame = pd.DataFrame({"site": list("baba")} | odd).set_axis([1, 1, 2, 2])
    scanned, expected = scan(frame, bag="site", chunk_rows=3), bw.load(frame, bag="site")[0]
    assert scanned.feature_names == expected.feature_names == ("sparse", "objects")
    rows = np.concatenate([block.X for chunk in scanned.chunks for block in chunk.blocks()])
    np.testing.assert_array_equal(rows[[0, 2, 1, 3]], expected.instances)


@pytest.mark.parametrize("source", ["folder", "frame", "bags"])
def test_a_whole_number_of_rows_may_be_written_as_a_float(tmp_path, source):
    table().to_parquet(tmp_path / "t.parquet", row_group_size=20)
    given = {"folder": tmp_path, "frame": table(), "bags": bw.load(table(), bag="site")[0]}[source]
    options = {} if source == "bags" else {"bag": "site"}
    for rows in (4e1, np.float32(40), np.int16(40)):
        assert [chunk.n_rows for chunk in scan(given, **options, chunk_rows=rows).chunks] == [40] * 5
    for rows in (0, 0.5, 40.5, float("nan"), float("inf"), "40", None):
        with pytest.raises(ValueError, match=rf"chunk_rows must be a whole number, at least 1, not {rows!r}"):
            scan(given, **options, chunk_rows=rows)


@pytest.mark.parametrize("source", ["folder", "frame", "bags"])
def test_numbers_of_bags_are_not_read_again_if_they_are_given(tmp_path, source, monkeypatch):
    table().to_parquet(tmp_path / "t.parquet")
    bags, y = bw.load(table(), bag="site", target="aod")
    given, target = {"folder": (tmp_path, "aod"), "frame": (table(), "aod"), "bags": (bags, y)}[source]
    chunk = scan(given, target=target, bag=None if source == "bags" else "site").chunks[0]
    _, codes = chunk.bags()
    expected = list(chunk.blocks(rows=70, target=True))
    monkeypatch.setattr(type(chunk), "bags", lambda self: pytest.fail("the ids are read again"))
    for block, other in zip(chunk.blocks(rows=70, target=True, codes=codes), expected, strict=True):
        for one, two in zip(block[:3], other[:3], strict=True):
            np.testing.assert_array_equal(one, two)


def test_a_chunk_carries_its_slice_alone():
    scanned = scan(pa.Table.from_pandas(table(20_000)), bag="site", chunk_rows=100)
    assert len(pickle.dumps(scanned.chunks[0])) < 10_000
    assert_same(as_bags(pickle.loads(pickle.dumps(scanned))), as_bags(scanned))


def test_bags_are_scanned_as_they_are():
    bags, y = bw.load(table(), bag="site", target="aod", groups="county")
    scanned = scan(bags, target=y, bag=None, chunk_rows=23)
    assert (scanned.bag, scanned.target, scanned.groups) == ("bag", "target", "groups")
    assert [chunk.n_rows for chunk in scanned.chunks] == [23] * 8 + [16]
    assert scanned.chunks[1].name == "instances 23 to 45"
    assert_same(as_bags(scanned, rows=7, target=True, groups=True), (bags, y))
    assert scan(bw.Bags(np.zeros((3, 2)), [0, 3])).feature_names == ("x1", "x2")
    assert not pickle.loads(pickle.dumps(scanned.chunks[0])).instances.base  # the slice, not all instances


def test_covariates_of_bags_are_carried_or_spread():
    bags, _ = bw.load(table(), bag="site", bag_features=["aod"])
    scanned = scan(bags, chunk_rows=50)
    assert scanned.feature_names == ("x", "n", "w") and scanned.covariates == ("aod",)
    found = [block.covariates for chunk in scanned.chunks for block in chunk.blocks(covariates=True)]
    np.testing.assert_array_equal(np.vstack(found), bags.expand(bags.covariates))
    assert scanned.spread().feature_names == ("x", "n", "w", "aod")
    np.testing.assert_array_equal(rows_of(scanned.spread())[1], bags.spread().instances)


@pytest.mark.parametrize(
    ("kinds", "dtype"), [("ff", "float32"), ("fe", "float64"), ("fd", "float64"), ("ee", "float32")]
)
def test_single_precision_is_kept(tmp_path, kinds, dtype):
    for k, kind in enumerate(kinds):
        frame = pd.DataFrame({"site": [1, 2], "x": np.array([0.1, 0.2], dtype=kind)})
        pa_table = pa.Table.from_pandas(frame)
        pq.write_table(pa_table, tmp_path / f"{k}.parquet")
    scanned = scan(tmp_path, bag="site")
    block = next(scanned.chunks[0].blocks())
    assert scanned.dtype == block.X.dtype == dtype and block.X.flags.c_contiguous
    assert bw.load(tmp_path, bag="site")[0].dtype == dtype
    np.testing.assert_array_equal(
        rows_of(scanned)[1], bw.load(tmp_path / "*.parquet", bag="site")[0].instances[[0, 2, 1, 3]]
    )


def test_missing_values_are_nan_and_booleans_are_numbers(tmp_path):
    frame = pa.table(
        {
            "site": [1, 1, 2],
            "n": [1, None, 3],
            "x": [None, 0.5, float("inf")],
            "b": [True, None, False],
            "y": [1, None, 2],
        }
    )
    pq.write_table(frame, tmp_path / "t.parquet")
    block = next(scan(tmp_path, bag="site", target="y", features=["n", "x", "b"]).chunks[0].blocks(target=True))
    np.testing.assert_array_equal(block.X, [[1, np.nan, 1], [np.nan, 0.5, np.nan], [3, np.inf, 0]])
    np.testing.assert_array_equal(block.y, [1, np.nan, 2])
    assert scan(tmp_path, bag="site", target="y").feature_names == ("n", "x", "b")


@pytest.mark.parametrize("kind", ["int32", "int64", "str", "category", "datetime64[us]"])
def test_ids_are_those_of_load(tmp_path, kind):
    frame = pd.DataFrame(
        {"id": pd.Series([20, 3, 20, 7, 3]).astype("int64" if kind != "str" else str).astype(kind), "x": 1.0}
    )
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=2)
    ids = [chunk.bags()[0] for chunk in scan(tmp_path, bag="id", chunk_rows=2).chunks]
    whole = bw.load(tmp_path, bag="id")[0].ids
    assert all(own.dtype == whole.dtype for own in ids)
    assert list(dict.fromkeys(np.concatenate(ids).tolist())) == whole.tolist()


def test_ids_of_two_types_are_one(tmp_path):
    pd.DataFrame({"id": np.array([1, 2], dtype="int32"), "x": 1.0}).to_parquet(tmp_path / "a.parquet")
    pd.DataFrame({"id": np.array([2, 3], dtype="int64"), "x": 1}).to_parquet(tmp_path / "b.parquet")
    assert [c.bags()[0].dtype for c in scan(tmp_path, bag="id").chunks] == [np.int64] * 2
    pd.DataFrame({"id": np.array([2**63 + 1], dtype="uint64"), "x": 1.0}).to_parquet(tmp_path / "b.parquet")
    chunk = scan(tmp_path, bag="id").chunks[1]
    with pytest.raises(ValueError, match=r"'id' of .*b.parquet, row group 0 has values that int64, the type of all"):
        chunk.bags()


def test_texts_of_several_libraries_are_one(tmp_path):
    for name, kind in {"a": pa.string(), "b": pa.large_string(), "c": pa.string_view()}.items():
        pq.write_table(pa.table({"id": pa.array(["u", name], kind), "x": [1.0, 2.0]}), tmp_path / f"{name}.parquet")
    for chunk, name in zip(scan(tmp_path, bag="id").chunks, "abc", strict=True):
        assert chunk.bags()[0].tolist() == ["u", name]
    assert bw.load(tmp_path, bag="id")[0].ids.tolist() == ["u", "a", "b", "c"]
    (tmp_path / "a.parquet").unlink(), (tmp_path / "b.parquet").unlink()
    assert scan(tmp_path, bag="id").chunks[0].bags()[0].tolist() == ["u", "c"]


def test_columns_may_be_numbered():
    scanned = scan(pd.DataFrame({0: [5, 6], 1: [0.5, 1.5]}), bag=0)
    assert (scanned.bag, scanned.feature_names) == ("0", ("1",)) and rows_of(scanned)[0] == [5, 6]


def test_what_pandas_adds_is_no_feature(tmp_path):
    table().sample(frac=0.5, random_state=0).to_parquet(tmp_path / "t.parquet")
    assert scan(tmp_path, bag="site", target="aod").feature_names == ("x", "n", "w")
    assert "__index_level_0__" in scan(tmp_path, bag="site", features=["x", "__index_level_0__"]).feature_names
