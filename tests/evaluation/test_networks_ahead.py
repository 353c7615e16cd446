"""Networks of many cells trained together on a device: every cell has the numbers it would have had alone."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from tests.helpers.toy_estimators import TrainMean

from bagwise.embeddings import KernelMean
from bagwise.evaluation import evaluate, evaluation
from bagwise.evaluation import evaluation as ahead
from bagwise.evaluation.plan import as_entries, make_plan, on_device, run_cell
from bagwise.evaluation.splits import make_splits
from bagwise.instances import NetworkRegressor, OutOfFold
from bagwise.instances.networks import estimator as network_devices
from bagwise.instances.networks.cpu import train_networks
from bagwise.instances.networks.estimator import TrainedAhead, can_train_ahead, train_ahead
from bagwise.regressors import BagPipeline, EmbeddingRidge, RidgePath
from bagwise.testing.contract_checks import sample

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
from bagwise.instances.networks import gpu as network_together  # noqa: E402

BAGS, Y = sample(25)
SPACE = {"head__head__penalties": [(1e-3,), (1.0,)]}


def method(**changes):
    network = NetworkRegressor((6,), epochs=3, batch_size=16, random_state=None, **({"device": "cuda"} | changes))
    stage = OutOfFold(network, folds=3, random_state=1)
    return BagPipeline([("instances", stage), ("head", EmbeddingRidge(KernelMean(), RidgePath()))])


@pytest.fixture
def device(monkeypatch):
    """A device that trains as the CPU does, and a list of how many cross-fits it was given at a time."""
    calls = []

    def train(problems, recipe, *rest):
        calls.append(len(problems))
        return [train_networks(problem, recipe) for problem in problems]

    monkeypatch.setattr(network_devices, "settled", lambda device, worth: "cpu" if device == "cpu" else "cpu:0")
    monkeypatch.setattr(network_devices, "announce", lambda what, place: None)
    monkeypatch.setattr(network_together, "train_together", train)
    return calls


@pytest.fixture
def alone(monkeypatch):
    """`evaluate` as it is when every cell trains its own networks."""

    def run(*arguments, **options):
        with monkeypatch.context() as patch:
            patch.setattr(evaluation, "with_networks", lambda cells, bags, y: cells)
            return evaluate(*arguments, **options)

    return run


def numbers(results):
    return str(
        {
            name: column
            for name, column in results.table().to_dict("list").items()
            if name not in ("seconds", "memory_mb")
        }
    )


# --- the same numbers, in fewer launches


@pytest.mark.parametrize(
    ("selection", "space", "per_cell"), [("paper", SPACE, 1), ("nested", SPACE, 6), ("nested", {}, 1)]
)
def test_cells_have_the_numbers_they_have_alone_and_their_networks_are_trained_in_one_go(
    device, alone, selection, space, per_cell
):
    call = {"methods": [("nets", method(), space), ("mean", TrainMean())], "repeats": 2, "folds": 3}
    expected = alone(BAGS, Y, selection=selection, **call)
    assert expected.failures == [] and device == [1] * 6 * per_cell
    device.clear()
    found = evaluate(BAGS, Y, selection=selection, **call)
    assert device == [6 * per_cell]  # both repeats, which have seeds of their own
    assert numbers(found) == numbers(expected)


def test_the_engine_of_batched_products_agrees_to_rounding(monkeypatch, alone):
    monkeypatch.setattr(network_devices, "settled", lambda device, worth: "cpu:0")
    monkeypatch.setattr(network_devices, "announce", lambda what, place: None)
    call = {"methods": [("nets", method(), SPACE)], "repeats": 2, "folds": 3, "selection": "paper"}
    found, expected = (run(BAGS, Y, **call).scores("nets", "rmse") for run in (evaluate, alone))
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_worker_processes_are_handed_the_networks(device, alone):
    call = {"methods": [("nets", method())], "repeats": 1, "folds": 3}
    expected = alone(BAGS, Y, **call)
    device.clear()
    assert numbers(evaluate(BAGS, Y, n_jobs=2, **call)) == numbers(expected)  # there, no device is to be had
    assert device == [3]


def test_groups_no_larger_than_memory_allows(device, alone, monkeypatch):
    call = {"methods": [("nets", method())], "repeats": 2, "folds": 3}
    expected = alone(BAGS, Y, **call)
    device.clear()
    rows = int(BAGS.sizes.mean() * len(BAGS) * 2 / 3) * BAGS.n_features
    monkeypatch.setattr(ahead, "LARGEST", int(1.5 * rows))
    assert numbers(evaluate(BAGS, Y, **call)) == numbers(expected)
    assert device == [2, 2, 2]


def test_a_search_over_the_networks_is_left_to_the_cell(device, alone):
    call = {"methods": [("nets", method(), {"instances__regressor__epochs": [1, 2]})], "repeats": 1, "folds": 3}
    expected = alone(BAGS, Y, selection="paper", **call)
    device.clear()
    assert numbers(evaluate(BAGS, Y, selection="paper", **call)) == numbers(expected)
    assert device == [1] * 6


def test_time_spent_ahead_is_part_of_a_cells_time(device):
    (cell, *_) = make_plan(BAGS, Y, as_entries([("nets", method())]), make_splits(BAGS, repeats=1)).cells
    assert run_cell(replace(cell, ahead=100.0), BAGS, Y)["seconds"] > 100
    (same,) = ahead.with_networks([cell], BAGS, Y)
    assert same.ahead > 0 and same.key == cell.key


# --- what goes wrong, and what is there already


def test_networks_that_diverge_fail_their_own_cells_only(device, alone):
    target = Y.copy()
    target[3] = 1e30  # the cell that holds this bag out is well
    call = {"methods": [("nets", method(scale_target=False))], "repeats": 1, "folds": 3}
    expected = alone(BAGS, target, **call)
    found = evaluate(BAGS, target, **call)
    assert len(found.failures) == 2 and all("diverged" in error for *_, error in found.failures)
    assert numbers(found) == numbers(expected)


def test_only_what_is_left_is_trained(device, alone, tmp_path):
    call = {"methods": [("nets", method())], "repeats": 1, "folds": 3}
    expected = alone(BAGS, Y, **call)
    evaluate(BAGS, Y, out=tmp_path, **call)
    first, *_ = sorted((tmp_path / "cells").glob("*.json"))
    first.unlink()
    device.clear()
    assert numbers(evaluate(BAGS, Y, out=tmp_path, **call)) == numbers(expected)
    assert device == [1]
    device.clear()
    evaluate(BAGS, Y, out=tmp_path, **call)
    assert device == []


# --- the regressor that knows its networks


def test_networks_are_found_by_all_they_depend_on(device):
    rng = np.random.default_rng(0)
    X, fold = rng.normal(size=(60, 3)), np.arange(60) % 3
    regressor = NetworkRegressor((4,), epochs=2, device="cuda")
    ((key, trained),) = train_ahead([(regressor, (X, X[:, 0], fold, None))])
    known = clone(TrainedAhead.of(regressor, {key: trained}))
    device.clear()
    np.testing.assert_array_equal(known.cross_fit(X, X[:, 0], fold).predictions[fold == 1], trained[1].predictions)
    assert device == []
    others = [
        known.cross_fit(X, X[:, 1], fold), known.cross_fit(X, X[:, 0], (fold + 1) % 3),
        clone(known).set_params(random_state=1).cross_fit(X, X[:, 0], fold),
        clone(known).set_params(epochs=3).cross_fit(X, X[:, 0], fold),
        known.cross_fit(X, X[:, 0], fold, sample_weight=1.0 + fold),
    ]  # fmt: skip
    assert device == [1] * len(others)
    expected = NetworkRegressor((4,), epochs=3).cross_fit(X, X[:, 0], fold)
    np.testing.assert_array_equal(others[3].predictions, expected.predictions)


def test_what_belongs_on_the_cpu_is_not_trained_ahead(monkeypatch):
    assert not can_train_ahead(NetworkRegressor()) and not can_train_ahead(TrainMean())
    monkeypatch.setattr("bagwise.instances.networks.estimator.gpu", lambda: False)
    assert not can_train_ahead(NetworkRegressor(device="auto")) and can_train_ahead(NetworkRegressor(device="cuda"))
    monkeypatch.setattr("bagwise.instances.networks.estimator.gpu", lambda: True)
    assert can_train_ahead(NetworkRegressor(device="auto"))
    X = np.random.default_rng(0).normal(size=(60, 3))
    assert train_ahead([(NetworkRegressor((4,), device="auto"), (X, X[:, 0], np.arange(60) % 3, None))]) == [None]


# --- asking for a device


def test_a_device_is_given_to_every_part_that_has_one(device, monkeypatch):
    monkeypatch.setattr("bagwise.evaluation.plan.settled", lambda device, worth: device)
    (entry,) = as_entries([("nets", method(device="cpu"))])
    made = on_device(entry, "cuda").make(0)
    assert made.get_params()["instances__regressor__device"] == made.get_params()["head__embedding__device"] == "cuda"
    assert entry.make(0).get_params()["instances__regressor__device"] == "cpu"
    assert numbers(evaluate(BAGS, Y, ("nets", method(device="cpu")), device="cuda", repeats=1)) == numbers(
        evaluate(BAGS, Y, ("nets", method()), repeats=1)
    )
    assert device == [5, 5]


def test_a_device_that_is_not_there_is_refused_before_anything_runs(monkeypatch):
    monkeypatch.setattr("bagwise.execution.resources.gpu", lambda: False)
    with pytest.raises(ValueError, match="torch finds none on this machine"):
        evaluate(BAGS, Y, "aggregated", device="cuda")
    with pytest.raises(ValueError, match="device must be 'cpu', 'cuda' .* not 'tpu'"):
        evaluate(BAGS, Y, "aggregated", device="tpu")
