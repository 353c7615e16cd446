"""What the README shows runs."""

import re
import shlex
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import bagwise as bw
from bagwise.cli import app

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^bagwise (.*)$", README, re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The two tables that the README speaks of, and the first as a folder of files."""
    place = tmp_path_factory.mktemp("readme")
    for name, seed in (("pixels", 0), ("new_pixels", 1)):
        bags, y = bw.datasets.make_aerosol(40, instances=5, ragged=True, random_state=seed)
        frame = pd.DataFrame(bags.instances, columns=list(bags.feature_names))
        frame["site"] = [f"s{i}" for i in bags.expand(bags.ids)]
        if name == "pixels":
            frame["aod"] = bags.expand(y)
            frame.assign(part=range(len(frame))).eval("part = part % 3").to_parquet(
                place / "lake", partition_cols=["part"]
            )
        frame.to_parquet(place / f"{name}.parquet")
    return place


def test_the_example_runs(folder, monkeypatch):
    monkeypatch.chdir(folder)
    example = re.search(r"```python\n(.*?)```", README, re.DOTALL).group(1)
    names: dict = {}
    exec(example.replace("aod.bagwise", "other.bagwise"), names)
    assert len(names["predictions"]) == len(names["new"])
    assert (names["lower"] < names["upper"]).all()
    sums = np.add.reduceat(names["parts"], names["new"].offsets[:-1])
    np.testing.assert_allclose(sums, names["predictions"], atol=1e-9)


def test_the_commands_run_in_their_order(folder, monkeypatch):
    monkeypatch.chdir(folder)
    verbs = [command.split()[0] for command in COMMANDS]
    assert verbs == ["check", "fit", "predict", "evaluate", "report", "fit", "predict"]
    # As typed, but on little data and in little time.
    shorter = {
        "fit": ["--time-budget", "3"],
        "evaluate": ["--repeats", "1", "--folds", "2"],
        "report": ["--no-explorer"],
    }
    for command in COMMANDS:
        words = [{"statistics": "statistics:linear"}.get(word, word) for word in shlex.split(command)]  # without trees
        more = [] if "--engine" in words else shorter.get(words[0], [])
        result = CliRunner().invoke(app, words + more)
        assert result.exit_code == 0, f"bagwise {command}: {result.output}"
    assert (folder / "aod.html").exists() and (folder / "predictions.csv").exists()
    assert len(pd.read_parquet(folder / "predictions")) == 40


def test_the_commands_are_targets_of_the_makefile():
    for target in set(re.findall(r"^make (\w+)", README, re.MULTILINE)):
        assert subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, check=False).returncode == 0


def test_links_lead_somewhere():
    for page in [ROOT / "README.md", *ROOT.glob("docs/*.md")]:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"
