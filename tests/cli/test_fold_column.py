"""Columns of fixed folds and splits, on the command line."""

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from bagwise.cli.evaluate import evaluate

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(evaluate)


def evaluated(tmp_path, what, labels):
    frame = pd.DataFrame({"site": [f"s{i}" for i in range(12)], "x": range(12), "aod": range(12), what: labels})
    frame = pd.concat([frame, frame])
    frame.iloc[12:, 1] += 1
    frame.to_csv(tmp_path / "t.csv", index=False)
    given = ["--bag", "site", "--target", "aod", "--method", "aggregated", f"--{what}-column", what]
    return CliRunner().invoke(app, [str(tmp_path / "t.csv"), *given, "--out", str(tmp_path / "run")])


@pytest.mark.parametrize("what", ["fold", "split"])
def test_a_missing_label_is_called_what_it_is(tmp_path, what):
    done = evaluated(tmp_path, what, ["train", "test"] * 5 + [None, None])
    said = " ".join(done.stderr.split())
    assert done.exit_code != 0 and "group" not in said
    assert f"bag 's10' (and 1 other) has rows without a {what} in column '{what}'" in said
    assert f"or leave --{what}-column out" in said


def test_dates_are_folds(tmp_path):
    done = evaluated(tmp_path, "fold", ["2020-01-01", "2020-01-02", "2020-01-03"] * 4)
    assert done.exit_code == 0, done.output
    assert list(pd.read_csv(tmp_path / "run" / "results.csv")["fold"]) == ["2020-01-01", "2020-01-02", "2020-01-03"]
