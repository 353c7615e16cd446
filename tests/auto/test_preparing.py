from functools import partial

import numpy as np
import pytest

import bagwise as bw
from bagwise.auto import AutoRegressor
from bagwise.auto.large_data import Components, thin
from bagwise.auto.members import Menu, plan
from bagwise.bags.checks import without_equal_weights
from bagwise.instances import NetworkRegressor
from bagwise.testing import zoo


@pytest.mark.parametrize("name", zoo())
def test_thin_bags_are_parts_of_the_bags(name):
    bags = zoo(2)[name]
    some = thin(bags, 3)
    np.testing.assert_array_equal(some.sizes, np.minimum(bags.sizes, 3))
    for part, whole in zip(some, bags, strict=True):
        assert {tuple(row) for row in part} <= {tuple(row) for row in whole}
    assert some.ids.tolist() == bags.ids.tolist()


def test_thinning_does_not_depend_on_the_order_of_instances_or_bags():
    rng = np.random.default_rng(0)
    bags = bw.from_arrays([rng.normal(size=(20, 2)) for _ in range(5)])
    turned = bw.from_arrays([bag[::-1] for bag in bags])
    for one, other in zip(thin(bags, 6), thin(turned, 6), strict=True):
        np.testing.assert_array_equal(np.sort(one, axis=0), np.sort(other, axis=0))
    np.testing.assert_array_equal(thin(bags[[3, 1]], 6).instances, thin(bags, 6)[[3, 1]].instances)


def test_components_keep_the_distances_of_standardised_features():
    rng = np.random.default_rng(0)
    bags = bw.from_arrays([rng.normal(size=(10, 4)) * [1, 10, 100, 1000] for _ in range(6)])
    rows = Components(4).fit_transform(bags).instances
    scaled = (bags.instances - bags.instances.mean(axis=0)) / bags.instances.std(axis=0)
    np.testing.assert_allclose(rows @ rows.T, scaled @ scaled.T, atol=1e-8)
    assert Components(2).fit_transform(bags).n_features == 2


def test_equal_weights_say_nothing():
    bags = zoo(2)["ragged"]
    assert without_equal_weights(bags) is bags
    assert without_equal_weights(bags.with_weights(bags.expand(1.0 + np.arange(7)))) == bags
    unequal = bags.with_weights(1.0 + np.arange(bags.n_instances))
    assert without_equal_weights(unequal) is unequal


def test_declared_imputation_is_kept_where_training_has_no_gap(tmp_path):
    rng = np.random.default_rng(0)
    instances, offsets = rng.normal(size=(200, 2)), np.arange(0, 201, 5)
    bags = bw.Bags(instances, offsets, missing="impute")
    y = np.array([bag[:, 0].mean() for bag in bags])
    holed = instances.copy()
    holed[3, 0] = np.nan
    new = bw.Bags(holed, offsets, missing="impute")
    for model in (AutoRegressor(["aggregated"], folds=3), bw.Intervals(AutoRegressor(["aggregated"], folds=3))):
        bw.save_model(model.fit(bags, y), tmp_path / "m.bagwise")
        for fitted in (model, bw.load_model(tmp_path / "m.bagwise")):
            assert np.isfinite(fitted.predict(new)).all()


def test_large_data_get_smaller_members():
    small, long, wide = (
        Menu(bags, instances, features, units=bags)
        for bags, instances, features in [(1000, 100_000, 16), (40_000, 4_000_000, 16), (1000, 20_000, 4000)]
    )
    steps = {
        name: [step for step, _ in menu._second_stage("default", 0).steps]
        for name, menu in {"small": small, "long": long, "wide": wide}.items()
    }
    assert steps == {
        "small": ["instances", "head"],
        "long": ["some", "model"],
        "wide": ["components", "model"],
    }
    assert long.forest(0)[-1].min_samples_leaf == 11 and small.forest(0)[-1].min_samples_leaf == 1
    busy = Menu(1472, 10_577, 180, 4).forest(0)[-1]  # more than a million statistics
    assert busy.min_samples_leaf == 2 and round(busy.max_features * 7 * 180) == 75
    assert [step for step, _ in wide.boosting(0).steps] == ["embedding", "columns", "head"]
    assert [step for step, _ in Menu(40_000, 80_000, 4000, 40_000).forest(0).steps] == ["components", "model"]


def test_few_groups_are_enough_for_members_with_folds_of_their_own(monkeypatch):
    """Three groups in all, so two to learn from."""
    small = partial(NetworkRegressor, (4,), epochs=(1,))  # the folds are what counts
    monkeypatch.setattr("bagwise.methods.instance_kme.default_network", small)
    rng = np.random.default_rng(0)
    bags = bw.from_arrays([rng.normal(size=(3, 2)) for _ in range(36)], groups=np.arange(36) // 12)
    y = np.array([bag[:, 0].mean() for bag in bags])
    members = [member for member in plan(bags) if member.name.startswith("instance-kme")]
    model = AutoRegressor(members).fit(bags, y)
    assert [row["why"] for row in model.trials_ if row["status"] == "failed"] == []
