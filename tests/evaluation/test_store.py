"""A results folder: resumed, shared, damaged, or holding something else."""

import csv
import json
import warnings

import numpy as np
import pytest
from tests.helpers.toy_estimators import Failing, TrainMean

import bagwise
from bagwise.evaluation import Results, evaluate
from bagwise.evaluation import evaluation as evaluation_module
from bagwise.evaluation.plan import run_cell
from bagwise.testing.contract_checks import sample

BAGS, Y = sample(30)
METHODS = [("mean", TrainMean()), ("off", TrainMean(shift=1.0))]


@pytest.fixture
def ran(monkeypatch):
    """The cells that are really run, as they are."""
    cells = []

    def counting(cell, bags, y):
        cells.append((cell.method, cell.repeat, cell.fold))
        return run_cell(cell, bags, y)

    monkeypatch.setattr(evaluation_module, "run_cell", counting)
    return cells


@pytest.fixture
def no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def run(out, methods=METHODS, bags=BAGS, y=Y, repeats=1, **options):
    return evaluate(bags, y, methods, repeats=repeats, out=out, **options)


def test_the_same_command_runs_nothing_twice(tmp_path, ran, no_warning):
    (tmp_path / "cells").mkdir()
    (tmp_path / "cells" / ".0123-half.json").write_text("{")  # left by a killed run
    first = run(tmp_path)
    assert len(ran) == 10
    again = run(tmp_path)
    assert len(ran) == 10 and again.rows("table") == first.rows("table")


def test_more_methods_and_repeats_use_what_is_there(tmp_path, ran, no_warning):
    run(tmp_path, METHODS[:1])
    run(tmp_path, METHODS)
    assert ran[5:] == [("off", 0, k) for k in range(4, -1, -1)]  # from the other end


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": Y + 1}, "the data set is another one"),
        ({"bags": BAGS[::-1], "y": Y[::-1]}, "the data set is another one"),
        ({"methods": [("mean", TrainMean(shift=0.1)), METHODS[1]]}, "method 'mean' has changed"),
        ({"methods": [("mean", TrainMean(), {"shift": [0.0]}), METHODS[1]]}, "method 'mean' has changed"),
        ({"selection": "paper"}, "hyperparameters were chosen by 'nested'"),
        ({"metric": "mae"}, "the metric was 'rmse'"),
        ({"level": 0.5}, "the level of intervals was 0.9"),
        ({"folds": 3}, "the folds are others"),
        ({"repeats": 2, "random_state": 1}, "the folds are others"),
    ],
)
def test_a_change_is_noticed_and_nothing_is_mixed(tmp_path, ran, change, message):
    run(tmp_path)
    with pytest.warns(UserWarning, match=f"holds results of another plan: .*{message}.* kept and not used"):
        changed = run(tmp_path, **change)
    apart = run(tmp_path / "apart", **change)
    for method in ("mean", "off"):
        np.testing.assert_array_equal(changed.values(method), apart.values(method))
    assert ("mean", 0, 0) in ran[10:]


def test_another_version_of_the_library_is_noticed(tmp_path, ran, monkeypatch):
    run(tmp_path)
    monkeypatch.setattr(bagwise, "__version__", "99")
    with pytest.warns(UserWarning, match=r"it was made by bagwise 0\..*, not bagwise 99"):
        run(tmp_path)
    assert len(ran) == 20


DEEP = '{"digest": "0", "result": ' + "[" * 100_000 + "]" * 100_000 + "}"


@pytest.mark.parametrize("damage", ["cut", "empty", "changed", "foreign", "deep", "binary"])
def test_a_damaged_cell_is_run_again_with_a_word(tmp_path, ran, damage):
    first = run(tmp_path)
    path = sorted((tmp_path / "cells").glob("*.json"))[0]
    text = path.read_text()
    number = json.loads(text)["result"]["scores"]["rmse"][0]
    contents = {
        "cut": text[: len(text) // 2],
        "empty": "",
        "changed": text.replace(str(number), str(number / 2)),
        "foreign": "[1, 2]",
        "deep": DEEP,
        "binary": "\x00\xff",
    }
    path.write_text(contents[damage], encoding="latin-1")
    with pytest.warns(UserWarning, match="is damaged or cut short; its cell will be run again") as caught:
        again = run(tmp_path)
    assert len(caught) == 1 and len(ran) == 11
    for method in ("mean", "off"):
        np.testing.assert_array_equal(again.values(method), first.values(method))
    assert run(tmp_path).missing == 0 and len(ran) == 11


def test_a_cell_of_another_plan_is_run_again(tmp_path, ran):
    first = run(tmp_path)
    path, other = sorted((tmp_path / "cells").glob("*.json"))[:2]
    path.write_text(other.read_text())
    with pytest.warns(UserWarning, match="holds the result of another cell; its cell will be run again"):
        again = run(tmp_path)
    np.testing.assert_array_equal(again.values("off"), first.values("off"))
    assert len(ran) == 11


def test_failed_cells_are_run_again_only_if_asked(tmp_path, ran):
    methods = [("fails", Failing(needs=7))]
    assert len(run(tmp_path, methods).failures) == 1
    assert len(run(tmp_path, methods).failures) == 1 and len(ran) == 5
    run(tmp_path, methods, retry_failed=True)
    assert len(ran) == 6


def test_cells_finished_by_another_run_meanwhile_are_taken_over(tmp_path, ran):
    def meanwhile(step):
        if step.done == 1 and len(ran) == 1:
            run(tmp_path)  # a second run, from the other end, until everything is done

    results = run(tmp_path, progress=meanwhile)
    assert results.missing == 0 and len(ran) == 10


def test_repeats_and_folds_are_those_of_the_plan(tmp_path, ran):
    """Repeat 0 of seed 1 is repeat 1 of seed 0, and the cell says so."""
    run(tmp_path, METHODS[:1], folds=2, repeats=3)
    with pytest.warns(UserWarning, match="the folds are others"):
        rows = run(tmp_path, METHODS[:1], folds=2, repeats=3, random_state=1).rows("table")
    assert len(ran) == 6 + 2  # two repeats are shared
    assert [(row["repeat"], row["fold"]) for row in rows] == [(r, k) for r in range(3) for k in range(2)]


def test_methods_that_fall_out_of_the_tables_are_named(tmp_path, ran, no_warning):
    run(tmp_path, METHODS[:1])
    with pytest.warns(UserWarning, match="no longer of mean, which another run.* cells are kept: name all methods"):
        run(tmp_path, METHODS[1:])
    run(tmp_path, METHODS)  # none of these is dropped
    assert len(ran) == 10 and methods_in(tmp_path, "results") == ["mean", "off"]


def test_tables_and_plan_are_of_the_run_that_ended_last(tmp_path, ran):
    def meanwhile(step):
        if step.done == 1 and len(ran) == 1:
            run(tmp_path, METHODS[1:])  # another run with another method begins later and ends first

    with pytest.warns(UserWarning, match="are of the methods named now, no longer of") as caught:
        run(tmp_path, METHODS[:1], progress=meanwhile)
    assert [str(one.message).split("no longer of ")[1].split(",")[0] for one in caught] == ["mean", "off"]
    assert (
        Results.load(tmp_path).methods == methods_in(tmp_path, "results") == methods_in(tmp_path, "summary") == ["mean"]
    )


def methods_in(folder, table):
    with (folder / f"{table}.csv").open() as file:
        return sorted({row["method"] for row in csv.DictReader(file)})


def test_a_comparison_of_one_method_has_a_header(tmp_path):
    assert len(run(tmp_path, METHODS[:1]).compare()) == 0
    both = run(tmp_path / "both").compare()
    assert (tmp_path / "comparisons.csv").read_text() == ",".join(both) + "\n"


def lose_the_digest(text):
    plan = json.loads(text)
    del plan["digest"]
    return json.dumps(plan)


DAMAGES = {
    "empty": "{}",
    "list": "[]",
    "cut": "{",
    "binary": "\x00\xff",
    "deep": DEEP,
    "changed": lambda text: text.replace('"off"', '"ofg"'),
    "no-digest": lose_the_digest,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_plan_is_named_and_written_again(tmp_path, ran, damage):
    run(tmp_path)
    path = tmp_path / "plan.json"
    path.write_text(damage(path.read_text()) if callable(damage) else damage, encoding="latin-1")
    with pytest.raises(ValueError, match=r"plan\.json is not the plan of an evaluation, or it is damaged"):
        Results.load(tmp_path)
    with pytest.warns(UserWarning, match=r"plan\.json is damaged or cut short; it is written again") as caught:
        run(tmp_path)
    assert len(caught) == 1 and len(ran) == 10 and Results.load(tmp_path).missing == 0
    assert json.loads(path.read_text())["metric"] == "rmse"
