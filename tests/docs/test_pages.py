"""The code on the pages runs and prints the shown output; the commands exist."""

import contextlib
import doctest
import io
import re
import runpy
import shlex
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from bagwise.cli import app
from bagwise.methods import CATALOGUE

DOCS = Path(__file__).resolve().parents[2] / "docs"
FENCE = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
VERBS = typer.main.get_command(app).commands
# Not run here: one is slow and has tests of its own, the other needs files that are not ours to give.
NOT_RUN = ("demo", "reproduce")


def blocks(page: str) -> list[tuple[str, str]]:
    """Return (language, code) of each fenced block of a page with a language."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    return [(found[2], re.sub(f"^{found[1]}", "", found[3], flags=re.MULTILINE)) for found in FENCE.finditer(text)]


def commands(page: str) -> list[list[str]]:
    lines = "".join(code for language, code in blocks(page) if language == "console").splitlines()
    return [shlex.split(line)[1:] for line in lines if line.startswith("bagwise ")]


def same(printed: str, shown: str) -> bool:
    return doctest.OutputChecker().check_output(shown, printed, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)


@pytest.fixture
def page_module(monkeypatch):
    """Create a module for the code of a page, so that its classes pickle; restore the catalogue afterwards."""
    module, known = types.ModuleType("page"), dict(CATALOGUE)
    monkeypatch.setitem(sys.modules, "page", module)
    yield module
    CATALOGUE.clear()
    CATALOGUE.update(known)


LIBRARIES = {"formats": ("anndata", "duckdb", "geopandas", "h5netcdf", "polars", "xarray"), "molecules": ("rdkit",)}
QUICK = ["formats", "start", "own_data", "molecules", "serving", "pitfalls", "adding", "explaining", "trust", "why"]
QUICK += ["saving"]
# Weights and raster are tested beside their code.
SLOW = ["intervals", "learning_curves", "auto", "report", "scale", "instance_maps", "importance", "subgroups"]


@pytest.mark.filterwarnings("ignore:column 'red' holds -9999")  # what a pitfall is about
@pytest.mark.filterwarnings("ignore:The '.*' option is deprecated")  # anndata sets one of pandas
@pytest.mark.parametrize("page", [*QUICK, *(pytest.param(page, marks=pytest.mark.slow) for page in SLOW)])
def test_the_code_runs_and_prints_what_stands_under_it(page, page_module, tmp_path, monkeypatch):
    for library in LIBRARIES.get(page, ()):
        pytest.importorskip(library, reason=f"{page}.md needs {library}")
    monkeypatch.chdir(tmp_path)
    for command in commands(page):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, f"{command}: {done.output} {done.exception!r}"
    found = [*blocks(page), ("", "")]
    for (language, code), (following, shown) in zip(found[:-1], found[1:], strict=True):
        if language == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(code, f"{page}.md", "exec"), page_module.__dict__)
        elif language == "bash":  # commands that stand between the code
            printed = io.StringIO(
                "".join(CliRunner().invoke(app, shlex.split(line)[1:]).output for line in code.splitlines())
            )
        if language in ("python", "bash") and following == "text":
            assert same(printed.getvalue(), shown), f"{page}.md prints\n{printed.getvalue()}and shows\n{shown}"


def test_the_comparison_of_output_can_fail():
    assert same("R² +0.22\n", "R² +0.22\n") and not same("R² +0.22\n", "R² +0.23\n") and not same("printed\n", "")


def write_inputs(folder: Path) -> None:
    """Write an image with fields and a folder of arrays with a table, the input of commands that make tables."""
    example, rng = runpy.run_path(str(DOCS.parent / "examples" / "raster_to_bags.py")), np.random.default_rng(0)
    example["write_fields"](folder / "fields.gpkg", example["write_image"](folder / "image.tif", rng), rng)
    (folder / "slides").mkdir()
    np.save(folder / "slides" / "S1.npy", np.ones((2, 3)))
    (folder / "clinical.csv").write_text("slide,grade\nS1,2.5\n")


def test_every_verb_has_a_section_with_an_example_that_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_inputs(tmp_path)
    text = (DOCS / "command_line.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^## ([a-z]\S*)$", text, re.MULTILINE)) == sorted(VERBS)
    assert sorted(re.findall(r"\{options\} (\S+)$", text, re.MULTILINE)) == sorted(VERBS)
    shown = commands("command_line")
    assert {verb for verb, *_ in shown} == set(VERBS)
    for verb, *arguments in shown:
        if verb in NOT_RUN:
            (tmp_path / "mir-data").mkdir(exist_ok=True)
            VERBS[verb].make_context(verb, [word.replace("~", str(tmp_path)) for word in arguments])  # raises if wrong
        else:
            done = CliRunner().invoke(app, [verb, *arguments])
            assert done.exit_code == 0, f"{verb} {arguments}: {done.output}"
