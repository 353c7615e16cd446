"""Write the page of methods from the catalogue: ``python docs/extensions/methods_page.py > docs/methods.md``."""

from bagwise.methods import CATALOGUE, Card
from bagwise.methods.catalogue import QUESTIONS, RECOMMENDED, first_sentence

HEAD = """# Methods

Each method is `bw.method(name)`, an unfitted scikit-learn estimator.
Three methods are recommended:

| method | when to use it |
|---|---|
| [`auto`](#auto) | You do not know which method fits. It compares about ten and blends the best ([how](auto.md)). |
| [`instance-kme`](#instance-kme) | Each instance says something about the target, and you want one method to explain. |
| [`input-kme`](#input-kme) | The target depends smoothly on the distribution of the instances. It trains no networks. |

The others answer narrower questions:

"""
PICTURE = """
Each method has a card below.
In the costs, N is the number of instances, B of bags, L of instances per bag and d of features; D is the number of
folds. [Pitfalls](pitfalls.md#outside-the-range-of-training) explains what happens to values outside the training range.
[Why not group means and a forest? Why not AutoGluon?](why.md) compares the recommended methods with alternatives.

## When each method wins

A number is the error on new bags divided by the smallest error on that simulation; bold is within 5 % of the smallest.
Methods are sorted by their typical error.

![Errors of each method on eight simulations](pictures/which-method.png)

- *Pixels, clouds* is the aerosol simulation, in which a few new bags have targets far above those of training.
- *Spread*: the target is the spread of the instances along one direction.
- *One key instance*: the instance that decides can be recognised by its features.
  *One hidden instance*: the target is linear in one instance, and the others have a wider distribution.
- Methods in italics are not part of bagwise; they are described in [the league](league.md).

[The benchmarks](benchmarks.md#when-each-method-wins) have the command, and [the comparison](comparison.md) has errors
on eleven further data sets, four of them real.

```{toctree}
:hidden:

why
auto
aggregate_gp
reproduction
```
"""
GIVES = {
    "std": "standard deviations (`predict(bags, return_std=True)`)",
    "weights": "instance weights",
    "contributions": "contributions of instances",
}


def methods_page() -> str:
    """Return the page in Markdown: the recommended methods, the others by question, and a card per method."""
    by_question = {question: [] for question in QUESTIONS}
    for card in CATALOGUE.values():
        by_question[card.question].append(card)
    narrower = [(question, cards) for question, cards in by_question.items() if question != RECOMMENDED]
    contents = [f"- {question} {_links(cards)}\n" for question, cards in narrower]
    parts = ["".join([HEAD, *contents, PICTURE])]
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
