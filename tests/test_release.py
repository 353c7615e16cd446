"""What a release names: one version everywhere, every extra, the Pythons that the workflow tests."""

import re
import tomllib
from pathlib import Path

import bagwise as bw

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TOOLS = {"docs", "lint", "test", "test-torch"}  # for developers


def test_the_version_is_the_same_everywhere():
    citation = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    changes = re.search(r"^## (\S+)", (ROOT / "CHANGES.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert {citation[1], changes[1], PROJECT["version"]} == {bw.__version__}


def test_all_brings_every_extra_that_brings_something():
    extras = PROJECT["optional-dependencies"]
    [everything] = extras["all"]
    named = set(re.fullmatch(r"bagwise\[(.*)\]", everything)[1].split(","))
    assert named == {name for name, brought in extras.items() if brought} - TOOLS - {"all"}


def test_the_pythons_are_those_of_the_workflow():
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    tested = re.search(r"python: \[(.*)\]", workflow)[1].replace('"', "").split(", ")
    named = [text.split(" :: ")[-1] for text in PROJECT["classifiers"] if re.search(r"3\.\d+$", text)]
    assert tested == named and PROJECT["requires-python"] == f">={tested[0]}"
