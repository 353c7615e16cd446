import runpy
from pathlib import Path

import pytest

import bagwise as bw
from bagwise.cli.methods import CARDS, cards_text
from bagwise.methods import CATALOGUE

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_page_in_the_docs_is_the_catalogue():
    page = runpy.run_path(str(DOCS / "extensions" / "methods_page.py"))["methods_page"]()
    command = "python docs/extensions/methods_page.py > docs/methods.md"
    assert (DOCS / "methods.md").read_text(encoding="utf-8") == page, f"docs/methods.md is out of date; run {command}"


@pytest.mark.parametrize("card", CATALOGUE.values(), ids=lambda card: card.name)
def test_a_card_says_what_the_estimator_is(card):
    """Every preset makes an estimator; what the card says it gives, its last step has; and nothing else."""
    searched = (card.searched or card.preset_names)[0]
    assert set(card.search_space) <= set(bw.method(card.name, preset=searched).get_params(deep=True))
    for preset in card.presets:
        model = bw.method(card.name, preset=preset, random_state=3, n_jobs=1)
        last = model[-1] if hasattr(model, "steps") else model
        assert not model.__sklearn_is_fitted__() if hasattr(model, "__sklearn_is_fitted__") else True
        assert hasattr(last, "predict")
    for text in (card.idea, card.assumes, card.cites, card.cost):
        assert text and text[0] != " " and not text.endswith(" ")


def test_a_preset_may_be_part_of_the_name():
    """It was so for evaluations and commands, and not here."""
    linear = repr(bw.method("statistics", preset="linear", random_state=3))
    assert repr(bw.method("statistics:linear", random_state=3)) == linear
    assert repr(bw.method("statistics:linear", preset="linear", random_state=3)) == linear
    bags, y = bw.datasets.make_problem("mean", 30, random_state=0)
    expected = bw.Intervals(bw.method("statistics:linear")).fit(bags, y).predict_interval(bags)
    assert (bw.Intervals("statistics:linear").fit(bags, y).predict_interval(bags) == expected).all()


@pytest.mark.parametrize(
    "name, preset, message",
    [
        ("statistics:linar", None, "statistics has no preset 'linar'; it has 'default', 'forest', 'linear', 'moments'"),
        ("statistics", "linar", "statistics has no preset 'linar'"),
        ("random-forest", None, "no method 'random-forest'; did you mean 'statistics:forest'"),
        ("statistcs:linear", None, "there is no method 'statistcs'; did you mean 'statistics'"),
        ("statistics:linear", "forest", "names a preset, and preset='forest' is another; give one of them"),
        (3, None, "there is no method 3"),
    ],
)
def test_a_name_that_stands_for_nothing_is_refused(name, preset, message):
    with pytest.raises(ValueError, match=message):
        bw.method(name, preset=preset)


@pytest.mark.parametrize("name", bw.method_names())
def test_to_change_a_method_changes_no_other(name):
    """Parts of two methods that were one object would be."""
    for preset in bw.method_card(name).presets:
        one, other = (bw.method(name, preset=preset).get_params(deep=True) for _ in range(2))
        shared = [key for key, part in one.items() if hasattr(part, "set_params") and part is other[key]]
        assert shared == []


def test_the_cards_that_the_command_prints_are_those_of_the_catalogue():
    message = "src/bagwise/cli/cards.json is out of date; write it anew with what `bagwise methods --json` prints"
    assert CARDS.read_text(encoding="utf-8") == cards_text(), message
