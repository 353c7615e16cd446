"""Runs that go on, are stopped, or are not there; what fixes the folds; the table in a pipe and in a terminal."""

import json
import re

import pytest
from tests.helpers import typed

from bagwise.evaluation import evaluation
from bagwise.evaluation.plan import run_cell


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    frame = typed.sample_frame(30)
    frame = frame.assign(fold=frame.site % 3, half=["train", "test"] * (len(frame) // 2) + ["train"] * (len(frame) % 2))
    frame["half"] = frame.groupby("site").half.transform("first")
    path = tmp_path_factory.mktemp("table") / "aod.csv"
    frame.to_csv(path, index=False)
    return path


def run(*arguments):
    result = typed.run(*arguments)
    return result, " ".join(result.stderr.split())


def evaluated(table, out, *more, ignored=("fold", "half"), methods=("aggregated",)):
    named = [part for name in methods for part in ("--method", name)]
    columns = ["--bag", "site", "--target", "aod", *[part for name in ignored for part in ("--ignore", name)]]
    return run("evaluate", table, *columns, *named, "--out", out, "--no-tune", *more)


def test_resume_is_the_same_command_and_needs_a_beginning(table, tmp_path):
    refused, said = evaluated(table, tmp_path / "run", "--resume")
    assert refused.exit_code == 1 and f"There is no run in {tmp_path / 'run'} to resume" in said
    assert not (tmp_path / "run").exists()
    first, _ = evaluated(table, tmp_path / "run", "--repeats", 1)
    again, _ = evaluated(table, tmp_path / "run", "--repeats", 1, "--resume")
    assert again.exit_code == 0 and again.stdout == first.stdout
    assert "--resume" not in json.loads((tmp_path / "run" / "plan.json").read_text())["origin"]["command"]


@pytest.fixture
def stopped_after(monkeypatch):
    """Ctrl-C in the middle of a cell, after so many were finished."""

    def stop_after(cells):
        left = iter(range(cells))

        def interrupted(cell, bags, y):
            if next(left, None) is None:
                raise KeyboardInterrupt
            return run_cell(cell, bags, y)

        monkeypatch.setattr(evaluation, "run_cell", interrupted)

    return stop_after


@pytest.mark.parametrize(("cells", "kept"), [(3, "3 finished cells are stored"), (1, "1 finished cell is stored")])
def test_ctrl_c_says_what_is_kept(table, tmp_path, stopped_after, cells, kept):
    stopped_after(cells)
    result, said = evaluated(table, tmp_path / "run", "--repeats", 1, "--quiet")
    assert result.exit_code == 130 and "Traceback" not in result.output
    assert said == f"bagwise evaluate: Stopped; {kept} in {tmp_path / 'run'}. The same command continues from there."
    stopped_after(5 - cells)
    assert evaluated(table, tmp_path / "run", "--repeats", 1, "--resume")[0].exit_code == 0


def test_methods_of_an_earlier_run_are_named(table, tmp_path):
    evaluated(table, tmp_path, "--repeats", 1, methods=("aggregated", "statistics:linear"))
    result, said = evaluated(table, tmp_path, "--repeats", 1)
    assert "Note: the tables in" in said and "no longer of statistics:linear, which another run compared there" in said


def test_a_pipe_has_no_width_and_a_terminal_has(table, tmp_path, monkeypatch):
    methods = ("aggregated", "statistics:linear")
    monkeypatch.setenv("COLUMNS", "45")
    piped, said = evaluated(table, tmp_path, "--repeats", 2, methods=methods)
    lines = piped.stdout.splitlines()
    assert lines[1].endswith("seconds per split") and lines[3].startswith("statistics:linear ")
    monkeypatch.setenv("FORCE_COLOR", "1")  # a terminal, for rich
    shown, said = evaluated(table, tmp_path, "--repeats", 2, methods=methods)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown.stdout).splitlines()
    assert lines[3].startswith("statistics:linear  0.") and max(map(len, lines[1:4])) <= 45
    assert "from best" in lines[1] and "rank" not in lines[1]
