"""What is read of a file, what is held of it, and what is said when it cannot be read."""

import pickle
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bagwise as bw
from bagwise.out_of_core import scan


@pytest.fixture
def path(tmp_path):
    rng = np.random.default_rng(0)
    site = np.sort(rng.integers(0, 9, 60))
    frame = pd.DataFrame({"site": site, "x": rng.normal(size=60), "z": rng.normal(size=60), "aod": site / 9})
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=10)
    return tmp_path / "t.parquet"


def read(chunk):
    return [block.X for block in chunk.blocks(target=chunk.layout.target is not None)]


def test_columns_that_are_not_needed_are_not_read(path, damage):
    whole = pd.read_parquet(path)
    for group in range(6):
        damage(path, column=2, group=group)
    scanned = scan(path, bag="site", target="aod", features=["x"], chunk_rows=30)
    np.testing.assert_array_equal(np.concatenate([X for c in scanned.chunks for X in read(c)])[:, 0], whole.x)
    assert [chunk.bags()[0].tolist() for chunk in scan(path, bag="site", chunk_rows=60).chunks] == [list(range(9))]
    assert bw.load(path.parent, bag="site", target="aod", features=["x"])[0].n_instances == 60


def test_chunks_are_runs_of_row_groups(path):
    groups = lambda rows: [chunk.rows.groups for chunk in scan(path, bag="site", chunk_rows=rows).chunks]  # noqa: E731
    assert groups(25) == [(0, 1), (2, 3), (4, 5)] and groups(1) == [(k,) for k in range(6)]
    assert groups(59) == [(0, 1, 2, 3, 4), (5,)] and groups(60) == [(0, 1, 2, 3, 4, 5)]
    names = [chunk.name.split("/")[-1] for chunk in scan(path, bag="site", chunk_rows=59).chunks]
    assert names == ["t.parquet, row groups 0 to 4", "t.parquet, row group 5"]
    assert len(pickle.dumps(scan(path, bag="site").chunks[0])) < 2_000


def test_only_a_block_of_features_is_held(tmp_path):
    """One row group of 400,000 rows and 16 features: 51 MB; of which 4,096 rows at a time."""
    rng = np.random.default_rng(0)
    columns = {"site": np.arange(400_000) // 100} | {f"x{j}": rng.normal(size=400_000) for j in range(16)}
    layout = {"row_group_size": 400_000, "data_page_size": 1 << 16, "use_dictionary": False}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet", **layout)
    chunk = scan(tmp_path, bag="site").chunks[0]
    before = pa.total_allocated_bytes()
    held = [pa.total_allocated_bytes() - before for _ in chunk.blocks(rows=4096)]
    assert len(held) == 98 and 5e5 < max(held) < 15e6


@pytest.mark.parametrize("column", [0, 1, 3])
def test_damaged_pages_are_named(path, damage, column):
    damage(path, column=column, group=3)
    chunks = scan(path, bag="site", target="aod", chunk_rows=20).chunks
    assert len(read(chunks[0])) == 1
    with pytest.raises(ValueError, match="t.parquet, row groups 2 to 3 cannot be read; it may be cut short, damaged"):
        read(chunks[1])


def test_one_flipped_bit_is_found_by_checksums(path):
    pq.write_table(pq.read_table(path), path, write_page_checksum=True, compression="none", use_dictionary=False)
    content = bytearray(path.read_bytes())
    place = pq.read_metadata(path).row_group(0).column(1)
    content[place.data_page_offset + place.total_compressed_size - 100] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"t.parquet, row group 0 cannot be read; .*\(.*checksum"):
        read(scan(path, bag="site").chunks[0])


def test_damaged_footers_are_named(path):
    content = path.read_bytes()
    for broken in (b"", content[:200], content[:-8] + b"12345678", content[:-4000] + content[-8:]):
        path.write_bytes(broken)
        for call in (scan, bw.load):
            with pytest.raises(
                ValueError, match="t.parquet cannot be read; it may be cut short, damaged, or of another"
            ):
                call(path.parent, bag="site")


def test_what_happens_between_scan_and_reading(path):
    chunks = scan(path, bag="site", chunk_rows=30).chunks
    pd.read_parquet(path).head(35).to_parquet(path, row_group_size=10)
    assert len(chunks[0].bags()[1]) == 30
    with pytest.raises(ValueError, match="row groups 3 to 5: there are 5 rows where 30 were; scan it again"):
        chunks[1].bags()
    path.unlink()
    with pytest.raises(FileNotFoundError, match="there is no file .*t.parquet"):
        chunks[0].bags()


def test_a_file_that_is_written_anew_is_named(path):
    """With as many rows in as many row groups, whose types, names or values are others."""
    whole = pd.read_parquet(path)
    options = {"bag": "site", "target": "aod", "features": ["x"], "where": "z > -9", "chunk_rows": 30}
    chunk = scan(path, **options).chunks[1]
    renamed = whole.rename(columns={"x": "w"})
    for other in (whole.assign(x="high"), whole.assign(x=whole.x + 1e-9), renamed, whole.drop(columns="z")):
        other.to_parquet(path, row_group_size=10)
        words = "t.parquet, row groups 3 to 5: columns or values are not what they were when .*: scan it again"
        for call in (chunk.bags, lambda: list(chunk.blocks(target=True)), lambda: chunk.of_bags([0], [0])):
            with pytest.raises(ValueError, match=words):
                call()
    whole.to_parquet(path, row_group_size=10)
    assert len(list(chunk.blocks(target=True))) == 1


def test_what_a_worker_says_arrives(path, damage):
    damage(path, column=1, group=0)
    gone = path.with_name("gone.parquet")
    path.with_name("gone.parquet").write_bytes(path.read_bytes())
    chunks = [scan(one, bag="site").chunks[0] for one in (path, gone)]
    gone.unlink()
    words = {ValueError: "t.parquet, row groups 0 to 5 cannot be read", FileNotFoundError: "no file .*gone.parquet"}
    for chunk, (kind, match) in zip(chunks, words.items(), strict=True):
        with pytest.raises(kind, match=match) as caught:
            read(pickle.loads(pickle.dumps(chunk)))  # as it travels there, and the error back
        told = pickle.loads(pickle.dumps(caught.value))
        assert isinstance(told, kind) and str(told) == str(caught.value)


def test_rows_without_a_bag(tmp_path):
    table = pa.table({"site": ["a", None, "", "b"], "x": [1.0, 2, 3, 4]})
    pq.write_table(table, tmp_path / "t.parquet")
    words = "2 of 4 rows of .*t.parquet, row group 0 have no bag id; fill in column 'site', or drop those rows"
    for call in (lambda chunk: chunk.bags(), lambda chunk: next(chunk.blocks())):
        with pytest.raises(ValueError, match=words):
            call(scan(tmp_path, bag="site").chunks[0])
    with pytest.raises(ValueError, match="2 of 4 rows of rows 0 to 3 of the table have no bag id"):
        scan(table, bag="site").chunks[0].bags()


def test_columns_that_do_not_fit_their_role(tmp_path):
    table = pa.table(
        {
            "id": [1, 2],
            "t": ["a", "b"],
            "x": [1.0, 2.0],
            "l": [[1.0], [2.0]],
            "c": pa.array(["p", "q"]).dictionary_encode(),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    for source in (tmp_path, table):
        with pytest.raises(ValueError, match=r"bag= is needed: the column that says which bag a row belongs to"):
            scan(source)
        with pytest.raises(
            ValueError, match=r"there is no column 'idd' \(did you mean 'id'\?\); the columns are 'id', 't', 'x'"
        ):
            scan(source, bag="idd")
        with pytest.raises(ValueError, match=r"there is no column 'y'"):
            scan(source, bag="id", features=["y"])
        with pytest.raises(
            TypeError, match=r"column 'l' holds lists, which are not read chunk by chunk; write a row per"
        ):
            scan(source, bag="id")
        with pytest.raises(
            TypeError, match=r"not numeric: 't' \(String\), 'c' \(Categorical\); encode them as numbers"
        ):
            scan(source, bag="id", features=["t", "c"])
        with pytest.raises(TypeError, match="the target must be numbers; column 't' is String"):
            scan(source, bag="id", target="t", ignore="l")
        with pytest.raises(TypeError, match="bag ids must be text, integers or dates; column 'l' holds lists"):
            scan(source, bag="l")
        with pytest.raises(TypeError, match="groups must be text, integers or dates; column 'l' holds lists"):
            scan(source, bag="id", groups="l")
        with pytest.raises(ValueError, match="column 'id' cannot be both the bag id and the target"):
            scan(source, bag="id", target="id")
        chunk = scan(source, bag="id", ignore=["l", "t", "c"]).chunks[0]
        for role in ("target", "groups"):
            with pytest.raises(ValueError, match=rf"the scan has no {role}; name the column with scan\(..., {role}="):
                next(chunk.blocks(**{role: True}))
        with pytest.raises(ValueError, match="feature name 'x' appears twice; names must be distinct"):
            scan(source, bag="id", features=["x", "x"])
        with pytest.raises(ValueError, match="chunk_rows must be a whole number, at least 1, not 0"):
            scan(source, bag="id", chunk_rows=0)


def test_nothing_to_read(tmp_path):
    table = pa.table({"site": pa.array([], pa.int64()), "x": pa.array([], pa.float64())})
    pq.write_table(table, tmp_path / "t.parquet")
    for source in (table, tmp_path):
        with pytest.raises(ValueError, match="the table has no rows; there is nothing to make bags of"):
            scan(source, bag="site")
    with pytest.raises(TypeError, match="expected a data frame .*not dict"):
        scan({"site": [1]}, bag="site")
    with pytest.raises(ValueError, match="the table cannot be cut into chunks; give every column one type"):
        scan(pd.DataFrame({"site": [1, "a"], "x": 1.0}), bag="site")


def test_bags_have_chosen_already():
    bags = bw.Bags(np.zeros((3, 2)), [0, 3], weights=[1, 2, 3])
    for name, value in {"bag": "site", "features": ["x"], "groups": "g", "where": "x > 1", "ignore": ["x"]}.items():
        with pytest.raises(ValueError, match=f"{name}= chooses among the columns of a table; Bags have chosen already"):
            scan(bags, **{name: value})
    assert next(scan(bags).chunks[0].blocks()).weight.tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="y has 2 values for 1 bags"):
        scan(bags.without_weights(), target=[1.0, 2.0])
    for role in ("target", "groups"):
        with pytest.raises(ValueError, match=f"the scan has no {role}; give the bags some"):
            next(scan(bags.without_weights()).chunks[0].blocks(**{role: True}))


def test_libraries_that_are_missing_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(ImportError, match=r"reading memory://t needs fsspec: pip install 'bagwise\[dask\]'"):
        scan("memory://t", bag="site")
