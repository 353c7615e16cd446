"""`bagwise check`: what a table holds, and what looks wrong."""

import json

import numpy as np
import pandas as pd
import pytest
from tests.helpers.typed import done, run
from typer.main import get_command

from bagwise.cli import app


@pytest.fixture(autouse=True)
def few_bags_will_do(monkeypatch):
    """The tables here have few bags, of which `test_door` has the warning."""
    monkeypatch.setattr("bagwise.io.table_report.FEWEST", 0)


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    site = np.repeat(["a", "b", "c"], [10, 1, 14])
    y = pd.Series({"a": 0.5, "b": 1.5, "c": 2.5})[site].to_numpy()
    return pd.DataFrame({"site": site, "red": rng.normal(size=25), "nir": rng.normal(size=25), "aod": y})


def test_a_table_without_rows(frame, tmp_path):
    frame[:0].to_csv(tmp_path / "t.csv", index=False)
    result = run("check", tmp_path / "t.csv", "--bag", "site", "--target", "aod")
    assert result.exit_code == 1 and "the table has no rows" in result.stdout


def test_the_command(frame, tmp_path):
    frame.assign(day=20190401 + np.arange(25)).to_csv(tmp_path / "t.csv", index=False)
    result = done("check", tmp_path / "t.csv", "--bag", "site", "--target", "aod")
    assert "25 rows make 3 bags of 1 to 14 instances (median 10)." in result.stdout
    assert "Target: aod, 0.5 to 2.5, median 1.5." in result.stdout and "warning: column 'day'" in result.stdout
    result = run("check", tmp_path / "t.csv", "--bag", "site", "--target", "red", "--json")
    assert result.exit_code == 1
    assert "more than one target" in json.loads(result.stdout)["findings"][0]["text"]
    result = run("check", tmp_path / "nowhere.csv", "--bag", "site")
    assert result.exit_code == 1 and "bagwise check: there is no file" in result.stderr


def test_the_last_line_does_not_pass_over_the_warnings(frame, tmp_path):
    for doubt, verdict in ((False, "as it is."), (True, "; read the warnings first.")):
        column = np.where(doubt & (np.arange(25) % 10 == 0), -9999.0, frame["red"])
        frame.assign(red=column).to_csv(tmp_path / "t.csv", index=False)
        result = run("check", tmp_path / "t.csv", "--bag", "site", "--target", "aod")
        assert result.exit_code == 0 and result.stdout.splitlines()[-1].endswith(verdict)


def test_what_is_said_is_said_in_options(frame, tmp_path):
    """It spoke of bag=, which is a word of the library."""
    frame.to_csv(tmp_path / "t.csv", index=False)
    for more in ([], ["--json"]):
        result = run("check", tmp_path / "t.csv", *more)
        assert result.exit_code == 1 and "--bag is needed: the column that says" in result.stdout
        assert "bag=" not in result.stdout


def test_a_hint_with_a_blank_can_be_pasted(frame, tmp_path):
    frame.assign(**{"Land cover": "crop"}).to_csv(tmp_path / "t.csv", index=False)
    result = run("check", tmp_path / "t.csv", "--bag", "site", "--target", "aod")
    assert "--categories 'Land cover' uses it as a category" in " ".join(result.output.split())


@pytest.mark.parametrize("verb", ["check", "fit", "evaluate", "learning-curve"])
def test_every_command_on_a_table_reads_it_with_the_same_options(verb):
    options = {one.name for one in get_command(app).commands[verb].params}
    assert {"bag", "target", "targets", "feature", "bag_feature", "categories", "dates", "keep", "fill_value"} < options
