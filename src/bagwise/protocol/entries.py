"""What is compared: catalogue methods by name, or estimators of one's own with a label."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

from sklearn.base import clone

from bagwise.devices import settled
from bagwise.instances.out_of_fold import seeded
from bagwise.methods import Card, method
from bagwise.methods.catalogue import find
from bagwise.protocol.describing import describe
from bagwise.protocol.selection import as_settings, chooses_by_itself


@dataclass(frozen=True)
class Entry:
    """A label, a function seed -> unfitted estimator, and the settings to search from outside (one empty: none)."""

    label: str
    make: Callable[[int], Any]
    settings: tuple[dict, ...] = ({},)


def as_entries(methods, *, tune: bool = True) -> list[Entry]:
    """Entries of names ("aggregated", "instance-kme:paper"), (label, estimator) or (label, estimator, search space).

    A catalogue method gets the seed, and is searched over the space of its card unless it chooses by itself or ``tune``
    is False; what a preset sets stays as it sets it. An estimator is used as it is, except that a ``random_state`` of
    None becomes the seed.
    """
    methods = [methods] if isinstance(methods, str) or _is_pair(methods) else list(methods)
    if not methods:
        raise ValueError("there is no method to evaluate; give names such as 'aggregated', or (label, estimator)")
    entries = [_entry(item, tune) for item in methods]
    labels = [entry.label for entry in entries]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise ValueError(f"two methods are called {twice[0]!r}; give each its own label: (label, estimator)")
    return entries


def on_device(entry: Entry, device: str | None) -> Entry:
    """The entry with every part that has a ``device`` moved to this one; None leaves all where they are."""
    if device is None:
        return entry
    settled(device, worth=False)  # refuses a device that is not there, before any cell does

    def make(seed: int):
        estimator = entry.make(seed)
        parts = [name for name in estimator.get_params(deep=True) if name.split("__")[-1] == "device"]
        return estimator.set_params(**dict.fromkeys(parts, device))

    return replace(entry, make=make)


def _entry(item, tune: bool) -> Entry:
    if isinstance(item, Entry):
        return item
    return _named(item, tune) if isinstance(item, str) else _own(item)


def _named(text: str, tune: bool) -> Entry:
    found, preset = find(text)
    if found.needs is not None and find_spec(found.needs) is None:
        raise ImportError(f"{found.name} needs {found.needs}: pip install 'bagwise[{found.needs}]'")

    def make(seed: int):
        return method(text, random_state=seed)

    estimator = make(0)
    searched = tune and not chooses_by_itself(estimator)
    free = _free_parameters(found, preset, estimator) if searched else ()
    return Entry(text, make, as_settings({name: found.search_space[name] for name in free}))


def _free_parameters(found: Card, preset: str, estimator) -> list[str]:
    """Those of the search space that the estimator has, and that its preset leaves as they are in the plain method."""
    known = estimator.get_params(deep=True)
    plain = known if preset in found.searched else method(found.name, random_state=0).get_params(deep=True)
    names = [name for name in found.search_space if name in known and name in plain]
    return [name for name in names if describe(known[name]) == describe(plain[name])]


def _own(item) -> Entry:
    if not _is_pair(item):
        raise TypeError(f"a method is a name, (label, estimator) or (label, estimator, search space), not {item!r}")
    label, estimator, *space = item
    return Entry(label, lambda seed: seeded(clone(estimator), seed), as_settings(space[0] if space else {}))


def _is_pair(item) -> bool:
    return (
        isinstance(item, tuple)
        and len(item) in (2, 3)
        and isinstance(item[0], str)
        and hasattr(item[1], "fit")
        and not isinstance(item[1], type)
    )
