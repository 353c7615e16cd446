"""What an evaluation must not do: find skill in noise, let test bags into tuning, hide that it was optimistic."""

import numpy as np
import pytest
from tests.helpers import toy_estimators
from tests.helpers.toy_estimators import RandomDirection, Spy

from bagwise.evaluation import evaluate
from bagwise.testing.contract_checks import sample

BAGS, _ = sample(48, n_features=12)
NOISE = np.random.default_rng(1).normal(size=48)
TICKETS = {"seed": list(range(20))}


@pytest.fixture(scope="module")
def on_noise():
    methods = [("lottery", RandomDirection(), TICKETS), "aggregated"]
    return {mode: evaluate(BAGS, NOISE, methods, repeats=3, selection=mode) for mode in ("nested", "paper")}


@pytest.mark.parametrize("method", ["lottery", "aggregated"])
def test_noise_gives_no_skill_when_nested(on_noise, method):
    assert on_noise["nested"].values(method, "r2").mean() < 0
    assert on_noise["nested"].values(method, "rmse").mean() > 0.97 * NOISE.std()


def test_the_best_on_the_scoring_folds_finds_skill_in_noise(on_noise):
    """The optimism of the paper's selection: on the same folds, one of twenty tickets correlates with pure noise."""
    nested, paper = (on_noise[mode].values("lottery") for mode in ("nested", "paper"))
    assert paper.mean() < nested.mean() - 0.04
    assert on_noise["paper"].values("lottery", "pearson").mean() > 0.15
    assert on_noise["nested"].values("lottery", "pearson").mean() < 0.1
    assert "optimistic" in on_noise["paper"].title() and "optimistic" not in on_noise["nested"].title()


@pytest.mark.parametrize("selection", ["nested", "paper"])
def test_test_bags_never_reach_tuning(selection):
    toy_estimators.SEEN.clear()
    fold = np.arange(48) % 4
    results = evaluate(BAGS, NOISE, [("spy", Spy(), {"shift": [0.0, 0.5]})], fold=fold, selection=selection)
    assert results.failures == []
    seen = toy_estimators.SEEN
    calls = len(seen) // 4  # per cell; the cells come in order
    for k in range(4):
        test = frozenset(BAGS.ids[fold == k].tolist())
        mine = seen[k * calls : (k + 1) * calls]
        assert all(not ids & test for what, ids in mine if what == "fit")
        meeting = [i for i, (what, ids) in enumerate(mine) if what == "predict" and ids & test]
        assert all(mine[i][1] == test for i in meeting)
        # nested: one prediction of the test bags, the very last call; paper: one per setting, after all fits
        assert meeting == ([calls - 1] if selection == "nested" else [2, 3])
