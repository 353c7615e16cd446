"""What is searched: the space of the card, but never what a preset sets."""

import pytest

from bagwise.evaluation.plan import as_entries
from bagwise.evaluation.selection import chooses_by_itself
from bagwise.methods import CATALOGUE
from bagwise.model_files.fingerprint import describe


def searched(text):
    """The entry's estimator as it comes, and the parameters that are searched."""
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
def test_what_a_preset_sets_is_not_searched(text, names):
    assert searched(text)[1] == names


PRESETS = [(card, preset) for card in CATALOGUE.values() for preset in card.presets]


@pytest.mark.parametrize(("card", "preset"), PRESETS, ids=lambda one: getattr(one, "name", one))
def test_every_preset_keeps_what_makes_it_one(card, preset):
    parameters, names = searched(f"{card.name}:{preset}")
    plain, _ = searched(card.name)
    changed = {name for name in card.search_space if describe(parameters.get(name)) != describe(plain.get(name))}
    assert not names & changed or preset in card.searched
    (entry,) = as_entries(f"{card.name}:{preset}")
    own = set(card.search_space) & set(parameters) - (set() if preset in card.searched else changed)
    assert names == (set() if chooses_by_itself(entry.make(0)) else own)


def test_nothing_is_searched_without_tuning():
    (entry,) = as_entries("bmir", tune=False)
    assert entry.settings == ({},)
