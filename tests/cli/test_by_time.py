"""`bagwise predict --novelty --by-time`: whether the bags of a table drift."""

import pytest
from tests.helpers.typed import run

import bagwise as bw


def typed(*words):
    result = run(*words)
    return result, " ".join((result.stdout + result.stderr).split())


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drift")
    bags, y = bw.datasets.make_drift(160, drift=3.0, trend=6.0)
    table = bags.to_frame(y).assign(day=bags.expand(bags.time))
    table[table["bag"] < 60].to_csv(folder / "old.csv", index=False)
    table[table["bag"] >= 60].to_csv(folder / "new.csv", index=False)
    fit = ("fit", folder / "old.csv", "--bag", "bag", "--target", "target", "--time", "day", "--method", "aggregated")
    assert typed(*fit, "--no-intervals", "--out", folder / "m.bagwise")[0].exit_code == 0
    return folder


@pytest.mark.parametrize("time", [("--time", "day"), ()])
def test_a_drift_is_reported(files, time):
    out = files / "p.csv"
    result, said = typed(
        "predict", files / "m.bagwise", files / "new.csv", "--novelty", "--by-time", *time, "--out", out
    )
    assert result.exit_code == 0 and "The bags drift away from the training bags" in said
    assert len(out.read_text().splitlines()) == 101
