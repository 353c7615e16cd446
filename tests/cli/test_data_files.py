"""Commands that write tables: `bagwise datasets`, `demo` and `arrays`."""

import shlex

import numpy as np
import pytest
from tests.helpers.typed import done, refused

import bagwise as bw
from bagwise.datasets.simulations import SIMULATIONS


@pytest.mark.parametrize("ending", ["csv", "parquet", "npz"])
def test_a_simulation_is_written_as_a_table(tmp_path, ending):
    assert all(name in done("datasets").stdout for name in SIMULATIONS)
    path = tmp_path / f"mean.{ending}"
    done("datasets", "mean", "--bags", "9", "--seed", "3", "--out", path)
    expected, y = bw.datasets.make_problem("mean", 9, random_state=3)
    bags, targets = bw.load(path, **({} if ending == "npz" else {"bag": "bag", "target": "target"}))
    np.testing.assert_array_equal(bags.instances, expected.instances)
    np.testing.assert_array_equal(targets, y)


def test_demo_prints_errors_and_the_next_command(tmp_path):
    folder = tmp_path / "demo"
    output = done("demo", "--bags", 30, "--instances", 8, "--time-budget", 1, "--out", folder).stdout
    lines = [line.split() for line in output.splitlines()]
    head = lines.index(["method", "error", "seconds"])
    auto = bw.load_model(folder / "model.bagwise").method_
    assert lines[head + 1][:2] == ["auto", f"{auto.scores_['error']:.3g}"]
    assert f"auto is typically off by {auto.scores_['error']:.3g};" in output
    assert {line[0] for line in lines[head + 2 : lines.index([], head)]} >= {"aggregated", "mean"}
    following = shlex.split(output.split("Next: bagwise ")[1])
    assert "Against the known targets: RMSE" in done(*following).stderr
    assert sorted(path.name for path in folder.iterdir()) == ["model.bagwise", "new_pixels.csv", "pixels.csv"]
    refused("demo", "--out", folder / "pixels.csv", words="pixels.csv is a file")


@pytest.fixture
def place(tmp_path):
    (tmp_path / "slides").mkdir()
    for k in range(4):
        np.savez(tmp_path / "slides" / f"S{k}.npz", features=np.full((k + 1, 2), float(k)), coords=np.zeros((k + 1, 2)))
    (tmp_path / "clinical.csv").write_text("slide,grade,patient,age\nS2,2,p,50\nS0,0,p,50\nS3,3,q,61\nS1,1,r,43\n")
    return tmp_path


def test_the_file_holds_the_bags_of_the_library(place):
    columns = ("--bag", "slide", "--target", "grade", "--groups", "patient", "--bag-feature", "age")
    table = ("--table", place / "clinical.csv", "--array", "features")
    result = done("arrays", place / "slides", *table, *columns, "--out", place / "slides.npz")
    assert "4 bags of 1 to 4 instances" in result.output, result.output
    bags, y = bw.load(place / "slides.npz")
    roles = {"bag": "slide", "target": "grade", "groups": "patient", "bag_features": ["age"]}
    expected, grades = bw.from_folder(place / "slides", place / "clinical.csv", **roles, array="features")
    assert bags == expected and y.tolist() == grades.tolist() == [2, 0, 3, 1]
    done("fit", place / "slides.npz", "--method", "aggregated", "--no-intervals", "--out", place / "m.bagwise")


def test_every_misuse_is_one_line_with_the_way_out(place):
    out = ("--out", place / "slides.npz")
    for match, arguments in (
        ("S0.npz holds several arrays; choose one by --array: features, coords", out),
        ("--bag is needed: the column of the table that names the files", ("--table", place / "clinical.csv", *out)),
        ("slides.npz would be read as a bag of", ("--out", place / "slides" / "slides.npz")),
        ("'a.csv' should end in .npz", ("--out", place / "a.csv")),
    ):
        refused("arrays", place / "slides", *arguments, words=match)
    (place / "slides" / "S3.npz").unlink()
    table = ("--table", place / "clinical.csv", "--bag", "slide", "--array", "features")
    refused("arrays", place / "slides", *table, *out, words="or leave them out by --unmatched drop")
    result = done("arrays", place / "slides", *table, *out, "--unmatched", "drop")
    assert "Note: bag 'S3' has no file in" in " ".join(result.output.split())
