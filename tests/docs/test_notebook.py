"""The notebook of the docs runs, and shows what its stored outputs show."""

import json

from tests.docs.test_pages import DOCS


def test_the_notebook_runs_as_it_is_stored(monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "extensions")
    from notebooks import run_notebook

    def kinds(notebook) -> list:
        cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        return [[sorted(output.get("data", [output.get("name")])) for output in cell["outputs"]] for cell in cells]

    stored = json.loads((DOCS / "first_hour.ipynb").read_text(encoding="utf-8"))
    assert kinds(run_notebook(DOCS / "first_hour.ipynb")) == kinds(stored)
    assert ["text/html", "text/plain"] in sum(kinds(stored), [])
