"""`bagwise importance`, and `bagwise predict --novelty` with and without --by-time."""

import json

import pandas as pd
import pytest
from tests.helpers.typed import done, rows_of, run, sample_frame

import bagwise as bw


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table, the same with a column in other units, and a model."""
    place = tmp_path_factory.mktemp("importance")
    frame = sample_frame(40)
    frame.to_csv(place / "old.csv", index=False)
    frame.assign(b=frame.b + 900.0).to_csv(place / "moved.csv", index=False)
    names = ("--bag", "site", "--target", "aod", "--method", "aggregated")
    done("fit", place / "old.csv", *names, "--out", place / "model.bagwise")
    return place


def load(folder):
    return bw.load(folder / "old.csv", bag="site", target="aod")


def test_the_table_is_that_of_the_library(folder, tmp_path):
    model = folder / "model.bagwise"
    result = done("importance", model, folder / "old.csv", "--group", "both=a,b", "--repeats", 2, "--json", "--quiet")
    found = json.loads(result.stdout)
    expected = bw.importance(bw.load_model(model), *load(folder), groups={"both": ["a", "b"]}, repeats=2)
    assert found["held_out"] is True and found["baseline"] == expected.baseline
    assert [row["feature"] for row in found["importance"]] == list(expected.names)
    assert [row["spread"] for row in found["importance"]] == expected.as_dict()["spread"]
    out = tmp_path / "importance.csv"
    done("importance", model, folder / "old.csv", "--part", "whole", "--repeats", 1, "--out", out)
    assert rows_of(out)[0].keys() == {"feature", "whole", "whole_error"}
    shown = run("importance", model, folder / "old.csv", "--repeats", 1)
    assert shown.stdout.startswith("RMSE ") and "(mean over folds) on bags by models that" in shown.stdout


def test_predict_tells_which_bags_are_like_training(folder, tmp_path):
    model, out = folder / "model.bagwise", tmp_path / "p.csv"
    result = done("predict", model, folder / "moved.csv", "--out", out, "--novelty")
    assert "Of 40 bags, 0 are like the training bags (inside), 0 at the edge and 40 outside" in result.stderr
    rows = rows_of(out)
    assert {row["verdict"] for row in rows} == {"outside"} and {row["column_outside"] for row in rows} == {"b"}
    plain = run("predict", model, folder / "old.csv", "--out", out)
    assert "like the training bags" in plain.stderr and "verdict" not in out.read_text()


def test_novelty_is_left_out_if_it_cannot_be_judged(folder, tmp_path):
    table = pd.read_csv(folder / "old.csv")
    table.assign(farm=table.site % 4).to_csv(tmp_path / "farms.csv", index=False)
    names = ("--bag", "site", "--target", "aod", "--groups", "farm", "--method", "aggregated", "--no-intervals")
    done("fit", tmp_path / "farms.csv", *names, "--out", tmp_path / "few.bagwise")
    own = bw.load_model(folder / "model.bagwise")
    del own.profile_
    bw.save_model(own, tmp_path / "own.bagwise", training={"columns": {"bag": "site"}})
    for model, reason in (("few", "there were 4 training bags (or groups"), ("own", "keeps no profile")):
        plain, asked = (
            run("predict", tmp_path / f"{model}.bagwise", folder / "old.csv", *more) for more in ((), ["--novelty"])
        )
        assert asked.exit_code == plain.exit_code == 0 and asked.stdout == plain.stdout
        assert "--novelty was ignored: " in asked.stderr and reason in asked.stderr
        assert "--novelty" not in plain.stderr


@pytest.mark.parametrize("time", [("--time", "day"), ()])
def test_a_drift_is_reported(tmp_path, time):
    bags, y = bw.datasets.make_drift(160, drift=3.0, trend=6.0)
    table = bags.to_frame(y).assign(day=bags.expand(bags.time))
    table[table["bag"] < 60].to_csv(tmp_path / "old.csv", index=False)
    table[table["bag"] >= 60].to_csv(tmp_path / "new.csv", index=False)
    columns = ("--bag", "bag", "--target", "target", "--time", "day", "--method", "aggregated", "--no-intervals")
    done("fit", tmp_path / "old.csv", *columns, "--out", tmp_path / "m")
    out = tmp_path / "p.csv"
    result = done("predict", tmp_path / "m", tmp_path / "new.csv", "--novelty", "--by-time", *time, "--out", out)
    assert "The bags drift away from the training bags" in " ".join(result.stderr.split())
    assert len(out.read_text().splitlines()) == 101
