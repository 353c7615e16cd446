"""A look at a table before anything is learned from it: what it holds, what would be done with it, what looks wrong."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any

import numpy as np

from bagwise.bags.folds import split_bags
from bagwise.bags.frames import ArraysByName, FrameColumns, as_list
from bagwise.bags.shared_rows import find_shared_rows
from bagwise.bags.validation import LARGEST, Message, Parameter, ParameterError, absent, label, name_bags
from bagwise.io.columns import (
    CHECKS,
    Roles,
    alike_ids,
    choose_features,
    column_checks,
    describe_suspects,
    doubtful_texts,
    is_date_kind,
    look_like_dates,
    refuse_not_numeric,
    suspects,
    varying,
)
from bagwise.io.encodings import encode
from bagwise.io.load import load, names_files
from bagwise.io.table_files import zero_padded
from bagwise.io.table_output import MOST_ROWS, as_html, from_rows
from bagwise.io.tables import join, read_files

FEWEST = 10  # bags from which on an error can be estimated
MOST = 5  # names listed in one finding


@dataclass(frozen=True)
class Finding:
    """Something to know: an "error" stops `load` or `fit`, a "warning" is probably not meant, a "note" is as it is."""

    level: str
    text: str


@dataclass(repr=False)
class Inspection:
    """What a table holds. ``ok`` says whether `load` takes it with the same options."""

    rows: int = 0
    bags: int = 0
    sizes: tuple[int, float, int] = (0, 0.0, 0)  # smallest, median, largest
    features: list[dict] = field(default_factory=list)
    bag_features: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    target: dict | None = None
    further_targets: list[dict] = field(default_factory=list)
    groups: int | None = None
    folds: str | None = None
    shared_rows: dict | None = None  # instances that occur in several bags, and the bags that they connect
    findings: list[Finding] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not any(finding.level == "error" for finding in self.findings)

    def add(self, level: str, text: str) -> None:
        self.findings.append(Finding(level, text))

    def sort(self) -> None:
        """Put errors first, then warnings, then notes."""
        self.findings.sort(key=lambda finding: ("error", "warning", "note").index(finding.level))

    @property
    def verdict(self) -> str:
        """Whether the table would be taken, as a sentence."""
        doubtful = any(finding.level == "warning" for finding in self.findings)
        taken = "taken; look at the warnings first" if doubtful else "taken as it is"
        return f"This table would be {taken if self.ok else 'refused'}."

    def describe(self) -> list[str]:
        """Return a line each for rows, features, covariates, target, groups and other columns."""
        if not self.rows:
            return []
        low, median, high = self.sizes
        lines = [f"{self.rows:,} rows make {self.bags:,} bags of {low:,} to {high:,} instances (median {median:g})."]
        if self.features:
            missing = sum(feature["missing"] for feature in self.features)
            names = ", ".join(feature["name"] for feature in self.features[:8])
            more = f", ... ({len(self.features)} in all)" if len(self.features) > 8 else ""
            lines.append(f"Features: {names}{more}; {missing:,} missing values.")
        if self.bag_features:
            lines.append(f"Properties of the bag: {', '.join(self.bag_features)}.")
        for target in [self.target, *self.further_targets] if self.target else []:
            lines.append("Target: {name}, {minimum:g} to {maximum:g}, median {median:g}.".format(**target))
        if self.groups is not None:
            lines.append(f"Groups: {self.groups:,}.")
        if self.folds is not None:
            lines.append(f"Folds: {self.folds}.")
        if self.left_out:
            lines.append("Left out: " + ", ".join(f"{name} ({why})" for name, why in self.left_out.items()) + ".")
        return lines

    def __repr__(self) -> str:
        findings = [f"{finding.level}: {finding.text}" for finding in self.findings]
        return "\n".join([*self.describe(), *findings, self.verdict])

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: the same lines, the errors and warnings in bold, and the features."""
        lines = [escape(line) for line in self.describe()]
        for finding in self.findings:
            text = f"{finding.level}: {escape(finding.text)}"
            lines.append(text if finding.level == "note" else f"<strong>{text}</strong>")
        features = as_html(from_rows(self.features[:MOST_ROWS])) if self.features else ""
        return f"<p>{'<br>'.join([*lines, self.verdict])}</p>{features}"

    def to_dict(self) -> dict:
        """Convert to plain numbers and text, for JSON."""
        return asdict(self) | {"ok": self.ok}


def check_table(source, *, bag=None, target=None, folds=None, **options) -> Inspection:
    """Look at a table as `load` would, and go on after the first thing that is wrong.

    Parameters
    ----------
    source : data frame, path, pattern, folder, URL, or list of paths
    bag : column of bag ids
        Without it, only the columns are looked at.
    target : column of targets, optional
    folds : int, "random", "forward", "given" or Validation, optional
        How the bags would be split; the default is what ``time`` and ``fold`` declare.
    **options
        The other parameters of `load`, by name: features, ignore, groups, missing, fill_values, weights, bag_features,
        variable, keep, decimal, time, fold.

    Examples
    --------
    >>> import pandas as pd, bagwise as bw
    >>> frame = pd.DataFrame({"site": [1, 1, 2], "red": [1.0, 2.0, 2.5], "day": 20190423, "aod": [0.1, 0.2, 0.3]})
    >>> found = bw.check_table(frame, bag="site", target="aod")
    >>> found.bags, found.ok
    (2, False)
    >>> found.findings[0].text
    "bag 1 has more than one target in column 'aod' (0.1 and 0.2); a bag has one target, the same on all its rows"
    """
    found = examine(source, bag=bag, target=target, **options)
    if found.ok:  # `load` decides; its warnings are among the findings already
        try:
            with warnings.catch_warnings(action="ignore", category=UserWarning):
                bags, _ = load(source, bag=bag, target=target, **options)
            _look_at_shared_rows(found, bags)
            _look_at_folds(found, bags, folds)
        except (ValueError, TypeError) as error:
            found.findings.insert(0, Finding("error", _text(error)))
    return found


def _look_at_folds(found: Inspection, bags, folds) -> None:
    """Describe the folds that are declared or asked for; those that cannot be made are an error."""
    if folds is None and (bags.validation is None or bags.validation.scheme == "random"):
        return
    made = split_bags(bags, "auto" if folds is None else folds)
    n_held_out = int(made.held_out.sum())
    found.folds = f"{len(made)} folds, {n_held_out:,} of {len(bags):,} bags held out"


def _look_at_shared_rows(found: Inspection, bags) -> None:
    if bags.groups is not None:
        found.groups = len(set(bags.groups.tolist()))
    shared = find_shared_rows(bags)
    if shared.n_shared and not shared.by_chance:
        found.shared_rows = {
            "instances": shared.n_shared,
            "share": shared.share,
            "bags": shared.n_linked,
            "largest_set": shared.largest,
            "copies": shared.n_copies,
        }
        level = "warning" if shared.notable else "note"
        found.add(level, shared.describe() if shared.notable else f"{shared.figures()}.")
        found.sort()


def _text(error: Exception) -> str:
    return error.args[-1] if isinstance(error, ParameterError) else str(error)


def examine(source, *, bag=None, target=None, files=None, **options) -> Inspection:
    """Look at what `load` has taken already: no bags are built. ``files`` are those that a frame was read from."""
    found = Inspection()
    files = source if names_files(source) else files
    try:
        columns = _columns(source, bag, target, options)
        _look(found, *columns, options.get("missing"), {} if files is None else zero_padded(files))
    except (ValueError, TypeError) as error:
        found.add("error", _text(error))
    found.sort()
    return found


def _columns(source, bag, target, options) -> tuple[Any, Roles]:
    """Return the columns of a source and their roles; archives are spread out into columns."""
    apart = ("missing", "fill_values", "variable", "decimal", "time", "fold")
    columns = {name: value for name, value in options.items() if name not in apart}
    labels = {name: options[name] for name in ("time", "fold") if options.get(name) is not None}
    roles = Roles(bag=bag, target=target, labels=labels, **columns)
    decimal = options.get("decimal", ".")
    table = read_files(source, roles, decimal=decimal) if names_files(source) else source
    if table is not None:
        return FrameColumns(table, options.get("fill_values", ()), decimal), roles
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # told below
        bags, y = load(source, bag=bag, target=target, **options | {"missing": "keep"})
    names = bags.feature_names or [f"x{j + 1}" for j in range(bags.n_features)]
    columns = {"bag": bags.expand(bags.ids)} | dict(zip(names, bags.instances.T, strict=True))
    columns |= {} if y is None else {"target": bags.expand(y)}
    return FrameColumns(ArraysByName(columns)), Roles(bag="bag", target=None if y is None else "target")


def _look(found: Inspection, table, roles: Roles, missing: str | None, padded: dict[str, str]) -> None:
    if table.n_rows and roles.targets is not None:
        table, roles, notes = join(table, roles)
        found.findings += [Finding("warning", note) for note in notes]
    encoded = [*roles.category_list, *as_list(roles.dates)]
    table, roles, categories, notes = encode(table, roles)
    encoded += list(categories)
    found.findings += [Finding("warning", note) for note in notes]
    names = choose_features(table, roles)
    found.bag_features = roles.covariate_list
    names = [name for name in names if name not in found.bag_features]
    found.rows = table.n_rows
    if table.n_rows == 0:
        return
    codes, ids = table.factorise(roles.bag)
    remain = np.ones(len(codes), dtype=bool)
    for name in names if missing == "drop-instances" else []:
        if table.kind(name) == "number":
            remain &= np.isfinite(table.numbers(name))
    if not remain.all():
        lost, found.rows = table.n_rows - np.count_nonzero(remain), int(np.count_nonzero(remain))
        bags = len(np.unique(codes[~remain]))
        found.add(
            "warning", f"{lost:,} of {table.n_rows:,} rows, in {bags:,} bags, have missing values and are dropped"
        )
    _look_at_bags(found, roles.bag, codes[remain], ids)
    for target in roles.target_list:
        _look_at_target(found, table, target, codes, ids, some=len(roles.target_list) > 1)
    if roles.groups is not None:
        found.groups = len(table.factorise(roles.groups)[1])
    _look_at_features(found, table, names, codes, ids, next(iter(roles.target_list), None))
    _look_at_double_roles(found, roles, names, padded)
    used, ignored = {*names, *roles.taken, *found.bag_features, *encoded, *as_list(roles.keep)}, as_list(roles.ignore)
    doubts = {} if roles.features is not None else doubtful_texts(table, {*used, *ignored})
    found.findings += [Finding(level, doubt) for level, doubt in doubts.values()]
    _look_at_the_rest(found, table, used, ignored, doubts)


def _look_at_bags(found: Inspection, bag, codes, ids) -> None:
    sizes = np.bincount(codes, minlength=len(ids))
    found.bags, found.sizes = len(ids), (int(sizes.min()), float(np.median(sizes)), int(sizes.max()))
    unknown = absent(ids)
    if unknown.any():
        found.add("error", f"{sizes[unknown].sum():,} rows have no bag id in column {bag!r}; fill it in or drop them")
    if len(ids) == 1:
        found.add("error", f"column {bag!r} puts all rows into one bag; fit needs at least two")
    elif len(ids) < FEWEST:
        found.add(
            "warning",
            f"there are only {len(ids)} bags, so no error of a model can be estimated; use at least {FEWEST}",
        )
    elif sizes.max() == 1:
        found.add("warning", f"every row is a bag of its own; is {bag!r} the column that says what belongs together?")
    if doubt := alike_ids(ids):
        found.add("warning", doubt)
    if look_like_dates(ids):
        found.add(
            "warning",
            f"bag ids such as {label(ids[0])} look like dates read as numbers; what happened on one day is one bag, "
            "at every place: join the date with the place if that is not meant",
        )


def _look_at_target(found: Inspection, table, target, codes, ids, *, some: bool = False) -> None:
    try:
        refuse_not_numeric(table, target, "the target", "target")
    except ValueError as error:
        found.add("error", _text(error))
        return
    values = np.asarray(table.numbers(target), dtype=np.float64)
    known = np.abs(values) <= LARGEST
    if not known[~np.isnan(values) | (not some)].all():
        missing = np.bincount(codes[~known], minlength=len(ids)) > 0
        found.add("error", f"{name_bags(ids, missing)} a missing or infinite target in column {target!r}; drop it")
    differs = varying(values, codes, len(ids))
    if differs.any():
        of_first = values[(codes == differs.argmax()) & ~np.isnan(values)]
        both = f"{float(of_first[0])} and {float(of_first[of_first != of_first[0]][0])}"
        text = f"{name_bags(ids, differs)} more than one target in column {target!r} ({both})"
        found.add("error", f"{text}; a bag has one target, the same on all its rows")
    distinct = np.unique(values[known])
    if len(distinct) == 1:
        found.add("error", f"every bag has the same target, {distinct[0]:g}, so there is nothing to learn")
    elif len(distinct) == 2:
        found.add("note", f"the target has two values, {distinct[0]:g} and {distinct[1]:g}: it looks like a class")
    if len(distinct):
        first = np.unique(codes[known], return_index=True)[1]  # one row of every bag
        spread = {"minimum": distinct[0], "median": np.median(values[known][first]), "maximum": distinct[-1]}
        told = {"name": str(target)} | {name: float(value) for name, value in spread.items()}
        if found.target is None:
            found.target = told
        else:
            found.further_targets.append(told)


def _look_at_features(found: Inspection, table, names, codes, ids, target) -> None:
    y = None
    if target is not None and table.kind(target) == "number":
        y = np.asarray(table.numbers(target), dtype=np.float64)
    kinds: dict[str, list] = {}
    filled = {} if y is None or not (own := suspects(y)) else {str(target): own}
    for name in names:
        if table.kind(name) not in ("number", "boolean"):  # a column of lists: its values are seen when it is loaded
            found.features.append({"name": str(name), "missing": 0, "minimum": None, "maximum": None})
            continue
        values = np.asarray(table.numbers(name), dtype=np.float64)
        finite = values[np.isfinite(values)]
        low, high = (float(finite.min()), float(finite.max())) if len(finite) else (None, None)
        missing = int(np.isnan(values).sum())
        found.features.append({"name": str(name), "missing": missing, "minimum": low, "maximum": high})
        for kind in column_checks(name, values, finite, codes, len(ids), y):
            kinds.setdefault(kind, []).append(name)
        if own := suspects(finite):
            filled[str(name)] = own
    for kind, marked in kinds.items():
        level, text = CHECKS[kind]
        found.add(level, Message(f"{_names(marked)}: ", text))
    if filled:
        found.add("warning", describe_suspects(filled))


def _look_at_double_roles(found: Inspection, roles: Roles, names, padded: dict[str, str]) -> None:
    if roles.groups in names:
        found.add(
            "note",
            f"column {roles.groups!r} is both the group and a feature: held-out groups have values that were not in "
            "training; leave it out of the features if that is not meant",
        )
    for name in names:
        if name in padded:
            found.add(
                "note",
                f"column {name!r} is a feature, but writes numbers with leading zeros such as {padded[name]}: it looks "
                "like an id or a code; leave it out, or take it as a category, if that is not meant",
            )


def _look_at_the_rest(found: Inspection, table, used, ignored, told) -> None:
    for name in table.names:
        if name not in used:
            kind = table.kind(name)
            found.left_out[str(name)] = "ignored" if name in ignored else "not asked for" if kind == "number" else kind
    known = ("ignored", "not asked for", "boolean")
    texts = [name for name, kind in found.left_out.items() if kind not in known and name not in map(str, told)]
    dates = [name for name in texts if is_date_kind(table, name)]
    texts = [name for name in texts if name not in dates]
    if texts:
        way = Parameter("categories", texts[:1]), " takes what has levels"
        found.add("note", Message(f"{_names(texts)}: not numeric, so left out; ", *way))
    if dates:
        way = Parameter("dates", dates[:1]), " uses its season and year"
        found.add("note", Message(f"{_names(dates)}: dates, not numeric, so left out; ", *way))


def _names(names) -> str:
    shown = ", ".join(repr(str(name)) for name in names[:MOST])
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return f"column{'s' if len(names) > 1 else ''} {shown}{more}"
