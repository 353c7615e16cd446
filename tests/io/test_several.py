"""Several files as one table."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bagwise as bw
from bagwise.io.table_files import find_files


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    site = np.repeat(["a", "b", "c", "d"], [3, 1, 4, 2])
    return pd.DataFrame(
        {"site": site, "x": rng.normal(size=10), "n": range(10), "y": np.repeat([1.0, 2, 3, 4], [3, 1, 4, 2])}
    )


@pytest.mark.parametrize("ending", ["csv", "parquet", "feather"])
def test_files_that_cut_a_bag_give_what_the_whole_table_gives(frame, tmp_path, ending):
    write = {
        "csv": lambda f, p: f.to_csv(p, index=False),
        "parquet": pd.DataFrame.to_parquet,
        "feather": pd.DataFrame.to_feather,
    }
    for k, rows in enumerate((slice(0, 5), slice(5, 10))):  # bag c lies in both
        write[ending](frame[rows].reset_index(drop=True), tmp_path / f"part-{k}.{ending}")
    whole, y = bw.load(frame, bag="site", target="y")
    for source in (tmp_path / f"part-*.{ending}", sorted(tmp_path.iterdir()), [str(tmp_path / f"part-?.{ending}")]):
        bags, targets = bw.load(source, bag="site", target="y")
        assert bags.ids.tolist() == whole.ids.tolist() and bags.feature_names == whole.feature_names
        np.testing.assert_allclose(bags.instances, whole.instances, rtol=1e-15)
        np.testing.assert_array_equal(bags.offsets, whole.offsets)
        np.testing.assert_array_equal(targets, y)


def test_whole_numbers_in_one_file_and_fractions_in_another(frame, tmp_path):
    frame[:4].assign(x=[1, 2, 3, 4]).to_csv(tmp_path / "1.csv", index=False)
    frame[4:].to_csv(tmp_path / "2.csv", index=False)
    bags, _ = bw.load(tmp_path / "*.csv", bag="site", target="y")
    np.testing.assert_allclose(bags.instances[:, 0], [1, 2, 3, 4, *frame.x[4:]])


def test_a_file_named_like_a_pattern_is_a_file(frame, tmp_path):
    frame.to_csv(tmp_path / "a[1].csv", index=False)
    assert len(bw.load(tmp_path / "a[1].csv", bag="site", target="y")[0]) == 4


def test_a_file_named_twice_is_read_once(frame, tmp_path, monkeypatch):
    frame.to_csv(tmp_path / "a.csv", index=False)
    assert bw.load([tmp_path / "a.csv", str(tmp_path / "*.csv")], bag="site", target="y")[0].n_instances == 10
    monkeypatch.chdir(tmp_path)
    names = ["a.csv", "./a.csv", tmp_path / "a.csv", tmp_path / "x" / ".." / "a.csv"]
    assert find_files(names) == [Path("a.csv")] and bw.load(names, bag="site", target="y")[0].n_instances == 10


def test_wildcards_stand_for_no_hidden_name(tmp_path):
    for name in ("a.csv", "_a.csv", ".a.csv", "_tmp/a.csv", "year=1/a.csv", "year=1/_x/b.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = lambda pattern: [str(one.relative_to(tmp_path)) for one in find_files(tmp_path / pattern)]  # noqa: E731
    assert found("*.csv") == ["a.csv"] and found("**/*.csv") == ["a.csv", "year=1/a.csv"]
    assert found("_*.csv") == ["_a.csv"] and found(".*.csv") == [".a.csv"]
    assert found("_tmp/*.csv") == ["_tmp/a.csv"] and found("*/_x/?.csv") == ["year=1/_x/b.csv"]
    with pytest.raises(FileNotFoundError, match=r"no file matches .*b.csv is hidden: write out the _ or \."):
        found("**/b.*")


def test_what_does_not_fit_together_is_named(frame, tmp_path):
    frame.to_csv(tmp_path / "1.csv", index=False)
    frame.rename(columns={"x": "z"}).to_csv(tmp_path / "2.csv", index=False)
    with pytest.raises(ValueError, match=r"2.csv lacks x and adds z; all files need the columns of the first, .*1.csv"):
        bw.load(tmp_path / "*.csv", bag="site", target="y")
    frame.assign(x="low").to_csv(tmp_path / "2.csv", index=False)
    with pytest.raises(ValueError, match=r"column 'x' is double in .*1.csv but string in .*2.csv, and no type"):
        bw.load(tmp_path / "*.csv", bag="site", target="y")
    for source, match in ((tmp_path / "*.tsv", r"no file matches .*\*.tsv"), ([], "the list of files is empty")):
        with pytest.raises((FileNotFoundError, ValueError), match=match):
            bw.load(source, bag="site", target="y")
    bw.save_npz(tmp_path / "2.npz", *bw.load(frame, bag="site", target="y"))
    with pytest.raises(ValueError, match=r"several files must be tables \(.csv, .*.arrow\); 2.npz"):
        bw.load([tmp_path / "1.csv", tmp_path / "2.npz"], bag="site", target="y")


def test_files_of_two_formats_are_one_table(frame, tmp_path):
    frame[:5].to_csv(tmp_path / "1.csv", index=False)
    frame[5:].to_parquet(tmp_path / "2.parquet", index=False)
    assert find_files([tmp_path / "1.csv", tmp_path / "2.parquet"])[1].name == "2.parquet"
    assert bw.load([tmp_path / "1.csv", tmp_path / "2.parquet"], bag="site", target="y")[0].n_instances == 10


def test_ids_that_are_text_in_one_format_and_numbers_in_another_are_refused(tmp_path):
    (tmp_path / "1.csv").write_text("site,x\n0.5,1\n1.0,2\n")
    pd.DataFrame({"site": [1.0, 2.5], "x": [2, 3]}).to_parquet(tmp_path / "2.parquet")
    with pytest.raises(ValueError, match=r"column 'site' is string in .*1.csv but double in .*2.parquet, and no type"):
        bw.load([tmp_path / "1.csv", tmp_path / "2.parquet"], bag="site")


def test_long_ids_in_two_types_stay_themselves(tmp_path):
    """Cast to floating point, ids beyond 2^53 would be one."""
    parts = [
        pd.DataFrame({"site": np.array([2**60 + k], dtype=d), "x": [1.0]}) for k, d in enumerate(("int64", "uint64"))
    ]
    for k, part in enumerate(parts):
        part.to_parquet(tmp_path / f"{k}.parquet")
    assert bw.load(tmp_path / "*.parquet", bag="site")[0].ids.tolist() == [2**60, 2**60 + 1]
    for other in (np.array([2**63 + 1], dtype="uint64"), np.array([0.5])):
        pd.DataFrame({"site": other, "x": [1.0]}).to_parquet(tmp_path / "1.parquet")
        with pytest.raises(ValueError, match=r"column 'site' is .* but .* in .*, and no type holds the values of both"):
            bw.load(tmp_path / "*.parquet", bag="site")
