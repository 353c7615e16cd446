"""`bagwise methods`: print the catalogue of methods, in the terminal or as a page of documentation.

The text of the cards is in ``cards.json``, written by `bagwise methods --json`, and a test compares it with the
catalogue: importing the catalogue would import scikit-learn, which takes a second.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bagwise.cli.options import known_methods

if TYPE_CHECKING:
    from bagwise.methods import Card


def methods(
    name: Annotated[
        str | None,
        typer.Argument(help="One method, to see its whole card. Example: instance-kme"),
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="The whole catalogue as a page of documentation.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="All cards as JSON.")] = False,
) -> None:
    """List the methods, or show the card of one."""
    from rich.table import Table

    from bagwise.cli.console import Terminal

    if markdown or as_json:
        print(methods_page() if markdown else cards_text(), end="")
        return
    console, cards = Terminal(), {card["name"]: card for card in json.loads(CARDS.read_text(encoding="utf-8"))}
    if name is not None:
        known, _, preset = name.partition(":")
        if known not in cards or (preset and preset not in cards[known]["presets"]):
            known_methods(name)  # raises the error with the nearest name
        for what in TEXTS:
            console.print(f"[bold]{what:8}[/bold] {cards[known][what]}")
        console.print(f"[bold]presets [/bold] {', '.join(cards[known]['presets'])}")
        return
    table = Table("method", "idea", box=None, padding=(0, 2, 0, 0))
    for card in cards.values():
        table.add_row(card["name"], card["idea"])
    console.print(table)


def cards_text() -> str:
    """Return the cards as JSON, the content of ``cards.json``."""
    from bagwise.methods.catalogue import CATALOGUE

    cards = [
        {what: getattr(card, what) for what in TEXTS} | {"presets": card.preset_names} for card in CATALOGUE.values()
    ]
    return json.dumps(cards, indent=1, ensure_ascii=False) + "\n"


CARDS = Path(__file__).parent / "cards.json"
TEXTS = ("name", "idea", "assumes", "cites", "cost")
HEAD = """# The methods

Made from the catalogue by `bagwise methods --markdown`; do not edit. Every method is `bw.method(name)`, an unfitted
scikit-learn estimator.
N instances, B bags, d features. *Interval*: the method has a predictive standard deviation,
`predict(bags, return_std=True)`. *Which instance*: its
last step gives instance weights or contributions. What happens to values that training never saw:
[pitfalls](pitfalls.md#outside-the-range-of-training).
"""


def methods_page() -> str:
    """Return a page in Markdown: a table of all methods, and a card per method."""
    from bagwise.methods.catalogue import CATALOGUE

    lines = [HEAD, "| method | assumes | cost | interval | which instance | GPU |", "|---|---|---|---|---|---|"]
    lines += [_row(card) for card in CATALOGUE.values()]
    return "\n".join(lines) + "\n\n" + "\n".join(_card(card) for card in CATALOGUE.values())


def _row(card: Card) -> str:
    which = ", ".join(verb for verb in card.gives if verb != "std")
    cells = [
        f"[{card.name}](#{card.name})",
        card.assumes,
        card.cost,
        "yes" if "std" in card.gives else "",
        which,
        "yes" if card.gpu else "",
    ]
    return "| " + " | ".join(cells) + " |"


def _card(card: Card) -> str:
    from bagwise.methods.catalogue import first_sentence

    lines = [f"## {card.name}", "", card.idea, "", f"- Assumes: {card.assumes}.", f"- Source: {card.cites}."]
    lines.append(f"- Cost: {card.cost}.")
    lines.append("- Presets:")
    lines += [f"  - `{name}`: {first_sentence(factory)}" for name, factory in card.presets.items()]
    if card.search_space:
        lines.append("- Worth searching from outside:")
        lines += [f"  - `{name}`: {_values(values)}" for name, values in card.search_space.items()]
    return "\n".join(lines) + "\n"


def _values(values: list) -> str:
    shown = [repr(value) for value in values[:3]]
    return ", ".join(shown) + (f", ... ({len(values)} values)" if len(values) > 3 else "")


VERBS = (methods,)
