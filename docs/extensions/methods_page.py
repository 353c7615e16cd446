"""Write the page of methods from the catalogue: ``python docs/extensions/methods_page.py > docs/methods.md``."""

from bagwise.methods import CATALOGUE, Card
from bagwise.methods.catalogue import QUESTIONS, first_sentence

HEAD = """# The methods

Each method is `bw.method(name)`, an unfitted scikit-learn estimator.
Three are recommended; the others are listed by the question that they answer.

{contents}

In the costs, N is the number of instances, B of bags, L of instances per bag and d of features;
D is the number of folds.
[Pitfalls](pitfalls.md#outside-the-range-of-training) explains what happens to values outside the training range.
"""
GIVES = {
    "std": "standard deviations (`predict(bags, return_std=True)`)",
    "weights": "instance weights",
    "contributions": "contributions of instances",
}


def methods_page() -> str:
    """Return the page in Markdown: a list of the methods by question, and a card per method."""
    by_question = {question: [] for question in QUESTIONS}
    for card in CATALOGUE.values():
        by_question[card.question].append(card)
    contents = [f"- {question} {_links(cards)}" for question, cards in by_question.items()]
    parts = [HEAD.format(contents="\n".join(contents).replace("Recommended ", "Recommended: "))]
    for question, cards in by_question.items():
        parts += [f"## {question}\n", *map(card_text, cards)]
    return "\n".join(parts)


def _links(cards: list[Card]) -> str:
    return ", ".join(f"[{card.name}](#{card.name})" for card in cards)


def card_text(card: Card) -> str:
    """Return the card of a method in Markdown."""
    lines = [f"### {card.name}", "", card.idea, "", f"- Assumes: {card.assumes}.", f"- Source: {card.cites}."]
    lines.append(f"- Cost: {card.cost}.{' It uses a GPU if there is one.' if card.gpu else ''}")
    if card.gives:
        lines.append(f"- Also gives: {', '.join(GIVES[kind] for kind in card.gives)}.")
    lines.append("- Presets:")
    lines += [f"  - `{name}`: {first_sentence(factory)}" for name, factory in card.presets.items()]
    if card.search_space:
        lines.append("- Parameters to search:")
        lines += [f"  - `{name}`: {_values(values)}" for name, values in card.search_space.items()]
    return "\n".join(lines) + "\n"


def _values(values: list) -> str:
    shown = [repr(value) for value in values[:3]]
    return ", ".join(shown) + (f", ... ({len(values)} values)" if len(values) > 3 else "")


if __name__ == "__main__":
    print(methods_page(), end="")
