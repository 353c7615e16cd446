"""Encode columns that are not numbers: an indicator per category, season and year of dates, a row per list entry.

Feature names such as ``crop=wheat`` and ``sown_sine`` contain all information that is needed to encode new data alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date

import numpy as np
import pyarrow.compute as pc

from bagwise.bags.frames import NULLS, FrameColumns, as_list, to_numbers
from bagwise.bags.validation import ParameterError, absent, counted, label, name_bags
from bagwise.io.columns import (
    DATE_PARTS,
    Roles,
    any_row,
    find_bags,
    is_auto,
    is_date_kind,
    refuse_no_labels,
    refuse_rows,
    refuse_unknown,
)

OTHER = "other"  # the level of unseen and missing values, and of levels beyond the most frequent
MOST_LEVELS = 50  # largest number of levels of a requested column; the most frequent ones are used
FEW_LEVELS = 20  # largest number of levels of a column that "auto" selects
DOTTED = re.compile(r"^(\d{1,2})\.(\d{1,2})\.(\d{4})")


def encode(table, roles: Roles) -> tuple:
    """Add columns for categories and dates; return the table, roles that name them, the levels by column, and notes."""
    vocabularies, derived_dates = asked_levels(table.names, roles)
    categories = roles.categories
    levels_of: dict[str, tuple[str, ...] | None]
    if isinstance(categories, dict):
        levels_of = {name: tuple(map(str, levels)) for name, levels in categories.items()}
    else:
        levels_of = dict.fromkeys(_few_valued(table, roles) if is_auto(categories) else as_list(categories))
    for parameter, names in (("categories", levels_of), ("dates", as_list(roles.dates))):
        refuse_unknown(table.names, names, parameter=parameter)
        if in_use := [name for name in names if name in (roles.bag, *roles.target_list, roles.weights)]:
            raise ParameterError(
                parameter, f"column {in_use[0]!r} has another role; it cannot be in {parameter} as well"
            )
    levels_of = {name: levels for name, levels in levels_of.items() if name not in vocabularies}
    dates = [name for name in as_list(roles.dates) if name not in derived_dates]
    notes: list[str] = []
    if is_auto(categories) and not levels_of:
        notes.append("no column of text has few enough levels")
    if not (vocabularies or derived_dates or levels_of or dates):
        return table, roles, {}, notes
    columns: dict[str, Callable] = {}
    names_of: dict[str, tuple[str, ...]] = {}
    for name, levels in (vocabularies | levels_of).items():
        indicators, note = _indicators(table, name, levels)
        columns |= indicators
        names_of[name] = tuple(indicators)
        notes += [note] if note else []
    if is_auto(categories) and levels_of:
        named = ", ".join(f"{name!r} ({len(names_of[name]) - 1} levels)" for name in levels_of)
        notes.insert(0, f"taken as categor{'ies' if len(levels_of) > 1 else 'y'}: {named}")
    level_names = dict(names_of)
    for name in [*derived_dates, *dates]:
        parts = _date_parts(table, name, roles)
        columns |= parts
        names_of[name] = tuple(parts)
    if clash := [name for name in columns if name in table.names]:
        raise ParameterError("categories", f"there is a column {clash[0]!r} already; rename it")
    of_bags = [feature for name, names in names_of.items() if name in table.of_bags for feature in names]
    siblings = {feature: names for names in names_of.values() for feature in names}
    table = table.with_columns(columns, of_bags=of_bags, siblings=siblings, computed=True)
    replaced = {name: names_of[name] for name in (*levels_of, *dates)}
    return table, _with_names(roles, replaced, list(columns)), level_names, notes


def asked_levels(names, roles: Roles) -> tuple[dict, list]:
    """Return the levels and dates that feature names such as crop=wheat or sown_year refer to."""
    vocabularies: dict[str, tuple] = {}
    dates = []
    for name in [*roles.feature_list, *roles.covariate_list]:
        if name in names or not isinstance(name, str):
            continue
        base, _, level = name.partition("=")
        while level and base not in names and "=" in level:  # a column with a = in its name
            further, _, level = level.partition("=")
            base = f"{base}={further}"
        stem, _, part = name.rpartition("_")
        if level and base in names:
            vocabularies[base] = (*vocabularies.get(base, ()), level)
        elif part in DATE_PARTS and stem in names and stem not in dates:
            dates.append(stem)
    return vocabularies, dates


def _with_names(roles: Roles, names: dict, computed: list) -> Roles:
    """Return the roles with encoded columns replaced by the features computed from them."""

    def spread(columns) -> list:
        return [made_name for name in columns for made_name in names.get(name, (name,))]

    covariates = spread(roles.covariate_list) or roles.bag_features
    features = None
    if roles.features is not None:
        features = list(dict.fromkeys([*spread(roles.feature_list), *spread(names)]))
    named = {*(features or ()), *(covariates if isinstance(covariates, list) else ())}
    # encoded columns are not features, nor are levels that a list of features does not name, such as crop=other
    unwanted = [*names, *([name for name in computed if features is not None and name not in named])]
    ignore = [name for name in dict.fromkeys([*as_list(roles.ignore), *unwanted]) if name not in as_list(roles.keep)]
    return replace(roles, features=features, bag_features=covariates, ignore=ignore, categories=(), dates=())


def _indicators(table, name, levels) -> tuple[dict[str, Callable], str | None]:
    """Build a column per level and one for all other levels; ``levels=None`` uses the most frequent levels."""
    refuse_no_labels(table, name, "categories")
    codes, labels = table.factorise(name)
    fill_values = (*table.fill_values, *table.fill_texts)
    texts = level_texts(labels, fill_values)
    notes: list[str] = []
    if levels is None:
        levels, notes = frequent_levels(name, labels, np.bincount(codes, minlength=len(labels)), fill_values)
    elif new := [k for k, text in enumerate(texts) if text is not None and text not in (*levels, OTHER)]:
        rows = int(np.bincount(codes, minlength=len(labels))[new].sum())
        notes.append(f"{counted(rows, 'row')} of column {name!r} with other levels (the first is {texts[new[0]]!r})")
    levels = tuple(level for level in levels if level != OTHER)
    place = {level: k for k, level in enumerate(levels)}
    level_of = np.array([place.get(text, len(levels)) for text in texts], dtype=np.int16)[codes]

    columns = {
        f"{name}={level}": lambda k=k: (level_of == k).astype(np.float32) for k, level in enumerate((*levels, OTHER))
    }
    verb = "counts" if len(notes) == 1 and notes[0].startswith("1 row ") else "count"
    return columns, f"{' and '.join(notes)} {verb} as '{name}={OTHER}'" if notes else None


def frequent_levels(name, labels: np.ndarray, counts: np.ndarray, fill_values=()) -> tuple[tuple[str, ...], list[str]]:
    """Return the most frequent levels of a column, from its labels and their counts, and notes."""
    texts, notes = level_texts(labels, fill_values), []
    present = sorted((k for k, text in enumerate(texts) if text is not None), key=lambda k: (-counts[k], texts[k]))
    if not present:
        raise ParameterError("categories", f"column {name!r} has no values; leave it out")
    levels = {str(texts[k]) for k in present[:MOST_LEVELS]} - {OTHER}
    if len(present) > MOST_LEVELS:
        notes.append(f"{len(present) - MOST_LEVELS:,} of {len(present):,} levels of column {name!r}, the rarest,")
    if missing := int(counts[[k for k, text in enumerate(texts) if text is None]].sum()):
        notes.append(f"{counted(missing, 'row')} without a value in column {name!r}")
    numbers = {level: float(level) for level in levels if re.fullmatch(r"-?\d+(\.\d+)?", level)}
    return tuple(sorted(levels, key=lambda level: (level not in numbers, numbers.get(level, 0.0), level))), notes


def level_texts(labels: np.ndarray, fill_values=()) -> list[str | None]:
    """Return labels as in feature names (3.0 as 3); None for missing labels, fill values and texts such as "NA"."""

    def text_of(value) -> str:
        return str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()

    gone = {*NULLS, *map(text_of, fill_values)}
    texts = [(text_of(value), missing) for value, missing in zip(labels.tolist(), absent(labels), strict=True)]
    return [None if missing or text in gone else text for text, missing in texts]


def _few_valued(table, roles: Roles) -> list:
    """Return the text columns with few levels that occur in two bags or more on average; ids and remarks do not."""
    named, columns = roles.asked(), []
    codes, _ = find_bags(table, roles.bag)
    for name in table.names:
        if name in named or table.kind(name) not in ("String", "Categorical"):
            continue
        level, labels = table.factorise(name)
        texts = level_texts(labels, (*table.fill_values, *table.fill_texts))
        present = [k for k, text in enumerate(texts) if text is not None]
        if not 2 <= len(present) <= FEW_LEVELS or is_date_kind(table, name):
            continue
        pairs = np.unique(codes * np.int64(len(labels)) + level)
        if np.isin(pairs % len(labels), present).sum() >= 2 * len(present):
            columns.append(name)
    return columns


def _date_parts(table, name, roles: Roles) -> dict[str, Callable]:
    """Compute the year, and sine and cosine of the day of the year, so that the last day is next to the first."""
    refuse_no_labels(table, name, "dates")
    codes, labels = table.factorise(name)
    plain = labels.astype("datetime64[D]") if labels.dtype.kind == "M" else labels
    texts = level_texts(plain, (*table.fill_values, *table.fill_texts))
    missing = np.array([text is None for text in texts], dtype=bool)
    days = [None if text is None else as_day(text) for text in texts]
    invalid = np.array([day is None for day in days], dtype=bool) & ~missing
    if invalid.any():
        problem = f"{label(labels[invalid.argmax()])} in column {name!r}, which cannot be read as a date"
        way = "; write dates as 2019-04-23"
        refuse_rows(invalid[codes], *find_bags(table, roles.bag), "dates", problem + way)
    dates = np.array(days, dtype="datetime64[D]")  # NaT for None
    years = dates.astype("datetime64[Y]")
    starts = years.astype("datetime64[D]")
    lengths = (years + 1).astype("datetime64[D]") - starts
    angle = np.where(missing, np.nan, 2 * np.pi * (dates - starts).astype(np.float64) / lengths.astype(np.float64))
    year = np.where(missing, np.nan, years.astype(np.int64) + 1970)
    values = {"sine": np.sin(angle), "cosine": np.cos(angle), "year": year}
    return {f"{name}_{part}": (lambda of=of: of[codes]) for part, of in values.items()}


def as_day(text: str) -> date | None:
    """Parse a day such as 2019-04-23, 2019-04-23T10:00, 20190423 or 23.4.2019; return None for other text."""
    try:
        if dotted := DOTTED.match(text):
            day, month, year = map(int, dotted.groups())
            return date(year, month, day)
        return date.fromisoformat(text if text.isdigit() else text[:10])
    except ValueError:
        return None


def spread_lists(table, names: list, codes: np.ndarray, ids: np.ndarray) -> tuple:
    """Return a table with a row per instance, the names of its features, and the bag of each row."""
    lists = {name: table.raw(name) for name in names if table.kind(name) == "list"}
    sizes = _sizes(lists, codes, ids) if lists else np.ones(len(codes), dtype=np.int64)
    codes_of_instances = np.repeat(codes, sizes)
    arrays: dict[str, np.ndarray] = {}
    for name in names:
        if name in lists:
            block = _features(name, pc.list_flatten(lists[name]), codes_of_instances, ids)
        else:
            block = np.repeat(_features(name, table.column(name), codes, ids), sizes, axis=0)
        columns = {name: block} if block.ndim == 1 else {f"{name}_{j}": part for j, part in enumerate(block.T, 1)}
        repeated = arrays.keys() & columns.keys()
        if repeated:
            raise ValueError(f"two features would be named {min(repeated)!r}; rename the column of that name")
        arrays |= columns
    return FrameColumns(arrays, table.fill_values), list(arrays), codes_of_instances


def _sizes(lists: dict, codes: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Return the number of instances of each bag, on which all list columns must agree."""
    if len(ids) < len(codes):
        raise ValueError(
            f"{name_bags(ids, np.bincount(codes) > 1)} several rows, but a list column holds a whole bag in one row; "
            "if each list holds the features of one instance, make it a fixed-size list, or a column per feature"
        )
    sizes_of = {name: _lengths(cells) for name, cells in lists.items()}
    first, sizes = next(iter(sizes_of.items()))
    for name, lengths in sizes_of.items():
        if (lengths <= 0).any():
            raise ValueError(
                f"{name_bags(ids, lengths <= 0)} no list, or an empty one, in column {name!r}; "
                "every bag needs at least one instance: leave such bags out"
            )
        if (lengths != sizes).any():
            i = (lengths != sizes).argmax()
            raise ValueError(
                f"{name_bags(ids, lengths != sizes)} lists of different lengths: {sizes[i]} values in column "
                f"{first!r}, {lengths[i]} in column {name!r}; every instance needs a value in both"
            )
    return sizes


def _features(name, cells, codes: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Convert one cell per instance (a number, or a list of numbers) to a 1-D or 2-D array."""
    if not hasattr(cells.type, "value_type"):
        return to_numbers(cells)
    widths = _lengths(cells)
    width = int(widths.max())
    if width < 1 or (widths != width).any():
        raise ValueError(
            f"{name_bags(ids, any_row((widths < 1) | (widths != width), codes, ids))} instances without a full list of "
            f"features in column {name!r}; every instance needs the same number of features (the longest list has "
            f"{max(width, 0)})"
        )
    return _features(name, pc.list_flatten(cells), codes, ids).reshape(-1, width)


def _lengths(cells) -> np.ndarray:
    """Return the length of each list; -1 for null."""
    return pc.fill_null(pc.list_value_length(cells), -1).to_numpy(zero_copy_only=False).astype(np.int64)
