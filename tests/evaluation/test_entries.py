"""What is searched: the space of the card, but never what a preset sets. Which device a method gets."""

import pytest

from bagwise.embeddings import KernelMean
from bagwise.evaluation import evaluate
from bagwise.evaluation.plan import as_entries, on_device
from bagwise.evaluation.selection import chooses_by_itself
from bagwise.instances import NetworkRegressor, OutOfFold
from bagwise.methods import CATALOGUE
from bagwise.model_files.fingerprint import describe
from bagwise.regressors import BagPipeline, EmbeddingRidge
from bagwise.testing.contract_checks import sample


def searched(text):
    """Return the parameters of the entry's estimator, and the names of those that are searched."""
    (entry,) = as_entries(text)
    return entry.make(0).get_params(deep=True), {name for setting in entry.settings for name in setting}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("attention", {"looks", "moments", "read"}),
        ("attention:moments", {"looks", "read"}),
        ("statistics", {"head__max_leaf_nodes", "head__max_iter"}),
        ("statistics:forest", set()),
        ("bmir", {"head__top"}),
        ("bmir:paper", set()),
        ("instance-kme:notebook", set()),
        ("instance-kme:paper", {"head__embedding__kernel", "head__head__penalties"}),  # it says: to be searched
        ("cluster:mixture", {"head__clusters"}),
    ],
)
def test_parameters_of_a_preset_are_not_searched(text, names):
    assert searched(text)[1] == names
    (entry,) = as_entries(text, tune=False)
    assert entry.settings == ({},)


PRESETS = [(card, preset) for card in CATALOGUE.values() for preset in card.presets]


@pytest.mark.parametrize(("card", "preset"), PRESETS, ids=lambda one: getattr(one, "name", one))
def test_each_preset_keeps_its_parameters(card, preset):
    (entry,) = as_entries(f"{card.name}:{preset}")
    (parameters, names), (plain, _) = searched(f"{card.name}:{preset}"), searched(card.name)
    changed = {name for name in card.search_space if describe(parameters.get(name)) != describe(plain.get(name))}
    changed = set() if preset in card.searched else changed
    own = set(card.search_space) & set(parameters) - changed
    assert names == (set() if chooses_by_itself(entry.make(0)) else own)


def test_a_device_is_given_to_each_part_that_has_one(monkeypatch):
    monkeypatch.setattr("bagwise.evaluation.plan.choose_device", lambda device, is_large: device)
    stage = OutOfFold(NetworkRegressor((6,), epochs=3, device="cpu"), folds=3)
    (entry,) = as_entries([("nets", BagPipeline([("instances", stage), ("head", EmbeddingRidge(KernelMean()))]))])
    made = on_device(entry, "cuda").make(0)
    assert made.get_params()["instances__regressor__device"] == made.get_params()["head__embedding__device"] == "cuda"
    assert entry.make(0).get_params()["instances__regressor__device"] == "cpu"


def test_a_missing_device_is_refused_before_any_cell_runs(monkeypatch):
    monkeypatch.setattr("bagwise.execution.resources.gpu", lambda: False)
    with pytest.raises((ValueError, ImportError), match="device='cuda' needs"):  # a GPU, or torch
        evaluate(*sample(25), "aggregated", device="cuda")
    with pytest.raises(ValueError, match="device must be .* not 'tpu'"):
        evaluate(*sample(25), "aggregated", device="tpu")
