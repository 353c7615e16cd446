"""The catalogue of methods: the name, assumptions, source and factory of each."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sklearn.base import clone

from bagwise.instances.out_of_fold import seeded

CATALOGUE: dict[str, Card] = {}
# What a method is chosen for, in the order of lists. The recommended ones come first, the others by a question.
RECOMMENDED = "Recommended"
MEAN = "Is the mean of the bag enough?"
SHAPE = "Does the shape of the bag matter: its spread, tails or modes?"
VALUES = "What is the value of each instance?"
FEW = "Do one or a few instances of a bag decide?"
SIZES = "Do bags differ in size, so that small ones are less certain?"
QUESTIONS = (RECOMMENDED, MEAN, SHAPE, VALUES, FEW, SIZES)


@dataclass(frozen=True)
class Card:
    """Description of a method: its assumptions, source and factories.

    Attributes
    ----------
    name, idea : str
        The name passed to `bagwise.method`, and one sentence that explains the method.
    assumes, cites, cost : str
        The assumption about the instances of a bag, the source, and how run time grows with N instances, B bags and d
        features.
    presets : dict of str to function
        Functions (random_state, n_jobs) -> unfitted estimator; the first is the default.
    question : str
        What the method is chosen for, one of ``QUESTIONS``.
    search_space : dict of str to list
        Values to try for each parameter; `evaluate` does not search a parameter that a preset sets.
    searched : tuple of str
        Presets whose values are only starting points, and are searched as well.
    gives : tuple of str
        What the last step offers besides ``predict``: "std" (``predict(bags, return_std=True)``), "weights"
        (``instance_weights(bags)``), "contributions" (``contributions(bags)``).
    gpu : bool
        Whether it uses a GPU if there is one.
    """

    name: str
    idea: str
    assumes: str
    cites: str
    cost: str
    presets: dict[str, Callable[..., Any]]
    question: str = ""
    search_space: dict[str, list] = field(default_factory=dict)
    searched: tuple[str, ...] = ()
    gives: tuple[str, ...] = ()
    gpu: bool = False

    @property
    def preset_names(self) -> list[str]:
        return list(self.presets)


def variant(text: str, factory: Callable[..., Any], *first, **fixed) -> Callable[..., Any]:
    """Return a factory with some parameters fixed, described by ``text``."""

    def make(**options):
        return factory(*first, **fixed, **options)

    make.__doc__ = text
    return make


def first_sentence(factory) -> str:
    """Return the description of a preset, the first paragraph of its docstring."""
    text = inspect.getdoc(getattr(factory, "func", factory)) or ""
    return " ".join(text.split("\n\n")[0].split())


def register(*cards: Card) -> None:
    for card in cards:
        if card.name in CATALOGUE:
            raise ValueError(f"the catalogue has a method {card.name!r} already")
        CATALOGUE[card.name] = card


def method_card(name: str) -> Card:
    """Return the card of a method: its idea, citation, assumptions, cost and presets.

    Parameters
    ----------
    name : str
        One of `method_names()`.

    Returns
    -------
    Card

    Examples
    --------
    >>> import bagwise as bw
    >>> bw.method_card("instance-kme").preset_names[:2]
    ['default', 'single']
    """
    if name not in CATALOGUE:
        words = re.split(r"[\W_]+", str(name).lower())
        close = difflib.get_close_matches(str(name), CATALOGUE, n=1)
        close += [f"{card.name}:{preset}" for card in CATALOGUE.values() for preset in card.presets if preset in words]
        hint = f"; did you mean {close[0]!r}?" if close else "."
        raise ValueError(f"there is no method {name!r}{hint} The methods are: {', '.join(CATALOGUE)}")
    return CATALOGUE[name]


def find(text: str, preset: str | None = None) -> tuple[Card, str]:
    """Return the card and the preset of "name" or "name:preset"; the default preset if none is given."""
    name, _, suffix = text.partition(":") if isinstance(text, str) else (text, "", "")
    card = method_card(name)
    if suffix and preset not in (None, suffix):
        raise ValueError(f"{text!r} names a preset, and preset={preset!r} is another; give one of them")
    preset = preset or suffix or card.preset_names[0]
    if preset not in card.presets:
        raise ValueError(f"{name} has no preset {preset!r}; it has {', '.join(map(repr, card.presets))}")
    return card, preset


def method(name: str, *, preset: str | None = None, random_state: int = 0, n_jobs: int | None = None, **options):
    """Build an unfitted scikit-learn estimator for bags by the name of a method.

    Parameters
    ----------
    name : str
        One of `method_names()`, or "name:preset".
    preset : str, optional
        A variant of the method, such as "paper" for "instance-kme"; by default the first of its card.
    random_state : int, default=0
        The same seed gives the same answer on the same kind of CPU, whatever ``n_jobs``.
    n_jobs : int, optional
        Number of cores to use; -1 for all.
    **options
        Parameters of the estimator, such as ``method("auto", time_budget=60)``.

    Returns
    -------
    estimator
        A bag regressor, often a `BagPipeline`.

    Examples
    --------
    >>> import bagwise as bw
    >>> bags, y = bw.datasets.make_gaussian(30, instances=5)
    >>> model = bw.method("aggregated").fit(bags, y)
    >>> model.predict(bags).shape
    (30,)
    """
    card, preset = find(name, preset)
    estimator = card.presets[preset](random_state=random_state, n_jobs=n_jobs)
    if options:
        estimator.set_params(**options)
    estimator._method_name = card.name if preset == card.preset_names[0] else f"{card.name}:{preset}"
    return estimator


def method_names() -> list[str]:
    """Return the names of all methods.

    Returns
    -------
    list of str

    Examples
    --------
    >>> import bagwise as bw
    >>> "instance-kme" in bw.method_names()
    True
    """
    return list(CATALOGUE)


@dataclass(frozen=True)
class NamedMethod:
    """A name with a function seed -> unfitted estimator: a preset of a `Card`, or an estimator of the user."""

    name: str
    make: Callable[[int], Any]

    @classmethod
    def of(cls, item, **more):
        """Build from "name" or "name:preset", or from a pair (name, estimator), which is cloned and seeded."""
        if isinstance(item, str):
            find(item)  # refuse an unknown name before anything is fitted
            return cls(item, lambda seed: method(item, random_state=seed), **more)
        name, estimator = item
        return cls(name, lambda seed: seeded(clone(estimator), seed), **more)

    @staticmethod
    def check_unique_names(methods: list[NamedMethod], noun: str) -> None:
        """Raise an error if two methods have the same name."""
        names = [entry.name for entry in methods]
        duplicates = sorted({name for name in names if names.count(name) > 1})
        if duplicates:
            raise ValueError(f"two {noun}s are called {duplicates[0]!r}; give each its own name: (name, estimator)")


def auto(*, random_state=0, n_jobs=None, **options):
    """Cross-validate about ten methods on the same folds of bags, and blend those that lower the held-out error."""
    from bagwise.auto import AutoRegressor  # imported late, because its members are methods of the catalogue

    return AutoRegressor(random_state=random_state, n_jobs=n_jobs, **options)


register(
    Card(
        name="auto",
        idea="Try different methods on the same folds of bags, and blend those that lower the held-out error.",
        question=RECOMMENDED,
        assumes="nothing: held-out bags decide which assumption fits",
        cites="Wolpert (1992); Breiman (1996), Stacked regressions",
        cost="that of all members times the number of folds; a time_budget limits it",
        presets={
            "default": auto,
            "quick": variant("No networks: seconds for a few hundred bags.", auto, members="quick"),
            "best": variant(
                "More members, each on all folds, and three repeats of the folds: many times the work.",
                auto,
                members="best",
                repeats=3,
            ),
            "additive": variant(
                "Only members whose prediction of a bag is an exact sum over its instances.", auto, members="additive"
            ),
        },
    )
)
