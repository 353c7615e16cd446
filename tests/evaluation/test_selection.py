"""Choosing inside equals scikit-learn's grid search; a setting without a score is never chosen."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.linear_model import Lasso
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import Pipeline, make_pipeline
from tests.helpers.toy_estimators import SPACE, RandomDirection, Spread, TrainMean, kme

import bagwise as bw
from bagwise.bags import BagKFold
from bagwise.embeddings import Pool
from bagwise.evaluation import evaluate
from bagwise.evaluation.selection import EXPLANATIONS, LABELS, as_settings, choose_inside
from bagwise.testing.contract_checks import sample

BAGS, Y = sample(40)
pytestmark = pytest.mark.usefixtures("calm")


def test_choosing_inside_equals_grid_search():
    settings = as_settings(SPACE)
    chosen = choose_inside(kme(), settings, BAGS, Y, metric="rmse", random_state=3)
    search = GridSearchCV(kme(), SPACE, cv=BagKFold(5, random_state=3), scoring="neg_root_mean_squared_error")
    best = search.fit(BAGS, Y).best_params_
    assert {name: repr(value) for name, value in chosen.items()} == {name: repr(value) for name, value in best.items()}


def test_groups_stay_together_while_choosing():
    bags = bw.Bags(BAGS.instances, BAGS.offsets, groups=np.arange(40) // 10)  # four groups: four folds, not five
    assert choose_inside(TrainMean(), as_settings({"shift": [5.0, 0.0]}), bags, Y, metric="mae", random_state=0) == {
        "shift": 0.0
    }


@pytest.mark.parametrize("selection", ["nested", "paper"])
def test_a_constant_prediction_has_no_correlation_and_is_not_chosen(selection):
    lasso = make_pipeline(Pool(("mean",)), Lasso())
    methods = [("lasso", lasso, {"lasso__alpha": [1e6, 1e-3]})]  # the first predicts the mean of the targets
    results = evaluate(BAGS, Y, methods, repeats=1, metric="pearson", selection=selection)
    assert set(results.table().to_dict("list")["setting"]) == {"alpha=0.001"}


@pytest.mark.parametrize("metric", ["r2", "pearson"])
def test_inner_folds_of_one_bag_are_scored_together(metric):
    """Eight training bags make inner folds of one or two, where R² is NaN or means nothing."""
    bags, y = BAGS[:8], Y[:8]
    settings = as_settings({"seed": list(range(12))})
    cv = BagKFold(5, random_state=0)
    of = {"r2": r2_score, "pearson": lambda y, p: np.corrcoef(y, p)[0, 1]}[metric]
    expected = [of(y, cross_val_predict(RandomDirection(**setting), bags, y, cv=cv)) for setting in settings]
    chosen = choose_inside(RandomDirection(), settings, bags, y, metric=metric, random_state=0)
    assert chosen == settings[int(np.argmax(expected))] != settings[0]


class Widened(Spread):
    """Deviations times a factor."""

    def __init__(self, factor=1.0):
        self.factor, self.shift, self.nap = factor, 0.0, 0.0

    def fit(self, bags, y):
        super().fit(bags, y)
        self.std_ *= self.factor
        return self


def test_coverage_inside_is_that_of_all_held_out_bags():
    """Fold by fold, covering all eight bags would seem nearer to 90 % than seven: a fold without the eighth has 0 %."""
    bags, y = BAGS[:8], Y[:8]
    folds = [(Widened().fit(bags[train], y[train]), test) for train, test in BagKFold(5).split(bags)]
    errors = np.sort(np.concatenate([np.abs(y[test] - model.mean_) / model.std_ for model, test in folds]))
    seven, all_of_them = (np.array([errors[-2:].mean(), 2 * errors[-1]]) / norm.ppf(0.95)).tolist()
    settings = as_settings({"factor": [all_of_them, seven]})
    chosen = choose_inside(Widened(), settings, bags, y, metric="coverage", random_state=0)
    assert chosen == {"factor": seven}


@pytest.mark.parametrize(
    ("metric", "needs", "advice"),
    [
        ("nll", "standard deviations above 0", "'rmse', or use a method that predicts standard deviations"),
        ("pearson", "targets and predictions that vary", "'rmse'"),
    ],
)
def test_when_no_setting_has_a_score_the_choice_is_refused(metric, needs, advice):
    reason = f"None of 2 settings has a score .* because {metric} needs {needs}"
    with pytest.raises(ValueError, match=f"^{reason}. Choose by {advice}.$"):
        choose_inside(TrainMean(), as_settings({"shift": [0.0, 1.0]}), BAGS, np.ones(40), metric=metric, random_state=0)


def test_of_two_heads_the_one_with_a_standard_deviation_is_chosen():
    model = Pipeline([("head", TrainMean())])
    settings = as_settings({"head": [TrainMean(), Spread()]})
    chosen = choose_inside(model, settings, BAGS, Y, metric="nll", random_state=0)
    assert isinstance(chosen["head"], Spread)


@pytest.mark.parametrize("selection", ["nested", "paper"])
def test_only_methods_with_several_settings_are_labelled_by_the_selection(selection):
    searched = [("searched", TrainMean(), {"shift": [0.0, 1.0]}), ("one", TrainMean(), {"shift": [0.0]})]
    results = evaluate(BAGS, Y, [*searched, "aggregated"], repeats=1, selection=selection)
    labels = [LABELS[selection], "none", "none"]
    assert list(results.summary()["selection"]) == labels
    assert list(results.table()["selection"]) == [label for label in labels for _ in range(5)]
    pairs = list(zip(results.compare()["selection"], results.compare()["reference_selection"], strict=True))
    assert pairs == [(labels[0], "none")] * 2 + [("none", "none")]
    explained = f"{EXPLANATIONS[selection]} (searched); {EXPLANATIONS['none']} (one, aggregated)"
    assert results.title() == f"data, selection {labels[0]} and none: {explained}"
    plain = evaluate(BAGS, Y, ["cluster", "aggregated"], repeats=1, folds=3, tune=False, selection=selection)
    assert plain.title() == f"data, selection none: {EXPLANATIONS['none']}"
