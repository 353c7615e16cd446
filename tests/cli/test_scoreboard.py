"""The table of `bagwise evaluate` in terminals of every width, and in a pipe."""

import io

import pytest
from rich.console import Console

from bagwise.cli.evaluate import scoreboard
from bagwise.evaluation import evaluate
from bagwise.testing.contract_checks import sample

METHODS = ["statistics:linear", "aggregated", "instance-mean:default"]


@pytest.fixture(scope="module")
def results():
    return evaluate(*sample(30), METHODS, repeats=2, folds=3, tune=False)


def printed(results, width):
    console = Console(file=io.StringIO(), width=width, color_system=None)
    table, left_out = scoreboard(results, width=width)
    console.print(table)
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    return lines, left_out


@pytest.mark.parametrize("width", [30, 40, 55, 66, 72, 80, 200])
def test_names_and_scores_are_whole(results, width):
    (head, *lines), left_out = printed(results, width)
    best_first = results.summary().sort_values("rmse")
    assert [line.split()[0] for line in lines] == list(best_first["method"]) != METHODS
    assert [line.split()[1] for line in lines] == [f"{value:.3g}" for value in best_first["rmse"]]
    every = ["method", "rmse", "±folds", "±repeats", "vs best", "p Holm", "rank", "s/cell", "MB"]
    assert [name for name in every if name in head] == [name for name in every if name not in left_out]
    assert "…" not in "".join(lines) and (not left_out) == (width >= 87)


def test_the_least_important_goes_first(results):
    assert printed(results, 80)[1] == ["MB"]
    assert printed(results, 40)[1] == ["±folds", "±repeats", "p Holm", "rank", "s/cell", "MB"]


def test_a_name_that_fits_nowhere_takes_two_lines(results):
    lines, _ = printed(results, 20)
    whole = "".join(line[:12].strip() for line in lines[1:])
    assert whole == "".join(row["method"] for row in results.ranked())
