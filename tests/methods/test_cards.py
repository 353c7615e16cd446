import importlib.util
from pathlib import Path

import pytest

import bagwise as bw
from bagwise.methods import CATALOGUE
from bagwise.reports.cards import methods_page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "methods.md"
INSTALLED = [c for c in CATALOGUE.values() if c.needs is None or importlib.util.find_spec(c.needs)]


def test_the_page_in_the_docs_is_the_catalogue():
    message = "docs/methods.md is out of date; write it anew with: bagwise methods --markdown > docs/methods.md"
    assert PAGE.read_text(encoding="utf-8") == methods_page(), message


@pytest.mark.parametrize("card", INSTALLED, ids=lambda card: card.name)
def test_a_card_says_what_the_estimator_is(card):
    """Every preset makes an estimator; what the card says it gives, its last step has; and nothing else."""
    for preset in card.presets:
        model = bw.method(card.name, preset=preset, random_state=3, n_jobs=1)
        last = model[-1] if hasattr(model, "steps") else model
        assert set(card.search_space) <= set(bw.method(card.name).get_params(deep=True))
        assert not model.__sklearn_is_fitted__() if hasattr(model, "__sklearn_is_fitted__") else True
        assert hasattr(last, "predict")
    for text in (card.idea, card.assumes, card.cites, card.cost):
        assert text and text[0] != " " and not text.endswith(" ")
