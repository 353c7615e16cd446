import csv
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from tests.helpers.typed import done, refused, run

import bagwise as bw
from bagwise.cli import app


def test_demo_leaves_a_table_and_a_picture(tmp_path):
    result = done("demo", "--out", tmp_path, "--bags", "30", "--instances", "8", "--folds", "2")
    for name in ("instance-mean", "instance-median", "aggregated", "instance-kme"):
        assert name in result.output
    with open(tmp_path / "predictions.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    bags, y = bw.datasets.make_aerosol(30, instances=8, ragged=True, random_state=0)
    assert [row["bag"] for row in rows] == [str(bag) for bag in bags.ids]
    np.testing.assert_array_equal([float(row["target"]) for row in rows], y)
    results = bw.evaluate(bags, y, ["aggregated"], repeats=1, folds=2, tune=False)  # the code that users call
    found = results.predictions("aggregated").to_dict("list")
    expected = dict(zip(map(str, found["bag"]), found["prediction"], strict=True))
    np.testing.assert_allclose([float(row["aggregated"]) for row in rows], [expected[row["bag"]] for row in rows])
    assert f"{results.summary()['rmse'][0]:.3g}" in result.output
    assert all(np.isfinite(float(row["instance-kme"])) for row in rows)
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["demo.png", "predictions.csv"]


@pytest.mark.slow
def test_the_start_page_shows_what_the_demo_prints(tmp_path):
    def table(text):
        rows = re.findall(r"^(aggregated|instance-[a-z]+) +([0-9.]+) ", text, re.MULTILINE)
        return [name for name, _ in rows], [float(rmse) for _, rmse in rows]

    result = run("demo", "--out", tmp_path)
    page = (Path(__file__).resolve().parents[2] / "docs" / "start.md").read_text(encoding="utf-8")
    shown = page[page.index("run `make demo`") : page.index("Seconds and memory depend")]
    (methods, errors), (expected, printed) = table(shown), table(result.output)
    assert len(methods) == 4 and methods == expected
    np.testing.assert_allclose(errors, printed, rtol=0.02)  # the last digits follow the CPU


def test_demo_with_more_folds_than_bags_says_so(tmp_path):
    refused("demo", "--out", tmp_path / "new", "--bags", 4, "--folds", 9, words="9 folds need at least 9 bags")
    assert not (tmp_path / "new").exists()


def test_methods_lists_the_catalogue():
    result = done("methods")
    assert all(name in result.output for name in bw.method_names())
    assert "Uriot (2019)" in run("methods", "instance-kme").output


def help_texts(command, path=()):
    """(command, help) of every verb, argument and option."""
    for part in [command, *command.params]:
        yield " ".join(path), getattr(part, "help", None) or ""
    for name, one in getattr(command, "commands", {}).items():
        yield from help_texts(one, (*path, name))


def test_every_method_that_a_help_text_names_exists():
    """`fit --help` named em:gate, which is none."""
    texts = list(help_texts(typer.main.get_command(app)))
    named = {name for _, text in texts for name in re.findall(r"--method ([\w:.-]*[\w])", text)}
    named |= {name for _, text in texts for name in re.findall(r"\b[a-z][a-z-]*:[a-z][a-z-]*\b", text)} - {
        "method:preset"
    }
    assert {"instance-kme", "instance-kme:paper"} <= named
    for name in named:
        bw.method(name)


def test_help_and_import_load_nothing_heavy():
    heavy = {"numba", "sklearn", "torch", "pandas", "pyarrow", "matplotlib"}
    code = f"import sys, bagwise, bagwise.cli; print(*sorted({heavy} & sys.modules.keys()))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []
