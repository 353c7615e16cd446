"""The report of `bagwise check`: the columns of a table, how `load` would use them, and possible problems."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass, field
from html import escape

import numpy as np

from bagwise.bags.folds import split_bags
from bagwise.bags.frames import FrameColumns, as_list, names_files
from bagwise.bags.shared_rows import find_shared_rows
from bagwise.bags.validation import counted, label
from bagwise.io.columns import (
    Roles,
    alike_ids,
    choose_features,
    describe_suspects,
    describe_unused,
    differs_from_first,
    find_bags,
    first_rows,
    name_columns,
    one_target,
    suspects,
)
from bagwise.io.encodings import as_day
from bagwise.io.load import READING, load, prepare, refuse_constant_target
from bagwise.io.table_files import read_files, zero_padded
from bagwise.io.table_output import MOST_ROWS, as_html, from_rows

FEWEST = 10  # smallest number of bags for which an error can be estimated
SPLITS = ("fold", "folds", "split", "cv", "partition")  # column names that suggest a split, not a feature

# Checks of a feature column: name -> (level, text) of the finding.
CHECKS = {
    "infinite": ("error", "infinite values; replace them, or leave those rows out with missing='drop-instances'"),
    "missing": ("note", "missing values; missing= refuses, drops or keeps those rows"),
    "empty": ("error", "no values; ignore it"),
    "constant": ("note", "the same value in all rows, so it cannot improve predictions"),
    "target": ("warning", "equal to the target, so it reveals the answer; ignore it if it is a copy"),
    "dates": ("warning", "looks like dates read as numbers, and would be a feature; ignore it if you do not want that"),
    "split": ("warning", "named like a split of the bags, and would be a feature; ignore it if you do not want that"),
    "counter": ("warning", "counts the rows, and would be a feature; ignore it if you do not want that"),
    "bag-level": ("note", "constant within every bag, so it describes the bag; it can be declared as a bag feature"),
}


@dataclass(frozen=True)
class Finding:
    """A finding: an "error" stops `load` or `fit`, a "warning" points to a likely mistake, a "note" is information."""

    level: str
    text: str


@dataclass(repr=False)
class Inspection:
    """The result of `check_table`. ``ok`` is whether `load` accepts the table with the same options."""

    rows: int = 0
    bags: int = 0
    sizes: tuple[int, float, int] = (0, 0.0, 0)  # smallest, median, largest
    features: list[dict] = field(default_factory=list)
    bag_features: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    targets: list[dict] = field(default_factory=list)
    groups: int | None = None
    folds: str | None = None
    shared_rows: dict | None = None  # instances that occur in several bags
    findings: list[Finding] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not any(finding.level == "error" for finding in self.findings)

    def add(self, level: str, text: str | Exception) -> None:
        """Add a finding; errors come first, then warnings, then notes."""
        self.findings.append(Finding(level, str(text)))
        self.findings.sort(key=lambda finding: ("error", "warning", "note").index(finding.level))

    @property
    def verdict(self) -> str:
        """Whether the table can be used, as a sentence."""
        doubtful = any(finding.level == "warning" for finding in self.findings)
        verdict = "can be used; read the warnings first" if doubtful else "can be used as it is"
        return f"This table {verdict if self.ok else 'cannot be used'}."

    def describe(self) -> list[str]:
        """Return a line each for rows, features, bag features, targets, groups, folds and other columns."""
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
            lines.append(f"Bag features: {', '.join(self.bag_features)}.")
        for target in self.targets:
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
    """Check a table as `load` would read it, and list all problems instead of stopping at the first.

    Parameters
    ----------
    source : data frame, path, pattern, folder, URL, or list of paths
    bag : column of bag ids
        Without it, only an error that names the columns is reported.
    target : column of targets, optional
    folds : int, "random", "forward", "given" or Validation, optional
        How the bags would be split; the default is what ``time`` and ``fold`` declare.
    **options
        Any other parameter of `load`, such as features, groups, missing or targets.

    Returns
    -------
    Inspection
        Its ``findings`` are sorted by level: errors, warnings, notes.

    Examples
    --------
    >>> import pandas as pd, bagwise as bw
    >>> frame = pd.DataFrame({"site": [1, 1, 2], "red": [1.0, 2.0, 2.5], "day": 20190423, "aod": [0.1, 0.2, 0.3]})
    >>> inspection = bw.check_table(frame, bag="site", target="aod")
    >>> inspection.bags, inspection.ok
    (2, False)
    >>> inspection.findings[0].text
    "bag 1 has more than one target in column 'aod' (0.1 and 0.2); a bag has one target, the same on all its rows"
    """
    inspection = examine(source, bag=bag, target=target, **options)
    if not inspection.ok:
        return inspection
    try:  # `load` decides; its warnings are among the findings already
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            bags, _ = load(source, bag=bag, target=target, **options)
        if bags.groups is not None:
            inspection.groups = len(set(bags.groups.tolist()))
        shared = find_shared_rows(bags)
        if shared.n_shared and not shared.by_chance:
            inspection.shared_rows = {
                "instances": shared.n_shared,
                "share": shared.share,
                "bags": shared.n_linked,
                "largest_set": shared.largest,
                "copies": shared.n_copies,
            }
            if shared.notable and options.get("fold") is None:
                inspection.add("warning", shared.describe())
            else:  # given folds may keep such bags together
                inspection.add("note", f"{shared.figures()}.")
        if folds is not None or (bags.validation is not None and bags.validation.scheme != "random"):
            splits = split_bags(bags, "auto" if folds is None else folds)
            n_held_out = int(splits.held_out.sum())
            inspection.folds = f"{counted(len(splits), 'fold')}, {n_held_out:,} of {len(bags):,} bags held out"
    except (ValueError, TypeError) as error:
        inspection.add("error", error)
    return inspection


def examine(source, *, bag=None, target=None, files=None, **options) -> Inspection:
    """Check the columns of a table without building bags. ``files`` are those that a data frame was read from."""
    inspection = Inspection()
    columns = {name: value for name, value in options.items() if name not in READING}
    labels = {name: options[name] for name in ("time", "fold") if options.get(name) is not None}
    try:
        roles = Roles(bag=bag, target=target, labels=labels, **columns)
        fill_values, decimal = options.get("fill_values", ()), options.get("decimal", ".")
        files = source if names_files(source) else files
        frame = read_files(source, roles, decimal=decimal) if names_files(source) else source
        if frame is None:  # an archive of arrays
            with warnings.catch_warnings(action="ignore", category=UserWarning):  # already reported as findings
                bags, y = load(source, bag=bag, target=target, **options | {"missing": "keep"})
            names = bags.feature_names or [f"x{j + 1}" for j in range(bags.n_features)]
            frame = {"bag": bags.expand(bags.ids)} | dict(zip(names, bags.instances.T, strict=True))
            frame |= {} if y is None else {"target": bags.expand(y)}
            roles, fill_values = Roles(bag="bag", target=None if y is None else "target"), ()
        table = FrameColumns(frame, fill_values, decimal)
        _look(inspection, table, roles, options.get("missing"), {} if files is None else zero_padded(files))
    except (ValueError, TypeError) as error:
        inspection.add("error", error)
    return inspection


def _look(inspection: Inspection, table, roles: Roles, missing: str | None, padded: dict[str, str]) -> None:
    encoded = [*roles.category_list, *as_list(roles.dates)]
    table, roles, categories, notes = prepare(table, roles)
    for note in notes:
        inspection.add("warning", note)
    inspection.bag_features = roles.covariate_list
    names = [name for name in choose_features(table, roles) if name not in inspection.bag_features]
    codes, ids = find_bags(table, roles.bag)
    complete = np.ones(len(codes), dtype=bool)
    for name in names if missing == "drop-instances" else []:
        if table.kind(name) == "number":
            complete &= np.isfinite(table.numbers(name))
    inspection.rows = int(np.count_nonzero(complete))
    if not complete.all():
        n_bags = len(np.unique(codes[~complete]))
        text = f"{np.count_nonzero(~complete):,} of {table.n_rows:,} rows, in {n_bags:,} bags, have missing values and"
        inspection.add("warning", f"{text} are dropped")
    _look_at_bags(inspection, roles.bag, codes[complete], ids)
    first = first_rows(codes)
    for target in roles.target_list:
        _look_at_target(inspection, table, target, codes, first, ids, allow_missing=len(roles.target_list) > 1)
    if roles.groups is not None:
        inspection.groups = len(table.factorise(roles.groups)[1])
    _look_at_features(inspection, table, names, codes, first, next(iter(roles.target_list), None))
    if roles.groups in names:
        inspection.add(
            "note",
            f"column {roles.groups!r} is both the group and a feature, so held-out groups have values that did not "
            "occur in training; leave it out of the features if you do not want that",
        )
    for name in names:
        if name in padded:
            inspection.add(
                "note",
                f"column {name!r} is a feature, but has numbers with leading zeros such as {padded[name]}, like an "
                "id or a code; in that case leave it out, or declare it as a category",
            )
    used = {*names, *roles.taken, *inspection.bag_features, *encoded, *categories, *as_list(roles.keep)}
    ignored = as_list(roles.ignore)
    for name in table.names:
        if name not in used:
            kind = table.kind(name)
            reason = "ignored" if name in ignored else "not asked for" if kind == "number" else kind
            inspection.left_out[str(name)] = reason
    for level, text in describe_unused(table, {*used, *ignored}):
        if level == "note" or roles.features is None:
            inspection.add(level, text)


def _look_at_bags(inspection: Inspection, bag, codes, ids) -> None:
    sizes = np.bincount(codes, minlength=len(ids))
    inspection.bags, inspection.sizes = len(ids), (int(sizes.min()), float(np.median(sizes)), int(sizes.max()))
    if len(ids) == 1:
        inspection.add("error", f"column {bag!r} puts all rows into one bag; fit needs at least two")
    elif len(ids) < FEWEST:
        text = f"there are only {len(ids)} bags, so no error of a model can be estimated; use at least {FEWEST}"
        inspection.add("warning", text)
    elif sizes.max() == 1:
        inspection.add("warning", f"every row is a bag of its own; check that {bag!r} is the column of bag ids")
    if doubt := alike_ids(ids):
        inspection.add("warning", doubt)
    if _look_like_dates(ids):
        inspection.add(
            "warning",
            f"bag ids such as {label(ids[0])} look like dates read as numbers, so all rows of one day form one "
            "bag, from all places; if you do not want that, make ids of place and date",
        )


def _look_at_target(inspection: Inspection, table, target, codes, first, ids, *, allow_missing: bool) -> None:
    try:
        y = one_target(table, target, codes, first, ids, allow_missing=allow_missing)
        refuse_constant_target(y)
    except ValueError as error:
        inspection.add("error", error)
        return
    y = y[~np.isnan(y)]
    if not len(y):
        return
    distinct = np.unique(y)
    if len(distinct) == 2:
        text = f"the target has two values, {distinct[0]:g} and {distinct[1]:g}: it looks like a class"
        inspection.add("note", text)
    low, median, high = float(y.min()), float(np.median(y)), float(y.max())
    inspection.targets.append({"name": str(target), "minimum": low, "median": median, "maximum": high})


def _look_at_features(inspection: Inspection, table, names, codes, first, target) -> None:
    y = None
    if target is not None and table.kind(target) == "number":
        y = np.asarray(table.numbers(target), dtype=np.float64)
    columns_by_check: dict[str, list] = {}
    suspect_columns = {} if y is None or not (counts := suspects(y)) else {str(target): counts}
    for name in names:
        if table.kind(name) not in ("number", "boolean"):  # the values of a column of lists are checked by `load`
            inspection.features.append({"name": str(name), "missing": 0, "minimum": None, "maximum": None})
            continue
        values = np.asarray(table.numbers(name), dtype=np.float64)
        finite = values[np.isfinite(values)]
        low, high = (float(finite.min()), float(finite.max())) if len(finite) else (None, None)
        missing = int(np.isnan(values).sum())
        inspection.features.append({"name": str(name), "missing": missing, "minimum": low, "maximum": high})
        for check in _failed_checks(name, values, finite, codes, first, y):
            columns_by_check.setdefault(check, []).append(name)
        if counts := suspects(finite):
            suspect_columns[str(name)] = counts
    for check, columns in columns_by_check.items():
        level, text = CHECKS[check]
        inspection.add(level, f"{name_columns([repr(str(name)) for name in columns])}: {text}")
    if suspect_columns:
        inspection.add("warning", describe_suspects(suspect_columns))


def _failed_checks(name, values, finite, codes, first, y) -> list[str]:
    """Return the names of the `CHECKS` that a feature column does not pass."""
    if len(finite) == 0:
        return ["empty"]
    failed = ["infinite"] * bool(np.isinf(values).any()) + ["missing"] * bool(np.isnan(values).any())
    if finite.min() == finite.max():
        return [*failed, "constant"]
    if y is not None and np.array_equal(values, y):
        return [*failed, "target"]
    if str(name).lower() in SPLITS:
        return [*failed, "split"]
    if _look_like_dates(np.unique(finite)):
        return [*failed, "dates"]
    if len(values) > 20 and (np.diff(values) == 1).all():
        return [*failed, "counter"]
    if len(first) < len(values) and len(finite) == len(values) and not differs_from_first(values, codes, first).any():
        return [*failed, "bag-level"]
    return failed


def _look_like_dates(values) -> bool:
    """Return whether all values (two or more) are dates between 1900 and 2100 written as numbers, such as 20190423."""
    values = np.asarray(values)
    if values.dtype.kind not in "iuf" or len(values) < 2 or not ((values > 19000000) & (values < 21010000)).all():
        return False
    return bool((values == np.trunc(values)).all()) and all(as_day(f"{value:.0f}") for value in values[:200])
