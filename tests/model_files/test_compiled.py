"""Trees and networks are followed by compiled code: whatever would lead it out of its arrays is refused."""

import io

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor
from tests.helpers.saved_files import (
    as_npy,
    file_of,
    find,
    head_of,
    node,
    put_into_head,
    refused,
    resealed,
    small_file,
    small_model,
    state,
)

from bagwise.instances import EachInstance, NetworkRegressor
from bagwise.model_files import load_model
from bagwise.regressors import PoolPredictions
from bagwise.regressors.pipeline import BagPipeline
from bagwise.testing.contract_checks import sample

SMALL = small_model(DecisionTreeRegressor(max_depth=3, random_state=0))
TREE = file_of(SMALL)
BOOSTED = file_of(small_model(HistGradientBoostingRegressor(max_iter=2, min_samples_leaf=2)))


def edited(arrays, name: str, change) -> None:
    array = np.load(io.BytesIO(arrays[name]))
    arrays[name] = as_npy(change(array))


def put(field, value):
    def change(rows):
        rows[field][0] = value
        return rows

    return change


def tree_of(plan) -> dict:
    return head_of(plan)["tree_"]


def nodes_of(plan) -> str:
    return tree_of(plan)["content"]["content"]["nodes"]["file"]


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("left", 10**6, "leads out of itself"),
        ("right", -7, "leads out of itself"),
        ("left", 0, "leads out of itself"),  # a circle
        ("feature", 3, "asks for a feature"),
        ("feature", -1, "asks for a feature"),
    ],
)
def test_splits_stay_inside_the_tree(field, value, words, tmp_path):
    refused(resealed(TREE, lambda plan, arrays: edited(arrays, nodes_of(plan), put(field, value))), words, tmp_path)


def test_nodes_of_another_kind_are_refused(tmp_path):
    def plain_rows(plan, arrays):
        edited(arrays, nodes_of(plan), lambda rows: np.zeros(len(rows)))

    refused(resealed(TREE, plain_rows), "it is damaged", tmp_path)


def test_a_forest_takes_what_predictions_need_and_predicts_the_same(tmp_path):
    """Impurities and counts of nodes are not in the file: what is made of them is NaN, and no number."""
    forest = RandomForestRegressor(20, random_state=0)
    model, (bags, _) = small_model(forest), sample(30, random_state=1)
    data = file_of(model)
    (tmp_path / "m").write_bytes(data)
    opened = load_model(tmp_path / "m")
    np.testing.assert_array_equal(opened.predict(bags), model.predict(bags))
    assert file_of(opened) == data
    assert not np.isfinite(opened[-1].feature_importances_).any()


def test_a_tree_has_the_nodes_and_outputs_it_says(tmp_path):
    def more(plan, arrays):
        tree_of(plan)["content"]["content"]["node_count"] = 10**9

    def outputs(plan, arrays):
        tree_of(plan)["arguments"]["content"][2] = 10**9

    def classes(plan, arrays):
        edited(arrays, tree_of(plan)["arguments"]["content"][1]["file"], lambda one: one + 10**9)

    def none(plan, arrays):
        tree_of(plan)["content"]["content"]["node_count"] = 0
        edited(arrays, nodes_of(plan), lambda rows: rows[:0])

    refused(resealed(TREE, more), "nodes and claims 1000000000", tmp_path)
    refused(resealed(TREE, outputs), "more than one output", tmp_path)
    refused(resealed(TREE, classes), "more than one output", tmp_path)
    refused(resealed(TREE, none), "leads out of itself", tmp_path)


def test_the_holder_of_a_tree_counts_its_features(tmp_path):
    def narrower(plan, arrays):
        head_of(plan)["n_features_in_"] = 0

    def uncounted(plan, arrays):
        head_of(plan)["n_features_in_"] = None

    refused(resealed(TREE, narrower), "asks for a feature", tmp_path)
    refused(resealed(TREE, uncounted), "held by DecisionTreeRegressor, which does not count", tmp_path)


@pytest.mark.parametrize(
    "ensemble", [RandomForestRegressor(2, random_state=0), GradientBoostingRegressor(n_estimators=2)]
)
def test_a_forest_and_its_trees_have_the_same_features(ensemble, tmp_path):
    def narrower(plan, arrays):
        head_of(plan)["n_features_in_"] = 1

    refused(resealed(file_of(small_model(ensemble)), narrower), "other features than its forest", tmp_path)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("left", 10**6, "leads out of itself"),
        ("right", 0, "leads out of itself"),
        ("feature_idx", 3, "asks for a feature"),
        ("is_categorical", 1, "splits by category"),
    ],
)
def test_boosted_trees_stay_inside(field, value, words, tmp_path):
    def change(plan, arrays):
        first = head_of(plan)["_predictors"]["content"][0]["content"][0]
        edited(arrays, first["content"]["content"]["nodes"]["file"], put(field, value))

    refused(resealed(BOOSTED, change), words, tmp_path)


def test_a_forest_holds_its_trees_where_they_are_seen(tmp_path):
    def as_set(plan, arrays):
        head_of(plan)["estimators_"].update(__loader__="SetNode", __class__="set")

    forest = file_of(small_model(RandomForestRegressor(2, random_state=0)))
    refused(resealed(forest, as_set), "a forest holds a set where a tree should be", tmp_path)


def test_boosted_trees_compare_the_width_themselves(tmp_path):
    """With a preprocessor, or inside fit, scikit-learn hands on what it is given without a look at its width."""
    first = node("ObjectNode", "sklearn.decomposition._pca.PCA", content=state({}))

    def preprocessed(plan, arrays):
        head_of(plan)["_preprocessor"] = first

    def in_fit(plan, arrays):
        put_into_head(plan, {"_in_fit": True})

    for change in (preprocessed, in_fit):
        refused(resealed(BOOSTED, change), "a tree gets the output of a preprocessor", tmp_path)


def network_file() -> bytes:
    bags, y = sample()
    stage = EachInstance(NetworkRegressor((4,), epochs=1))
    return file_of(BagPipeline([("instances", stage), ("pool", PoolPredictions())]).fit(bags, y))


def test_the_arrays_of_a_network_have_its_shape(tmp_path):
    whole = network_file()

    def ensemble_of(plan):
        return find(plan, "NetworkEnsemble")["content"]["content"]

    def cut(name):
        return lambda plan, arrays: edited(arrays, ensemble_of(plan)[name]["file"], lambda array: array[..., :-1])

    def sizes(*values):
        return lambda plan, arrays: ensemble_of(plan).update(
            sizes=node("TupleNode", "builtins.tuple", content=list(values))
        )

    for name in ("parameters", "x_shift", "x_factor", "y_shift", "y_scale"):
        refused(resealed(whole, cut(name)), f"the {name} of a network do not have the shape", tmp_path)
    refused(resealed(whole, sizes(3, 10**9, 1)), "the parameters of a network do not have the shape", tmp_path)
    for odd in ((3, -4, 1), (3, 4, 2), (3,), ("3", 4, 1)):
        refused(resealed(whole, sizes(*odd)), "a network has the sizes", tmp_path)


def test_unharmed_they_open(tmp_path):
    for data in (TREE, BOOSTED, small_file(), network_file()):
        (tmp_path / "m").write_bytes(data)
        assert load_model(tmp_path / "m").n_features_in_ == 3
