"""The roles of the columns of a table, checks of the values that each role needs, and warnings of suspicious values."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from unicodedata import category, normalize

import numpy as np

from bagwise.bags.frames import DECIMAL_COMMA, NULLS, NUMBER, as_list, is_fill_value, plain_number
from bagwise.bags.shared_rows import SHARED_ROWS
from bagwise.bags.validation import (
    LARGEST,
    ParameterError,
    ParameterTypeError,
    absent,
    label,
    name_bags,
)

# The lowest or highest value of a column is isolated if its distance from all other values exceeds GAP times their
# range. A value that is not a usual fill value needs WIDE_GAP times the range, and must occur at least REPEATED times.
GAP, WIDE_GAP, REPEATED = 1.0, 10.0, 3
FEW_CELLS = 3  # largest number of cells listed in a message
SAMPLE = 1000  # number of values that are examined first

DATE_PARTS = ("sine", "cosine", "year")  # suffixes of the features computed from a date
DATES = r"^\s*(?:[12][0-9]{3}-[01]?[0-9]-[0-3]?[0-9]|[0-3]?[0-9][./][0-3]?[0-9][./][12][0-9]{3})(?:[T ].*)?$"
THOUSANDS = r"^[-+]?[1-9][0-9]{0,2}(?:,[0-9]{3})+(?:\.[0-9]+)?$"  # 1,250 may also be a number with three decimals
USABLE = ("number", "boolean", "list", "vector")
# Names that instance tables use for their own columns; columns in ``keep`` cannot have these names.
_TAKEN = {"row", "instance", "instance_predictions", "instance_std", "contributions", "weights", "effects"}
_TAKEN |= {"prediction", "contribution", "weight", "effect"}


@dataclass(frozen=True)
class Roles:
    """The columns that have a role in `load`. ``labels`` maps names, such as "fold", to more columns of bag labels."""

    bag: object = None
    target: object = None
    features: object = None
    ignore: object = ()
    groups: object = None
    weights: object = None
    bag_features: object = None
    keep: object = ()
    categories: object = ()
    dates: object = ()
    targets: object = None  # a second table, with a row per bag
    labels: dict = field(default_factory=dict)
    group_by_rows: bool = False  # groups="shared-rows": bags that share rows are one group

    def __post_init__(self):
        if isinstance(self.groups, str) and self.groups == SHARED_ROWS:
            object.__setattr__(self, "group_by_rows", True)
            object.__setattr__(self, "groups", None)

    @property
    def single(self) -> list[tuple[str, object]]:
        """Pairs (parameter, column) of the roles that exclude all other roles."""
        pairs = [("bag", self.bag), *[("target", name) for name in self.target_list], ("groups", self.groups)]
        pairs += [("weights", self.weights), *self.labels.items()]
        return [(name, column) for name, column in pairs if column is not None]

    @property
    def taken(self) -> list:
        """The columns of `single`."""
        return [column for _, column in self.single]

    @property
    def target_list(self) -> list:
        return [] if self.target is None else as_list(self.target)

    @property
    def feature_list(self) -> list:
        """The requested features; empty if all numeric columns are features."""
        return [] if self.features is None else as_list(self.features)

    @property
    def covariate_list(self) -> list:
        """The requested bag features; empty for "auto"."""
        return [] if self.bag_features is None or is_auto(self.bag_features) else as_list(self.bag_features)

    @property
    def category_list(self) -> list:
        """The requested categories; empty for "auto"."""
        return [] if is_auto(self.categories) else as_list(self.categories)

    @property
    def derived(self) -> bool:
        """Whether a feature name may refer to a level (crop=wheat) or to a part of a date (sown_year)."""
        marks = tuple(f"_{part}" for part in DATE_PARTS)
        texts = [name for name in [*self.feature_list, *self.covariate_list] if isinstance(name, str)]
        return any("=" in name or name.endswith(marks) for name in texts)

    @property
    def encoded(self) -> bool:
        """Whether columns must be encoded as numbers: categories, dates, or those that derived features need."""
        return bool(as_list(self.categories) or as_list(self.dates)) or self.derived

    def asked(self) -> list:
        """Return all columns that have a role."""
        encoded = [*self.category_list, *as_list(self.dates)]
        named = [*self.covariate_list, *self.feature_list, *encoded, *as_list(self.keep), *as_list(self.ignore)]
        return list(dict.fromkeys([*self.taken, *named]))

    def ids(self) -> list:
        """Return the columns whose values are only compared for equality, such as ids, unless they are features."""
        numbers = replace(self, bag=None, groups=None, labels={}, keep=(), ignore=(), categories=(), dates=()).asked()
        levels = [
            str(name).partition("=")[0] for name in numbers if "=" in str(name)
        ]  # the column crop for the feature crop=01
        labels = [self.bag, self.groups, *self.labels.values(), *self.category_list, *levels]
        return [name for name in dict.fromkeys(labels) if name is not None and name not in numbers]


def is_made_of(name: str, role) -> bool:
    """Return whether a role names this column, or a feature made of it, such as crop=wheat or sown_year."""
    return name == role or str(role).startswith((f"{name}=", *(f"{name}_{part}" for part in DATE_PARTS)))


def is_auto(columns) -> bool:
    """Return whether columns are "auto", which stands for those that `load` finds."""
    return isinstance(columns, str) and columns == "auto"


# Choosing columns -----------------------------------------------------------------------------------------------------


def choose_features(table, roles: Roles) -> list:
    """Return the feature columns: the requested ones, or all numeric columns without another role."""
    ignore, keep = as_list(roles.ignore), as_list(roles.keep)
    refuse_no_bag(table, roles.bag)
    named = [(parameter, [name]) for parameter, name in roles.single]
    for parameter, names in (*named, ("ignore", ignore), ("keep", keep), ("features", roles.feature_list)):
        refuse_unknown(table.names, names, used=roles.feature_list, parameter=parameter, derived=table.siblings)
    if roles.bag in roles.target_list:
        raise ParameterError("target", f"column {roles.bag!r} cannot be both the bag id and the target")
    if reserved := [name for name in keep if name in _TAKEN]:
        raise ParameterError(
            "keep", f"tables of instances have a column {reserved[0]!r} of their own; rename the column to keep it"
        )
    features = roles.feature_list
    if roles.features is not None:
        if not features:
            raise ParameterError(
                "features", "features is empty; name at least one column, or leave it out to take every numeric one"
            )
        targets = [(name, "target") for name in roles.target_list]
        for name, role in ((roles.bag, "bag id"), *targets, (roles.weights, "instance weight")):
            if name is not None and name in features:
                raise ParameterError("features", f"column {name!r} is the {role}; it cannot be a feature as well")
        for name in features:
            if table.kind(name) not in USABLE:
                refuse_not_numeric(table, name, "a feature", "features")
        return features
    kinds = {name: table.kind(name) for name in table.names if name not in {*roles.taken, *ignore, *keep}}
    features = [name for name, kind in kinds.items() if kind in USABLE]
    if not features:
        unusable = [f"{label(name)} ({kind})" for name, kind in kinds.items()]
        listed = _list(unusable, "the others are") if unusable else "every column has another role, or is ignored"
        raise ParameterError("features", f"there is no numeric feature column; {listed}")
    return features


def refuse_no_bag(table, bag) -> None:
    """Refuse a table without the column of bag ids."""
    if bag is None:
        columns = _list(list(map(label, table.names)))
        raise ParameterError("bag", f"bag= is needed: the column that says which bag a row belongs to; {columns}")
    refuse_unknown(table.names, [bag], parameter="bag")


def refuse_unknown(names, columns, used=(), parameter: str = "features", derived=()) -> None:
    """Refuse the first name without a column, and suggest the most similar one; ``derived`` names are not listed."""
    known_names = set(names)
    missing = next((name for name in columns if name not in known_names), None)
    if missing is None:
        return
    listed = _list([label(name) for name in names if name not in derived])
    column, _, level = str(missing).partition("=")
    if level and column not in known_names:
        raise ParameterError(
            parameter, f"there is no column {column!r}, of which the feature {missing!r} is a level; {listed}"
        )
    free = [str(name) for name in names if name not in used]
    same = [name for name in free if name.lower() == str(missing).lower()]
    near = next(iter(same or get_close_matches(str(missing), free, n=1)), None)
    hint = f" (did you mean {near!r}?)" if near else ""
    stem, _, part = str(missing).rpartition("_")
    hint += f", nor a column {stem!r} of dates to make it from" if stem and part in DATE_PARTS else ""
    raise ParameterError(parameter, f"there is no column {missing!r}{hint}; {listed}")


def is_nested(table, name) -> bool:
    """Return whether a column holds lists or records, which cannot be labels."""
    return table.kind(name).startswith(("list", "vector", "List", "Array", "Struct", "Map"))


def refuse_no_labels(table, name, parameter: str, noun: str | None = None) -> None:
    """Refuse a column of lists or records where labels are needed."""
    if is_nested(table, name):
        raise ParameterTypeError(
            parameter, f"{noun or parameter} must be text, integers or dates; column {name!r} holds lists or records"
        )


def refuse_not_numeric(table, name, role: str, parameter: str) -> None:
    """Refuse a column that is not numeric, and say which cells are not if most of them are."""
    kind = table.kind(name)
    if kind in ("number", "boolean"):
        return
    is_feature = parameter in ("features", "bag_features")
    if doubt := _doubt(table, name) if kind == "String" else None:
        way = f": {doubt[1]}{', or leave the column out' if is_feature else ''}"
    elif is_feature and is_nested(table, name):
        way = "; encode it, for example one of its fields, or leave it out"
    elif is_feature:
        encode = "dates" if is_date_kind(table, name) else "categories"
        way = f"; encode it, leave it out, or load it with {encode}={[name]}"
    else:
        way = ""
    shown = "a date" if kind.startswith(("Date", "datetime")) else kind
    raise ParameterTypeError(parameter, f"{role} must be numbers; column {name!r} is {shown}{way}")


# Values of the bags ---------------------------------------------------------------------------------------------------


def find_bags(table, bag) -> tuple[np.ndarray, np.ndarray]:
    """Return the bag of each row, numbered as they appear, and the ids."""
    refuse_no_labels(table, bag, "bag", "bag ids")
    codes, ids = table.factorise(bag)
    unknown = absent(ids)[codes]
    if unknown.any():
        raise ParameterError(
            "bag",
            f"{np.count_nonzero(unknown):,} of {len(codes):,} rows have no bag id (the first is row "
            f"{unknown.argmax()}, counted from 0); fill in column {bag!r}, or drop those rows",
        )
    return codes, ids


def first_rows(codes: np.ndarray) -> np.ndarray:
    """Return the first row of each bag; bags are numbered as they appear, so the highest number so far rises there."""
    return np.flatnonzero(np.diff(np.maximum.accumulate(codes), prepend=-1))


def read_targets(table, targets: list, codes, first, ids) -> np.ndarray | None:
    """Return the targets of the bags: None, one number per bag, or a column per target with NaN where it is missing."""
    if len(targets) < 2:
        return one_target(table, targets[0], codes, first, ids) if targets else None
    y = np.column_stack([one_target(table, name, codes, first, ids, allow_missing=True) for name in targets])
    unknown = np.isnan(y)
    if unknown.all(axis=1).any():
        raise ParameterError(
            "target",
            f"{name_bags(ids, unknown.all(axis=1))} no target in columns {', '.join(map(repr, targets))}; drop such "
            "bags, or leave target out to predict them",
        )
    if unknown.all(axis=0).any():
        raise ParameterError(
            "target", f"no bag has a target in column {targets[unknown.all(axis=0).argmax()]!r}; leave it out"
        )
    return y


def one_target(table, target, codes, first, ids, *, allow_missing: bool = False) -> np.ndarray:
    """Return the target of each bag; with ``allow_missing``, NaN for a bag without one."""
    refuse_not_numeric(table, target, "the target", "target")
    values = np.asarray(table.numbers(target), dtype=np.float64)
    unknown = np.isinf(values) if allow_missing else ~np.isfinite(values)
    way = "; drop such bags, or leave target out to predict them"
    refuse_rows(unknown, codes, ids, "target", f"a missing or infinite target in column {target!r}{way}")
    way = "whose square is infinite; rescale the targets, or look for a fill value"
    large = np.abs(values) > LARGEST
    refuse_rows(large, codes, ids, "target", f"a target beyond {LARGEST:g} in column {target!r}, {way}")
    return same_in_bag(values, codes, first, ids, target, "target", "target")


def one_label(table, column, codes, first, ids, *, noun: str = "group", parameter: str = "groups") -> np.ndarray:
    """Return the label of each bag (its group, its fold), which must be the same on all its rows."""
    refuse_no_labels(table, column, parameter)
    label_of_row, labels = table.factorise(column)
    unknown = absent(labels)[label_of_row]
    way = f"give every bag one, or leave {parameter}= out"
    refuse_rows(unknown, codes, ids, parameter, f"rows without a {noun} in column {column!r}; {way}")
    return labels[same_in_bag(label_of_row, codes, first, ids, column, noun, parameter)]


def same_in_bag(values, codes, first, ids, column, noun: str, parameter: str) -> np.ndarray:
    """Return the value of each bag, which must be the same on all its rows."""
    differs = differs_from_first(values, codes, first)
    if differs.any():
        marked = any_row(differs, codes, ids)
        row = np.flatnonzero(differs & (codes == marked.argmax()))[0]
        two = f" ({float(values[first][codes[row]])} and {float(values[row])})" if values.dtype.kind == "f" else ""
        way = "; use the column as a feature of the instances instead" if parameter == "bag_features" else ""
        raise ParameterError(
            parameter,
            f"{name_bags(ids, marked)} more than one {noun} in column {column!r}{two}; a bag has one {noun}, the same "
            f"on all its rows{way}",
        )
    return values[first]


def differs_from_first(values: np.ndarray, codes: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Return which rows have another value than the first row of their bag; NaN is equal to NaN."""
    of_bag = values[first][codes]
    return (values != of_bag) & ~((values != values) & (of_bag != of_bag))


def refuse_rows(marked: np.ndarray, codes: np.ndarray, ids: np.ndarray, parameter: str, problem: str) -> None:
    """Refuse a table with marked rows, and name their bags."""
    if marked.any():
        raise ParameterError(parameter, f"{name_bags(ids, any_row(marked, codes, ids))} {problem}")


def any_row(marked: np.ndarray, codes: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Return which bags have a marked row."""
    return np.bincount(codes[marked], minlength=len(ids)) > 0


def split_covariates(table, names: list, roles: Roles, codes, first, ids) -> tuple[list, dict]:
    """Return the features that stay with the instances, and ``covariates`` and ``covariate_names`` of the bags."""
    if is_auto(roles.bag_features):
        chosen = _constant(table, names, codes, first)
    else:
        chosen = roles.covariate_list
        refuse_unknown(table.names, chosen, parameter="bag_features", derived=table.siblings)
        if in_use := [name for name in chosen if name in roles.taken]:
            raise ParameterError(
                "bag_features", f"column {in_use[0]!r} has another role; it cannot be a bag feature as well"
            )
        for name in chosen:
            refuse_not_numeric(table, name, "a bag feature", "bag_features")
    of_instances = [name for name in names if name not in chosen]
    if not of_instances:
        raise ParameterError(
            "bag_features", "every feature column is a bag feature; at least one must be left for the instances"
        )
    if not chosen:
        return names, {}
    columns = []
    for name in chosen:
        values = np.asarray(table.numbers(name), dtype=np.float64)
        columns.append(same_in_bag(values, codes, first, ids, name, "value", "bag_features"))
    return of_instances, {"covariates": np.column_stack(columns), "covariate_names": chosen}


def _constant(table, names, codes, first) -> list:
    """Return the feature columns that never vary within a bag; all but the first if no other feature would remain."""
    of_bags = [name for name in names if name in table.of_bags]  # from a second table
    if len(first) == table.n_rows and not any(table.kind(name) == "list" for name in names):
        return of_bags  # every column is constant in bags of one row
    numeric = [name for name in names if table.kind(name) == "number"]
    constant = [
        name
        for name in numeric
        if name in of_bags or not differs_from_first(np.asarray(table.numbers(name), dtype=float), codes, first).any()
    ]
    constant = [name for name in constant if set(table.siblings.get(name, ())) <= set(constant)]
    return constant[1:] if len(constant) == len(names) else constant


# Doubtful columns -----------------------------------------------------------------------------------------------------


def is_date_kind(table, name) -> bool:
    """Return whether a column holds dates, or texts that all look like dates."""
    kind = table.kind(name)
    if kind != "String":
        return kind.startswith("Date")
    texts = table.texts(name, SAMPLE)
    return len(texts) > 0 and all(re.match(DATES, text) for text in texts)


def left_out(table, roles: Roles, names: list) -> list[str]:
    """Return why columns that have no role are not features: a clause for each reason."""
    findings = describe_unused(table, {*names, *roles.asked()})
    for level, message in findings:
        if level == "error":
            raise ParameterError("fill_values", message)
    return [message for _, message in findings]


def describe_unused(table, used) -> list[tuple[str, str]]:
    """Return a level (error, warning or note) and a clause for each reason why unused columns cannot be features."""
    start = {
        "error": "column {!r} is numeric but for a few cells: ",
        "warning": "column {!r} is text and was left out: ",
    }
    unused = [name for name in table.names if name not in used and table.kind(name) not in USABLE]
    doubts = {name: doubt for name in unused if table.kind(name) == "String" and (doubt := _doubt(table, name))}
    findings = [
        (level, f"{start[level].format(name)}{text}, or leave the column out with ignore={[name]}")
        for name, (level, text) in doubts.items()
    ]
    dates = [name for name in unused if name not in doubts and is_date_kind(table, name)]
    texts = [name for name in unused if name not in doubts and name not in dates]
    if texts:
        are, were = ("is", "was") if len(texts) == 1 else ("are", "were")
        clause = name_columns([f"{name!r} ({table.kind(name)})" for name in texts])
        flat = [name for name in texts if not is_nested(table, name)][:1]
        encoding = f"categories={flat} uses it as a category, " if flat else ""
        way = f"{encoding}ignore={flat or texts[:1]} silences this"
        findings.append(("note", f"{clause} {are} not numeric and {were} left out; {way}"))
    if dates:
        are = "is a date and was" if len(dates) == 1 else "are dates and were"
        clause = f"{name_columns(list(map(repr, dates)))} {are} left out; "
        findings.append(("note", f"{clause}dates={dates[:1]} uses its season and year"))
    return findings


def name_columns(names: list[str], most: int = 5) -> str:
    """Return "column 'a'", or "columns 'a', 'b' and 3 more", of names between quotes."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"column{'s' * (len(names) > 1)} {', '.join(names[:most])}{more}"


def _doubt(table, name) -> tuple[str, str] | None:
    """Return the level and a description of what is wrong with a column of text whose values are mostly numbers."""
    sample = table.texts(name, SAMPLE)
    with_comma = [text for text in sample if "," in text]
    if with_comma and all(re.match(THOUSANDS if "," in text else NUMBER, text) for text in sample):
        way = "remove them if they separate thousands, load with decimal=',' if they are decimal commas"
        return "warning", f"its numbers have commas; {way}"
    if with_comma and all(re.match(DECIMAL_COMMA, text) for text in sample):
        return "warning", "its numbers have decimal commas; load with decimal=',' to read them"
    if sum(re.match(NUMBER, text) is not None for text in sample) <= 0.5 * len(sample):
        return None
    texts = table.values(name)
    rows = np.flatnonzero([text is not None and text not in NULLS and not re.match(NUMBER, text) for text in texts])
    if len(rows) == 0:
        return "warning", "its values are numbers; make it a column of numbers"
    more = f" and {len(rows) - FEW_CELLS:,} more" if len(rows) > FEW_CELLS else ""
    cells = ", ".join(f"{texts[row]!r} in row {row:,}" for row in rows[:FEW_CELLS]) + more
    level = "error" if len(rows) <= max(1, len(sample) // 10) or len(rows) / len(texts) <= 0.1 else "warning"
    are, them = ("is", "it") if len(rows) == 1 else ("are", "them")
    fill_values = list(dict.fromkeys(texts[rows].tolist()))[:FEW_CELLS]
    return level, (
        f"{cells} (counted from 0) {are} not a number; correct {them}, or make such cells missing with {fill_values=}"
    )


def alike_ids(ids) -> str | None:
    """Describe bag ids that look the same: they differ only in blanks, quotes, invisible characters or Unicode form."""
    first: dict[str, str] = {}
    pairs = []
    for text in np.asarray(ids).tolist():
        if isinstance(text, str):
            visible = text if text.isascii() else "".join(c for c in normalize("NFC", text) if category(c) != "Cf")
            earlier = first.setdefault(" ".join(visible.split()).strip("'"), text)
            pairs += [(earlier, text)] if earlier != text else []
    if not pairs:
        return None
    more = f" (and {len(pairs) - 1:,} more such)" if len(pairs) > 1 else ""
    return (
        f"bag ids {ascii(pairs[0][0])} and {ascii(pairs[0][1])}{more} differ only in blanks, quotes, invisible "
        "characters or Unicode form, so they are two bags; write them in the same way if they are one bag"
    )


# Fill values ----------------------------------------------------------------------------------------------------------


def suspects(values: np.ndarray) -> dict[float, int]:
    """Return the values of a column that look like fill values, and how often each occurs.

    Only the lowest and the highest value are candidates, if they are isolated (`_is_isolated`). A usual fill value, or
    a huge one, must be farther from the other values than their range; any other value ten times as far, outside
    [-1, 1], and repeated three times or more.
    """
    counts: dict[float, int] = {}
    if len(values) == 0 or not _ends(values):  # avoids a copy of most columns
        return counts
    values = values[np.isfinite(values)]
    while len(values):
        ends = _ends(values)
        inner = values[~np.isin(values, [end for end in ends if is_fill_value(end)])]
        marked = [end for end in ends if _is_isolated(end, inner[inner != end], int(np.sum(values == end)))]
        if not marked:
            break
        counts |= {end: int(np.sum(values == end)) for end in marked}
        values = values[~np.isin(values, marked)]
    return counts


def describe_suspects(suspect_columns: dict[str, dict[float, int]]) -> str:
    """Return one sentence on the suspects of some columns: the first of them, how many others, and the option."""
    name, counts = next(iter(suspect_columns.items()))
    value, count = next(iter(counts.items()))
    times = "once" if count == 1 else f"{count:,} times"
    n_more = len(suspect_columns) - 1
    more = f" (and {n_more:,} other column{'s hold' if n_more > 1 else ' holds'} such a value)" if n_more else ""
    fill_values = list(dict.fromkeys(plain_number(value) for counts in suspect_columns.values() for value in counts))
    return (
        f"column {name!r} holds {plain_number(value)} {times}{more}, which looks like a fill value for missing data; "
        f"{fill_values=} makes it missing"
    )


def _ends(values: np.ndarray) -> list[float]:
    """Return the lowest and the highest value, each only if it is a usual fill value or far from a sample of values."""
    sample = values[:: max(1, len(values) // SAMPLE)].astype(np.float64)
    sample = sample[np.isfinite(sample)]
    with np.errstate(over="ignore"):  # the caller refuses values with infinite differences
        low, high = np.quantile(sample, [0.25, 0.75]) if len(sample) else (0.0, 0.0)
        reach = WIDE_GAP * (high - low)
    ends = dict.fromkeys((float(np.fmin.reduce(values)), float(np.fmax.reduce(values))))
    return [end for end in ends if is_fill_value(end) or end < low - reach or end > high + reach]


def _is_isolated(value: float, neighbours: np.ndarray, count: int) -> bool:
    if len(neighbours) == 0:
        return False
    low, high = float(neighbours.min()), float(neighbours.max())
    gap, width = max(low - value, value - high), high - low
    if is_fill_value(value):
        return gap > GAP * width and gap > 0
    # 0 and 1 are more often the ends of a scale than fill values
    return abs(value) > 1.0 and width > 0 and gap > WIDE_GAP * width and count >= REPEATED


def _list(columns: list[str], verb: str = "the columns are", most: int = 20) -> str:
    shown = ", ".join(columns[:most])
    return f"{verb} {shown or 'none'}" + (f", ... ({len(columns)} in all)" if len(columns) > most else "")
