"""`bagwise check`: what a table holds, and what looks wrong."""

import json

import numpy as np
import pandas as pd
import pytest
from tests.helpers.typed import done, refused, run
from typer.main import get_command

from bagwise.cli import app

COLUMNS = ("--bag", "site", "--target", "aod")


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Return a function that writes three bags with further columns, for which the warning of few bags is off."""
    monkeypatch.setattr("bagwise.io.table_report.FEWEST", 0)
    rng, site = np.random.default_rng(0), np.repeat(["a", "b", "c"], [10, 1, 14])
    y = pd.Series({"a": 0.5, "b": 1.5, "c": 2.5})[site].to_numpy()
    frame = pd.DataFrame({"site": site, "red": rng.normal(size=25), "nir": rng.normal(size=25), "aod": y})

    def write(rows=slice(None), **more):
        frame.assign(**more)[rows].to_csv(tmp_path / "t.csv", index=False)
        return tmp_path / "t.csv"

    return write


def test_a_table_is_described_and_judged(table, tmp_path):
    result = done("check", table(day=20190401 + np.arange(25)), *COLUMNS)
    assert "25 rows make 3 bags of 1 to 14 instances (median 10)." in result.stdout
    assert "Target: aod, 0.5 to 2.5, median 1.5." in result.stdout and "warning: column 'day'" in result.stdout
    assert result.stdout.splitlines()[-1].endswith("; read the warnings first.")
    assert done("check", table(), *COLUMNS).stdout.splitlines()[-1].endswith("as it is.")
    result = run("check", table(), "--bag", "site", "--target", "red", "--json")
    assert result.exit_code == 1 and "more than one target" in json.loads(result.stdout)["findings"][0]["text"]
    refused("check", table(slice(0)), *COLUMNS, words="the table has no rows")
    refused("check", tmp_path / "nowhere.csv", "--bag", "site", words="bagwise check: there is no file")


def test_advice_names_options_that_can_be_pasted(table):
    for more in ([], ["--json"]):
        result = run("check", table(), *more)
        assert result.exit_code == 1 and "--bag is needed: the column that says" in result.stdout
        assert "bag=" not in result.stdout
    result = run("check", table(**{"Land cover": "crop"}), *COLUMNS)
    assert "--categories 'Land cover' uses it as a category" in " ".join(result.output.split())


@pytest.mark.parametrize("verb", ["check", "fit", "evaluate", "learning-curve"])
def test_every_command_on_a_table_reads_it_with_the_same_options(verb):
    options = {one.name for one in get_command(app).commands[verb].params}
    assert {"bag", "target", "targets", "feature", "bag_feature", "categories", "dates", "keep", "fill_value"} < options
