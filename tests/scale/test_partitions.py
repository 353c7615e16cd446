"""Data sets of many files: folders, partition columns, patterns, URLs; by `scan` and by `load`."""

from contextlib import chdir

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.helpers.cut_tables import bags_read, rows_read

import bagwise as bw
from bagwise.io.table_files import find_parts
from bagwise.scale import scan


def part(seed, n=5, **columns):
    rng = np.random.default_rng(seed)
    site = rng.integers(0, 4, n)
    return pd.DataFrame({"site": site, "x": rng.normal(size=n), "aod": site / 3} | columns)


@pytest.fixture
def dataset(tmp_path):
    """Two years of two regions, and what writers leave beside the data."""
    for k, (year, region) in enumerate([(2019, "north east"), (2019, "south"), (2020, "north east"), (2020, "south")]):
        folder = tmp_path / "dataset" / f"year={year}" / f"region={region.replace(' ', '%20')}"
        folder.mkdir(parents=True)
        part(k).to_parquet(folder / "part-0.parquet", row_group_size=2)
    for other in ("_SUCCESS", ".part-0.parquet.crc", "_metadata.parquet", "_delta_log/0.parquet", "notes.txt"):
        (tmp_path / "dataset" / other).parent.mkdir(exist_ok=True)
        (tmp_path / "dataset" / other).write_text("not data")
    return tmp_path / "dataset"


def whole(years=(2019, 2020)):
    frames = [part(k, year=2019 + k // 2, region=["north east", "south"][k % 2]) for k in range(4)]
    frame = pd.concat(frames, ignore_index=True)
    return frame[frame.year.isin(years)]


def rows(scanned):
    table = rows_read(scanned)
    groups = [] if scanned.groups is None else table[scanned.groups].to_pylist()
    X = np.column_stack([table[name].to_numpy() for name in scanned.feature_names])
    return table[scanned.bag].to_pylist(), X, groups


def test_a_folder_is_one_table(dataset):
    scanned = scan(dataset, bag="site", target="aod")
    assert repr(scanned) == "Scan: 20 rows in 4 chunks of 4 files, 1 feature (float64)"
    assert scanned.chunks[1].name == f"{dataset}/year=2019/region=south/part-0.parquet, row groups 0 to 2"
    ids, X, _ = rows(scanned)
    assert ids == whole().site.tolist()
    np.testing.assert_array_equal(X[:, 0], whole().x)
    bags, y = bw.load(dataset, bag="site", target="aod")
    assert bags == bw.load(whole()[["site", "x", "aod"]], bag="site", target="aod")[0] and bags.feature_names == ("x",)


def test_partition_columns_have_any_role_that_is_given_them(dataset):
    ids, X, groups = rows(scan(dataset, bag="region", features=["x", "year"], groups="year"))
    assert ids == whole().region.tolist() and groups == whole().year.tolist()
    np.testing.assert_array_equal(X, whole()[["x", "year"]])
    expected = bw.load(whole(), bag="region", features=["x", "year"])[0]
    assert bw.load(dataset, bag="region", features=["x", "year"])[0] == expected
    by_year = bw.load(dataset, bag="year", ignore="region")[0]
    assert by_year == bw.load(whole(), bag="year", ignore="region")[0] and by_year.ids.dtype == np.int64
    assert bw.check_table(dataset, bag="region", features=["x", "year"]).ok
    assert [one["name"] for one in bw.check_table(dataset, bag="region").features] == ["site", "x", "aod"]


def test_partition_columns_are_no_features_unless_named_as_such(dataset):
    for options in ({"where": "year == 2020"}, {"groups": "year"}, {"ignore": ["year"]}, {"bag": "year"}):
        assert scan(dataset, **{"bag": "site", "target": "aod"} | options).feature_names[-1] == "x"
    for options in ({"bag": "year"}, {"bag": "site", "ignore": ["year"]}, {"bag": "region", "ignore": "year"}):
        assert bw.load(dataset, **options)[0].feature_names[-2:] == ("x", "aod")
    named = scan(dataset, bag="site", features=["x", "year"], where="year == 2020")
    assert named.feature_names == ("x", "year") and rows(named)[1][:, 1].tolist() == [2020] * 10


def test_patterns_and_lists_know_their_folders_too(dataset):
    expected = bw.load(whole([2020]), bag="site", target="aod", groups=None, features=["x", "year"])[0]
    year = dataset / "year=2020"
    for source in (year, year / "*" / "*.parquet", sorted(year.iterdir())):
        assert bw.load(source, bag="site", target="aod", features=["x", "year"])[0] == expected
        ids, X, _ = rows(scan(source, bag="site", features=["x", "year"]))
        assert ids == whole([2020]).site.tolist()
        np.testing.assert_array_equal(X, whole([2020])[["x", "year"]])
    assert bw.load(year / "region=south" / "part-0.parquet", bag="region", features=["x"])[0].ids.tolist() == ["south"]


@pytest.mark.parametrize("protocol", ["file", "memory"])
def test_urls(dataset, protocol):
    url = f"file://{dataset}" if protocol == "file" else "memory://dataset"
    if protocol == "memory":
        fsspec.filesystem("memory").put(str(dataset), "/dataset", recursive=True)
    for source in (url, f"{url}/year=*/*/*.parquet", [f"{url}/year=2019", f"{url}/year=2020/*"]):
        scanned = scan(source, bag="site", features=["x", "year"])
        ids, X, _ = rows(scanned)
        assert ids == whole().site.tolist()
        np.testing.assert_array_equal(X, whole()[["x", "year"]])
        expected = bw.load(whole(), bag="site", features=["x", "year"])[0]
        assert bw.load(source, bag="site", features=["x", "year"])[0] == expected
    one = f"{url}/year=2020/region=south/part-0.parquet"
    assert scan(one, bag="site", where="x > -100").n_rows == 5 and bw.load(one, bag="site")[0].n_instances == 5
    with pytest.raises(FileNotFoundError, match=rf"no file matches {protocol}://.*/\*\.pq"):
        scan(f"{url}/*.pq", bag="site")
    with pytest.raises(FileNotFoundError, match="there is no file .*dataset/none.parquet"):
        scan(f"{url}/none.parquet", bag="site")


def test_urls_that_lead_nowhere():
    with pytest.raises(ValueError, match="nowhere://dataset names no file system that fsspec knows"):
        scan("nowhere://dataset", bag="site")
    with pytest.raises(ValueError, match="memory:///t.csv is not a Parquet file; folders, URLs and"):
        bw.load("memory://t.csv", bag="site")


def test_a_column_of_the_file_goes_before_that_of_its_folder(tmp_path):
    (tmp_path / "year=2020").mkdir()
    part(0, year=1).to_parquet(tmp_path / "year=2020" / "a.parquet")
    assert rows(scan(tmp_path, bag="year", features=["x"]))[0] == [1] * 5
    assert bw.load(tmp_path, bag="year", features=["x"])[0].ids.tolist() == [1]
    assert rows(scan(tmp_path, bag="site", where="year == 1"))[1].size
    assert len(scan(tmp_path, bag="site").feature_names) == 3
    with pytest.raises(ValueError, match="No row can satisfy where: it leaves out all 5 rows"):
        scan(tmp_path, bag="site", where="year == 2020")


def test_values_of_folders_are_whole_numbers_if_all_are(tmp_path):
    for value in ("1", "-20", "__HIVE_DEFAULT_PARTITION__", ""):
        (tmp_path / f"a={value}" / "b=x=y").mkdir(parents=True)
        part(0).to_parquet(tmp_path / f"a={value}" / "b=x=y" / "0.parquet")
    values = {value[:2] for p in find_parts(tmp_path) for value in p.values}
    assert values == {("a", -20), ("a", 1), ("a", None), ("b", "x=y")}
    X = rows(scan(tmp_path, bag="site", features=["a"]))[1][:, 0]
    assert {-20, 1} == {*X[np.isfinite(X)].tolist()} and np.isnan(X).sum() == 10
    with pytest.raises(ValueError, match=r"10 of 20 rows have no bag id .*; fill in column 'a'"):
        bags_read(scan(tmp_path, bag="a", features=["x"]))
    (tmp_path / "a=x" / "b=1").mkdir(parents=True)
    part(0).to_parquet(tmp_path / "a=x" / "b=1" / "0.parquet")
    assert {v.value for p in find_parts(tmp_path) for v in p.values if v.column == "a"} == {"1", "-20", None, "x"}


@pytest.mark.parametrize(
    ("values", "kind"),
    [(("01", "1"), str), (("01", "12"), int), (("0", "-1"), int), (("-0", "0"), str), (("٣", "3"), str)],
)
def test_values_of_folders_that_are_written_differently_differ(tmp_path, values, kind):
    for value in values:
        (tmp_path / f"g={value}").mkdir()
        part(0).to_parquet(tmp_path / f"g={value}" / "0.parquet")
    expected = [kind(value) for value in sorted(values)]  # in the order of the folders
    assert bw.load(tmp_path, bag="g", features=["x"])[0].ids.tolist() == expected
    assert rows(scan(tmp_path, bag="g", features=["x"]))[0] == [v for v in expected for _ in range(5)]


def test_a_file_is_read_once_whatever_it_is_called(dataset, tmp_path):
    file = dataset / "year=2019" / "region=south" / "part-0.parquet"
    with chdir(dataset):
        around = str(dataset / "year=2020" / ".." / "year=2019")
        sources = [".", dataset, around, f"file://{dataset}", "year=*/*/*.parquet"]
        for source in (sources, sources[::-1]):
            assert scan(source, bag="site").n_rows == bw.load(source, bag="site")[0].n_instances == 20
        assert scan(sources, bag="site").chunks[0].name.startswith("year=2019/")
    with chdir(tmp_path):
        names = [file.relative_to(tmp_path), file]
        assert bw.load(names, bag="site")[0].n_instances == 5
    fsspec.filesystem("memory").put(str(dataset), "/once", recursive=True)
    assert scan(["memory://once", "memory://once/year=2019"], bag="site").n_rows == 20


def test_wildcards_stand_for_no_hidden_name(dataset):
    part(8).to_parquet(dataset / "year=2019" / "_a.parquet")
    (dataset / "notes.txt").unlink()  # which ``*`` names
    (dataset / "_tmp").mkdir()
    part(9).to_parquet(dataset / "_tmp" / "a.parquet")
    fsspec.filesystem("memory").put(str(dataset), "/hidden", recursive=True)
    for place in (str(dataset), f"file://{dataset}", "memory://hidden"):
        for pattern in ("**/*.parquet", "*/*/*.parquet", "*"):
            assert scan(f"{place}/{pattern}", bag="site").n_rows == 20
        for pattern in ("_tmp/*.parquet", "_t*/*.parquet", "_tmp", "*/_a.parquet", "**/_?.parquet"):
            assert scan(f"{place}/{pattern}", bag="site").n_rows == 5
        words = r"no file matches .*/\*a.parquet; .*_a.parquet is hidden: write out"
        with pytest.raises(FileNotFoundError, match=words):
            scan(f"{place}/year=2019/*a.parquet", bag="site")
    with chdir(dataset):
        assert scan(".", bag="site").n_rows == scan("../dataset/**/*.parquet", bag="site").n_rows == 20


def test_links_are_followed_but_not_in_circles(dataset, tmp_path):
    (tmp_path / "linked").symlink_to(dataset)
    (dataset / "year=2019" / "up").symlink_to(dataset)
    (dataset / "year=2021").symlink_to(dataset / "year=2020")
    assert [scan(source, bag="site").n_rows for source in (dataset, tmp_path / "linked")] == [30, 30]


def test_paths_hold_wherever_a_worker_stands(dataset, tmp_path):
    with chdir(tmp_path):
        scanned = scan("dataset", bag="site")
    assert scanned.chunks[0].name.startswith("dataset/year=2019/") and rows(scanned)[0] == whole().site.tolist()


def test_files_must_agree(dataset):
    odd = dataset / "year=2020" / "region=south" / "part-1.parquet"
    part(9).rename(columns={"x": "z"}).to_parquet(odd)
    for read in (scan, bw.load):
        with pytest.raises(ValueError, match=r"south/part-1.parquet lacks x and adds z; all files need the columns of"):
            read(dataset, bag="site", target="aod")
    with pytest.raises(ValueError, match="south/part-1.parquet lacks x; all files need"):
        scan(dataset, bag="site", features=["x"])
    assert scan(dataset, bag="site", features=["aod"]).n_rows == 25  # x is not needed
    part(9).assign(x="high").to_parquet(odd)
    for read in (scan, bw.load):
        with pytest.raises(ValueError, match=r"column 'x' is double in .* but .*string in .*south/part-1.parquet"):
            read(dataset, bag="site", target="aod")


def test_names_that_appear_twice(tmp_path):
    columns = [pa.array([1, 2]), pa.array([1.0, 2.0]), pa.array([1.0, 2.0])]
    pq.write_table(pa.table(columns, names=["site", "x", "x"]), tmp_path / "a.parquet")
    for read in (scan, bw.load):
        with pytest.raises(ValueError, match="a.parquet: two columns have the same name, 'x'; names must be distinct"):
            read(tmp_path, bag="site")


def test_folders_without_parquet(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"has no Parquet file \(named \*.parquet\), nor any other"):
        scan(tmp_path, bag="site")
    (tmp_path / "a.csv").touch()
    for read in (scan, bw.load):
        with pytest.raises(FileNotFoundError, match=r"has no Parquet file .*, but 1 other, such as .*a.csv; tables of"):
            read(tmp_path, bag="site")
    words = r"a.csv is not a Parquet file; .* polars.scan_csv\('table.csv'\).sink_parquet"
    with pytest.raises(ValueError, match=words):
        scan(tmp_path / "a.csv", bag="site")
    with pytest.raises(ValueError, match="variable= chooses a matrix of a .mat file; .* is not one"):
        part(0).to_parquet(tmp_path / "a.parquet")
        bw.load(tmp_path, bag="site", variable="A")
    with pytest.raises(ValueError, match="the list of files is empty"):
        scan([], bag="site")
