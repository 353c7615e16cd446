"""`bagwise methods`: print the catalogue of methods.

The text of the cards is in ``cards.json``, which `bagwise methods --json` prints; a test compares it with the
catalogue. Importing the catalogue would import scikit-learn, which takes a second.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Annotated

import typer

from bagwise.cli import options as o

CARDS = Path(__file__).parent / "cards.json"
TEXTS = ("name", "idea", "question", "assumes", "cites", "cost")


def methods(
    name: Annotated[
        str | None,
        typer.Argument(autocompletion=o.complete_method, help="One method, to see its card. Example: instance-kme"),
    ] = None,
    as_json: Annotated[bool, o.option("Print all cards as JSON.", "--json")] = False,
) -> None:
    """List the methods: the recommended ones first, the others by the question that they answer; or show a card."""
    from bagwise.cli.console import print_text
    from bagwise.cli.help import wrap

    if as_json:
        print(cards_text(), end="")
        return
    cards, width = o.read_cards(), shutil.get_terminal_size().columns
    if name is not None:
        card = cards.get(name.partition(":")[0], {"presets": []})
        if name not in cards and name.partition(":")[2] not in card["presets"]:
            o.check_method(name)  # raises the error with the nearest name
        rows = [(text, card[text]) for text in TEXTS] + [("presets", ", ".join(card["presets"]))]
        print_text("\n".join(f"{text:10}{wrap(value, width, ' ' * 10).lstrip()}" for text, value in rows))
        return
    indent = max(map(len, cards)) + 4
    for question in dict.fromkeys(card["question"] for card in cards.values()):
        print_text(f"{question}")
        for name, card in cards.items():
            if card["question"] == question:
                print_text(f"  {name}".ljust(indent) + wrap(card["idea"], width, " " * indent).lstrip())
        print_text("")
    print_text(
        "bagwise methods NAME shows the card of a method: what it assumes, its source, its cost and its presets."
    )


def cards_text() -> str:
    """Return the cards as JSON, the content of ``cards.json``."""
    from bagwise.methods.catalogue import CATALOGUE, QUESTIONS

    cards = sorted(CATALOGUE.values(), key=lambda card: QUESTIONS.index(card.question))
    plain = [{text: getattr(card, text) for text in TEXTS} | {"presets": card.preset_names} for card in cards]
    return json.dumps(plain, indent=1, ensure_ascii=False) + "\n"


VERBS = (methods,)
