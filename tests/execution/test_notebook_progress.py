"""Progress in a notebook without ipywidgets: a line of text that is updated in place, and no warnings."""

import builtins
import sys
import types

import pytest
from tests.helpers.toy_runs import MeanOfFirst

import bagwise as bw
from bagwise.execution import progress
from bagwise.testing.contract_checks import sample


class Handle:
    def __init__(self):
        self.texts = []

    def update(self, data, *, raw):
        self.texts.append(data["text/plain"])


@pytest.fixture
def notebook(monkeypatch):
    """Pretend to be a Jupyter kernel; return the handle of what it displays."""
    handle = Handle()

    def display(data, *, raw, display_id):
        handle.update(data, raw=raw)
        return handle

    shell = type("ZMQInteractiveShell", (), {"__module__": "ipykernel.zmqshell"})
    ipython = types.ModuleType("IPython.display")
    ipython.display = display
    monkeypatch.setattr(builtins, "get_ipython", shell, raising=False)
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", ipython)
    monkeypatch.setattr(progress, "find_spec", lambda name: None)
    monkeypatch.setattr(progress, "UPDATE_SECONDS", 0.0)
    return handle


def test_an_evaluation_updates_one_line(notebook):
    bags, y = sample(20)
    bw.evaluate(bags, y, [("toy", MeanOfFirst())], repeats=1, folds=4, progress=True)
    assert any("4/4 cells" in text for text in notebook.texts) and notebook.texts[-1] == ""


def test_an_importance_updates_one_line(notebook):
    bags, y = sample(20)
    bw.importance(bw.method("aggregated").fit(bags, y), bags, y, repeats=1, progress=True)
    assert "100%" in "".join(notebook.texts)


def test_outside_of_notebooks_and_terminals_nothing_is_written(capsys):
    with progress.progress_display() as display:
        display.advance(display.add_task("work", total=1))
    assert capsys.readouterr() == ("", "")
