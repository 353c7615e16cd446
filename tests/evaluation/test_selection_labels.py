"""How the settings of a method were chosen is told of every method by itself."""

import pytest
from tests.helpers.toy_estimators import TrainMean

from bagwise.evaluation import evaluate
from bagwise.evaluation.selection import EXPLANATIONS, LABELS
from bagwise.testing.contract_checks import sample

BAGS, Y = sample(30)
METHODS = [("searched", TrainMean(), {"shift": [0.0, 1.0]}), ("one", TrainMean(), {"shift": [0.0]}), "aggregated"]


@pytest.mark.parametrize("selection", ["nested", "paper"])
def test_only_a_method_with_several_settings_is_chosen_for(selection):
    results = evaluate(BAGS, Y, METHODS, repeats=1, selection=selection)
    assert [results.selection_of(method) for method in results.methods] == [selection, "none", "none"]
    assert list(results.summary()["selection"]) == [LABELS[selection], "none", "none"]
    assert results.table().to_dict("list")["selection"] == [LABELS[selection]] * 5 + ["none"] * 10
    pairs = list(zip(results.compare()["selection"], results.compare()["reference_selection"], strict=True))
    assert pairs == [(LABELS[selection], "none")] * 2 + [("none", "none")]
    told = f"{EXPLANATIONS[selection]} (searched); {EXPLANATIONS['none']} (one, aggregated)"
    assert results.title() == f"data, selection {LABELS[selection]} and none: {told}"


@pytest.mark.parametrize("selection", ["nested", "paper"])
def test_nothing_searched_is_not_called_chosen(selection):
    results = evaluate(BAGS, Y, ["cluster", "aggregated"], repeats=1, folds=3, tune=False, selection=selection)
    assert results.title() == f"data, selection none: {EXPLANATIONS['none']}"
