"""`bagwise demo`: the errors of methods, and a next command that works."""

import shlex

import pytest
from tests.helpers.typed import done, refused

import bagwise as bw


@pytest.fixture
def demo(tmp_path):
    options = ("--bags", 30, "--instances", 8, "--time-budget", 1)
    return done("demo", *options, "--out", tmp_path / "demo").stdout, tmp_path / "demo"


def test_demo_prints_errors_and_the_next_command(demo):
    output, folder = demo
    lines = [line.split() for line in output.splitlines()]
    head = lines.index(["method", "error", "seconds"])
    auto = bw.load_model(folder / "model.bagwise").method_
    assert lines[head + 1][:2] == ["auto", f"{auto.scores_['error']:.3g}"]
    assert f"auto is typically off by {auto.scores_['error']:.3g};" in output
    assert {line[0] for line in lines[head + 2 : lines.index([], head)]} >= {"aggregated", "mean"}
    following = shlex.split(output.split("Next: bagwise ")[1])
    assert "Against the known targets: RMSE" in done(*following).stderr
    assert sorted(path.name for path in folder.iterdir()) == ["model.bagwise", "new_pixels.csv", "pixels.csv"]


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "demo").write_text("mine")
    refused("demo", "--out", tmp_path / "demo", words="demo is a file")
