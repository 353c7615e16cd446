"""What is wrong with a table is said when it is loaded or checked: where it is, what was expected, what to do."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import bagwise as bw
from bagwise.bags.validation import ParameterError
from bagwise.cli import app

SITES = list("abcdefghijkl")


def table(**columns):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"site": np.repeat(SITES, 4), "x": rng.normal(size=48), "y": np.repeat(np.arange(12.0), 4)})
    return frame.assign(**columns)


def run(*arguments):
    result = CliRunner().invoke(app, [str(one) for one in arguments])
    return result.exit_code, " ".join(result.output.split())


@pytest.mark.parametrize("build", [lambda frame: frame, pa.Table.from_pandas], ids=["pandas", "pyarrow"])
@pytest.mark.parametrize(
    ("columns", "options", "parameter", "words"),
    [
        ({"y": 1.0}, {}, "target", "same target, 1"),
        ({"y": [f"{k // 4},5" for k in range(48)]}, {}, "target", "'y'.*decimal=','"),
        ({"y": ["?", *map(str, range(47))]}, {}, "target", "'y'.*'\\?' in row 0 .*fill_values=\\['\\?'\\]"),
        ({"x": ["?", *map(str, range(47))]}, {"features": ["x"]}, "features", "'x' is String.*fill_values"),
        ({"w": pd.Timestamp("2020-01-01")}, {"weights": "w"}, "weights", "'w' is a date"),
        ({"w": pd.Timestamp("2020-01-01")}, {"features": ["x", "w"]}, "features", "dates=\\['w'\\]"),
        ({"w": pd.Timestamp("2020-01-01")}, {"bag_features": ["w"]}, "bag_features", "dates=\\['w'\\]"),
        ({"r": [{"a": 1}] * 48}, {"categories": ["r"]}, "categories", "'r' holds lists or records"),
        ({}, {"features": ["x", "crop=u"]}, "features", "no column 'crop', of which"),
    ],
)
def test_errors_name_the_column_and_the_way_out(build, columns, options, parameter, words):
    with pytest.raises(ParameterError, match=words) as caught:
        bw.load(build(table(**columns)), bag="site", target="y", **options)
    assert caught.value.parameter == parameter


def test_fill_values_reach_integer_categories_and_dates():
    frame = table(soil=[-9999, *[1, 2, 3] * 15, 1, 1], day=[-9999, *[20200101] * 47])
    options = {"categories": ["soil"], "dates": ["day"], "fill_values": -9999, "missing": "keep"}
    with pytest.warns(UserWarning, match="1 row without a value in column 'soil'"):
        bags, _ = bw.load(frame, bag="site", target="y", **options)
    assert bags.categories["soil"] == ("soil=1", "soil=2", "soil=3", "soil=other")
    names = list(bags.feature_names)
    assert bags.instances[0, names.index("soil=other")] == 1 and np.isnan(bags.instances[0, names.index("day_year")])


@pytest.mark.parametrize("ending", [None, "csv", "parquet"])
def test_a_first_table_without_the_bag_column_is_named(tmp_path, ending):
    source = frame = table()[["x"]]
    if ending is not None:
        source = tmp_path / f"rows.{ending}"
        (frame.to_csv if ending == "csv" else frame.to_parquet)(source, index=False)
    with pytest.raises(ParameterError, match="no column 'site'"):
        bw.load(source, bag="site", targets=pd.DataFrame({"site": SITES, "y": np.arange(12.0)}))


def test_an_infinite_target_of_a_second_table_is_not_called_missing():
    targets = pd.DataFrame({"site": SITES, "y": [*np.arange(11.0), np.inf]})
    with pytest.raises(ParameterError, match="bag 'l' has an infinite target"):
        bw.load(table()[["site", "x"]], bag="site", targets=targets)


def test_few_bags_and_doubtful_roles_are_found_by_check(tmp_path):
    found = bw.check_table(table().head(12), bag="site", target="y")
    assert any(one.level == "warning" and "only 3 bags" in one.text for one in found.findings)
    path = tmp_path / "rows.csv"
    table(year=np.repeat([2019, 2020, 2021], 16), code=[f"{k:03}" for k in range(48)]).to_csv(path, index=False)
    found = bw.check_table(path, bag="site", target="y", groups="year", features=["x", "year", "code"])
    notes = [one.text for one in found.findings if one.level == "note"]
    assert any("'year' is both the group and a feature" in one for one in notes)
    assert any("'code' is a feature, but has numbers with leading zeros such as 000" in one for one in notes)


def test_the_command_line_refuses_with_exit_code_1_or_2(tmp_path):
    path = tmp_path / "rows.csv"
    table(z=["n/a?", *map(str, range(47))]).to_csv(path, index=False)
    fit = ("fit", path, "--bag", "site", "--target", "y", "--method", "aggregated", "--out", tmp_path / "m.bagwise")
    code, text = run(*fit)
    assert code == 1 and "--fill-value 'n/a?'" in text and "'n/a?' in row 0" in text
    assert not (tmp_path / "m.bagwise").exists()
    code, text = run(*fit, "--level", "90", "--ignore", "z")
    assert code == 2 and "--level 0.9" in text
    code, text = run(*fit, "--fill-value", "n/a?", "--missing", "drop-instances", "--no-intervals")
    assert code == 0, text
    table(y=1.0).to_csv(path, index=False)
    assert run(*fit)[0] == 1 and run("check", path, "--bag", "site", "--target", "y")[0] == 1


def test_shared_rows_are_grouped_by_the_command_line(tmp_path):
    frame = pd.concat([table(z=1.0), table(site=np.repeat([one + "2" for one in SITES], 4), z=1.0)]).drop(columns="z")
    frame = frame.assign(x2=frame["x"] ** 2)
    path = tmp_path / "rows.csv"
    frame.to_csv(path, index=False)
    columns = ("--bag", "site", "--target", "y")
    code, text = run("check", path, *columns)
    assert code == 0 and "24 bags are exact copies" in text and "--groups shared-rows" in text
    code, text = run("check", path, *columns, "--groups", "shared-rows")
    assert code == 0 and "Groups: 12" in text and "copies" not in text
    how = ("--method", "aggregated", "--out", tmp_path / "m.bagwise")
    assert "--groups shared-rows" in run("fit", path, *columns, *how)[1]
    code, text = run("fit", path, *columns, "--groups", "shared-rows", *how)
    assert code == 0 and "share rows" not in text and "12 groups" in text
