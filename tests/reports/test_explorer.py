"""A run's methods made again, and fitted on all bags."""

import numpy as np
import pytest
from tests.helpers.toy_runs import MeanOfFirst

import bagwise as bw
from bagwise.evaluation.plan import as_entries, describe_setting
from bagwise.reports.explorer import chosen_settings, fit_recalled, recall
from bagwise.testing.contract_checks import sample


@pytest.mark.parametrize(("name", "missing"), [("cluster", False), ("aggregated", True)])
@pytest.mark.parametrize("tune", [True, False])
def test_the_setting_that_the_folds_chose_most_often(name, missing, tune):
    bags, y = sample(30)
    if missing:
        instances = bags.instances.copy()
        instances[::7, 1] = np.nan
        bags = bw.Bags(instances, bags.offsets, missing="impute")
    results = bw.evaluate(bags, y, [name], repeats=1, folds=4, tune=tune, random_state=3)
    usual = chosen_settings(results, name).most_common(1)[0][0]
    (setting,) = [one for one in as_entries(name, tune=tune)[0].settings if describe_setting(one) == usual]
    by_hand = bw.method(name, random_state=3).set_params(**setting).fit(bags, y)
    recalled = fit_recalled(results, recall(results, name), bags, y)
    assert np.array_equal(recalled.predict(bags), by_hand.predict(bags))


def test_an_estimator_of_ones_own_cannot_be_made_again():
    bags, y = sample(30)
    results = bw.evaluate(bags, y, [("by hand", MeanOfFirst())], repeats=1, folds=4)
    assert recall(results, "by hand") is None
