"""`bagwise fit --aggregate sum --exposure people --likelihood poisson`, and the map that `predict` writes."""

import numpy as np
import pandas as pd
import pytest
from tests.helpers.typed import done, refused, rows_of, run

import bagwise as bw

COLUMNS = ("--bag", "district", "--target", "cases")
COUNTS = ("--method", "aggregate-gp", "--aggregate", "sum", "--exposure", "people", "--likelihood", "poisson")


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """A raster as a table: cells with people, and the cases of their district."""
    rng = np.random.default_rng(0)
    district = np.repeat(np.arange(30), rng.integers(2, 6, size=30))
    frame = pd.DataFrame({"district": district, "rain": rng.normal(size=30)[district] + rng.normal(size=len(district))})
    frame["people"] = rng.integers(20, 200, size=len(frame))
    rate = 0.1 * np.exp(np.sin(frame["rain"]))
    frame["cases"] = rng.poisson((rate * frame["people"]).groupby(district).sum())[district]
    place = tmp_path_factory.mktemp("cells")
    frame.to_csv(place / "cells.csv", index=False)
    done("fit", place / "cells.csv", *COLUMNS, *COUNTS, "--no-intervals", "--out", place / "m.bagwise")
    return place


def test_the_map_is_that_of_the_library_and_adds_up(cells, tmp_path):
    outputs = "--out", tmp_path / "totals.csv", "--instances", tmp_path / "map.csv"
    done("predict", cells / "m.bagwise", cells / "cells.csv", *outputs)
    bags, y = bw.load(cells / "cells.csv", bag="district", target="cases", weights="people")
    model = bw.method("aggregate-gp", aggregate="sum", likelihood="poisson").fit(bags, y)
    rows = rows_of(tmp_path / "map.csv")
    values, std = model.predict_instances(bags, return_std=True)
    np.testing.assert_allclose([float(row["prediction"]) for row in rows], values, rtol=1e-9)
    np.testing.assert_allclose([float(row["std"]) for row in rows], std, rtol=1e-9)
    totals = pd.read_csv(tmp_path / "totals.csv")["prediction"]
    parts = pd.read_csv(tmp_path / "map.csv").groupby("district")["contribution"].sum()
    np.testing.assert_allclose(parts, totals, rtol=1e-9)


@pytest.mark.parametrize(
    "more, words",
    [
        (("--likelihood", "poisson", "--method", "blr"), "--likelihood has no effect on blr"),
        ((*COUNTS, "--weights", "rain"), "--exposure and --weights are both weights"),
        ((*COUNTS, "--exposure", "rain"), "weight that is negative"),
        (("--method", "aggregate-gp", "--likelihood", "binomial"), "a rate above one"),
        ((*COUNTS, "--engine", "stream"), "cells.csv is not a Parquet file"),
    ],
)
def test_mistakes_are_one_message(cells, tmp_path, more, words):
    refused("fit", cells / "cells.csv", *COLUMNS, *more, "--out", tmp_path / "m.bagwise", words=words)


def test_a_fill_value_among_counts_is_refused(cells, tmp_path):
    frame = pd.read_csv(cells / "cells.csv")
    frame.loc[frame["district"] == 3, "cases"] = -9999
    frame.to_csv(tmp_path / "cells.csv", index=False)
    result = run("fit", tmp_path / "cells.csv", *COLUMNS, *COUNTS, "--out", tmp_path / "m.bagwise")
    assert result.exit_code == 1
    text = " ".join(result.output.split())
    assert "bag 3 has a count below zero (-9999)" in text and "or use --likelihood gaussian" in text
