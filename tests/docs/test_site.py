"""The site: pages are reachable, links resolve, examples are complete; the slow test builds it."""

import ast
import importlib
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from docutils import nodes

ROOT = Path(__file__).resolve().parents[2]
DOCS, EXAMPLES = ROOT / "docs", sorted((ROOT / "examples").glob("*.py"))
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in DOCS.glob("*.md")}
BUILT = ("gallery/index", "api/index")  # written by the build itself


def entries(text: str) -> list[str]:
    """Return the entries of the toctrees of a page."""
    trees = re.findall(r"^```\{toctree\}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [line for tree in trees for line in tree.splitlines() if line and not line.startswith(":")]


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_in_a_toctree_and_every_entry_is_a_page():
    listed = [entry for text in PAGES.values() for entry in entries(text)]
    assert sorted(listed) == sorted({*PAGES, *BUILT} - {"index"})


@pytest.mark.parametrize("page", sorted(PAGES))
def test_links_lead_somewhere(page):
    for target in re.findall(
        r"\]\(([^)\s]+)\)", re.sub(r"^```.*?^```$", "", PAGES[page], flags=re.DOTALL | re.MULTILINE)
    ):
        path, _, anchor = target.partition("#")
        if target.startswith("http") or path.removesuffix(".rst") in BUILT:
            continue
        assert not path or (DOCS / path).exists(), f"{page}.md links to {target}"
        if anchor:
            text = (DOCS / path).read_text(encoding="utf-8") if path else PAGES[page]
            assert anchor in anchors(text), f"{page}.md links to {target}"


def test_dates_and_commits_are_in_the_evidence_only():
    evidence = {"evidence", *entries(PAGES["evidence"])}
    told = 0
    for page, text in PAGES.items():
        prose = re.sub(r"^ *```.*?^ *```$|`[^`]*`", "", text, flags=re.DOTALL | re.MULTILINE)
        commits = [word for word in re.findall(r"\b[0-9a-f]{7,40}\b", prose) if re.search("[a-f]", word)]
        found = [*commits, *re.findall(r"\b20\d\d-\d\d-\d\d\b", prose)]
        assert page in evidence or not found, f"{page}.md: {found}"
        told += len(found)
    assert told


def test_a_broken_anchor_would_be_noticed():
    assert anchors("# The methods\n\n## instance-kme\n\n### λ or λ·n\n") == {"the-methods", "instance-kme", "λ-or-λn"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_compiles_has_a_title_and_uses_public_names_only(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    title, line = (ast.get_docstring(tree, clean=True) or "\n").splitlines()[:2]
    assert set(line) == {"="} and len(line) >= len(title)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "bagwise":
            public = importlib.import_module(node.module).__all__
            assert not {name.name for name in node.names} - set(public), f"{path.name} imports what is not public"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "bw":
            assert hasattr(importlib.import_module("bagwise"), node.attr)


def test_the_examples_that_run_in_the_build_are_numbered():
    run = [path.stem for path in EXAMPLES if path.stem.startswith("plot_")]
    assert [name[:8] for name in run] == [f"plot_{i:02d}_" for i in range(1, len(run) + 1)] and len(run) >= 10


@pytest.mark.slow
def test_the_example_of_conformers_runs(capsys):
    pytest.importorskip("rdkit", reason="needs RDKit")
    runpy.run_path(str(ROOT / "examples" / "conformers.py"), run_name="__main__")
    error, spread = map(
        float, re.search(r"RMSE ([\d.]+) degrees, standard deviation ([\d.]+)", capsys.readouterr().out).groups()
    )
    assert error < spread / 2


def test_formulas_become_mathml_where_docutils_would_misread_them(monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "extensions")
    mathml = importlib.import_module("mathml")
    found = mathml._mathml(nodes.math("", r"\tfrac34 x"), block=False)
    assert re.sub(r"\s", "", found).startswith("<math") and "<mn>3</mn><mn>4</mn></mfrac><mi>x</mi>" in re.sub(
        r"\s", "", found
    )
    assert "\\big" not in mathml._mathml(nodes.math("", r"\big[ a, \dots \big]"), block=False)


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_asks_nothing_of_the_network(tmp_path):
    for left_over in ("api", "gallery"):
        shutil.rmtree(DOCS / left_over, ignore_errors=True)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", str(DOCS), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for example in (path.stem for path in EXAMPLES if path.stem.startswith("plot_")):
        assert (tmp_path / "gallery" / f"{example}.html").exists()
        assert list((tmp_path / "_images").glob(f"sphx_glr_{example}_*.png")), f"{example} has no picture"
    for page in tmp_path.rglob("*.html"):
        loaded = re.findall(r"<(?:script|img|iframe|link)[^>]+(?:src|href)=\"(https?:[^\"]+)", page.read_text("utf-8"))
        assert not loaded, f"{page.name} loads {loaded[0]}"
