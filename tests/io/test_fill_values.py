"""Numbers that stand for missing values: named by load and check, made missing by fill_values."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from tests.helpers.typed import done, run

import bagwise as bw
from bagwise.io.columns import suspects

FILLS = [-9999, -999, -99, 9999, -32768, 32767, 65535, 1e20, -3.4e38, 9.96921e36, -9999.9]


def table(fill=None, n_bags=20, size=12, column="red", seed=0):
    """A long table whose target follows the column; ``fill`` stands in one row of every fifth bag."""
    rng = np.random.default_rng(seed)
    site = np.repeat(np.arange(n_bags), size)
    frame = pd.DataFrame({"site": site, "red": rng.normal(site / n_bags, 0.1), "nir": rng.uniform(size=len(site))})
    frame["aod"] = site / n_bags
    if fill is not None:
        frame.loc[frame.index % (5 * size) == 3, column] = fill
    return frame


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_fill_value_is_suspected_in_one_row_as_in_many(fill, dtype):
    values = np.random.default_rng(0).uniform(size=500).astype(dtype)
    for count in (1, 10, 400):
        values[:count] = fill
        assert suspects(values) == {float(np.dtype(dtype).type(fill)): count}


def test_several_fill_values_are_suspected_together():
    values = np.random.default_rng(0).normal(size=300)
    values[:3], values[3], values[4:9] = -9999, 9999, 1e20
    assert suspects(values) == {1e20: 5, -9999.0: 3, 9999.0: 1}


def test_an_isolated_extreme_of_one_value_is_suspected_if_it_is_repeated():
    values = np.random.default_rng(0).uniform(size=300)
    values[:3] = -77.0
    assert suspects(values) == {-77.0: 3}
    assert suspects(values[1:]) == {}
    assert suspects(np.where(values == -77.0, 1.0, values / 1000)) == {}  # the end of a scale
    values[1] = -77.5
    assert suspects(values) == {}


@pytest.mark.parametrize("draw", ["normal", "uniform", "exponential", "standard_cauchy", "lognormal", "poisson"])
def test_ordinary_columns_hold_no_suspects(draw):
    rng = np.random.default_rng(0)
    for size in (1, 2, 5, 50, 3000):
        for _ in range(20):
            assert suspects(getattr(rng, draw)(size=size).astype(np.float64)) == {}


@pytest.mark.parametrize(
    "values", [[], [0, 1, 1, 0], [5, 5, 5], [np.nan, np.nan], [-9999, -9000, 5000], [9998, 9999, 1]]
)
def test_numbers_near_the_others_are_none(values):
    assert suspects(np.array(values, dtype=np.float64)) == {}


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_load_names_the_column_the_value_and_the_option_once(backend):
    frame = table(-9999)
    frame["green"] = frame["red"]
    if backend == "polars":
        frame = pytest.importorskip("polars").from_pandas(frame)
    if backend == "pyarrow":
        frame = pytest.importorskip("pyarrow").Table.from_pandas(frame)
    said = r"column 'red' holds -9999 4 times \(and 1 other column holds such a value\), .*fill_values=\[-9999\] makes"
    with pytest.warns(UserWarning, match=said) as caught:
        bw.load(frame, bag="site", target="aod")
    assert len(caught) == 1


def test_fill_values_become_missing_and_missing_says_what_then():
    frame = table(-9999)
    gone = frame[frame["red"] != -9999]
    options = {"bag": "site", "target": "aod", "fill_values": [-9999, 1e20]}
    with warnings.catch_warnings(action="error"):
        with pytest.raises(ValueError, match="missing"):
            bw.load(frame, **options)
        with pytest.warns(UserWarning, match="4 of 240 rows, in 4 of 20 bags, .* dropped"):
            bags, y = bw.load(frame, **options, missing="drop-instances")
        kept, _ = bw.load(frame, **options, missing="keep")
        expected, y_expected = bw.load(gone, bag="site", target="aod")
    assert bags == expected and (y == y_expected).all()
    np.testing.assert_array_equal(kept.instances[:, 0], frame["red"].where(frame["red"] != -9999))


def test_a_single_number_will_do_and_whole_numbers_become_missing_too():
    frame = table().assign(count=np.arange(240) % 7)
    frame.loc[5, "count"] = -32768
    bags, _ = bw.load(frame, bag="site", target="aod", fill_values=-32768, missing="keep")
    assert np.isnan(bags.instances).sum() == 1 and np.isnan(bags.instances[5, 2])


def test_single_precision_is_compared_in_single_precision():
    frame = table(-3.4028234663852886e38).astype({"red": "float32", "nir": "float32"})
    bags, _ = bw.load(frame, bag="site", target="aod", fill_values=[-3.4028235e38], missing="keep")
    assert bags.dtype == np.float32 and np.isnan(bags.instances).sum() == 4


@pytest.mark.filterwarnings("ignore:.*(left out|and were dropped)")
def test_fill_values_in_lists_in_the_target_and_in_archives(tmp_path):
    lists = pd.DataFrame({"site": [0, 1], "red": [[0.1, -9999.0], [0.3, 0.2]], "aod": [0.5, -9999.0]})
    with pytest.raises(ValueError, match="target"):
        bw.load(lists, bag="site", target="aod", fill_values=[-9999], missing="keep")
    bags, _ = bw.load(lists.drop(columns="aod"), bag="site", fill_values=[-9999], missing="drop-instances")
    assert bags.sizes.tolist() == [1, 2]
    bags, y = bw.from_arrays([[[0.1], [-9999.0]], [[0.3], [0.2]]]), [1.0, 2.0]
    bw.save_npz(tmp_path / "bags.npz", bags, y)
    with pytest.warns(UserWarning, match="column '0' holds -9999 once"):
        bw.load(tmp_path / "bags.npz")
    again, _ = bw.load(tmp_path / "bags.npz", fill_values=[-9999], missing="drop-instances")
    assert again.sizes.tolist() == [1, 2]


@pytest.mark.parametrize("wrong", ["-9999", [None], [True], [[1]]])
def test_fill_values_are_numbers(wrong):
    with pytest.raises(TypeError, match=r"fill_values must be numbers such as \[-9999\], not "):
        bw.load(table(), bag="site", fill_values=wrong)


def test_inspect_table_names_them_until_they_are_missing():
    text = "holds -9999 4 times, which looks like a fill value for missing data; fill_values=[-9999] makes it missing"
    found = bw.check_table(table(-9999), bag="site", target="aod")
    assert [finding.text for finding in found.findings if finding.level == "warning"] == [f"column 'red' {text}"]
    found = bw.check_table(table(-9999), bag="site", target="aod", fill_values=[-9999], missing="drop-instances")
    assert found.ok and found.features[0]["missing"] == 4 and "fill value" not in str(found.findings)
    assert not bw.check_table(table(-9999), bag="site", target="aod", fill_values=[-9999]).ok


def test_a_model_of_the_command_line_remembers_its_fill_values(tmp_path):
    table(-9999).to_csv(tmp_path / "t.csv", index=False)
    table(-9999, seed=1).to_csv(tmp_path / "new.csv", index=False)
    clean = table(-9999, seed=1)
    clean[clean["red"] != -9999].to_csv(tmp_path / "clean.csv", index=False)
    how = ["--bag", "site", "--target", "aod", "--method", "aggregated", "--missing", "drop-instances"]
    done("fit", tmp_path / "t.csv", *how, "--fill-value", "-9999", "--out", tmp_path / "m.bagwise")
    new, known = (
        run("predict", tmp_path / "m.bagwise", tmp_path / name, "--json") for name in ("new.csv", "clean.csv")
    )
    assert json.loads(new.stdout) == json.loads(known.stdout)
