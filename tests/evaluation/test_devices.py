"""The device that is given to an evaluation."""

import pytest

from bagwise.embeddings import KernelMean
from bagwise.evaluation import evaluate
from bagwise.evaluation.plan import as_entries, on_device
from bagwise.instances import NetworkRegressor, OutOfFold
from bagwise.regressors import BagPipeline, EmbeddingRidge, RidgePath
from bagwise.testing.contract_checks import sample


def test_a_device_is_given_to_every_part_that_has_one(monkeypatch):
    monkeypatch.setattr("bagwise.evaluation.plan.settled", lambda device, worth: device)
    stage = OutOfFold(NetworkRegressor((6,), epochs=3, device="cpu"), folds=3)
    (entry,) = as_entries(
        [("nets", BagPipeline([("instances", stage), ("head", EmbeddingRidge(KernelMean(), RidgePath()))]))]
    )
    made = on_device(entry, "cuda").make(0)
    assert made.get_params()["instances__regressor__device"] == made.get_params()["head__embedding__device"] == "cuda"
    assert entry.make(0).get_params()["instances__regressor__device"] == "cpu"


def test_a_device_that_is_not_there_is_refused_before_anything_runs(monkeypatch):
    monkeypatch.setattr("bagwise.execution.resources.gpu", lambda: False)
    with pytest.raises((ValueError, ImportError), match="device='cuda' needs"):  # a GPU, or torch
        evaluate(*sample(25), "aggregated", device="cuda")
    with pytest.raises(ValueError, match="device must be 'cpu', 'cuda' .* not 'tpu'"):
        evaluate(*sample(25), "aggregated", device="tpu")
