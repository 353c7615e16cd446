"""The data sections of a report: the data profile, and the bag explorer, which shows the instances of bags."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import numpy as np

from bagwise.bags import Bags
from bagwise.bags.segments import segment_mean, segment_sum
from bagwise.bags.validation import aligned, counted
from bagwise.evaluation.plan import Entry, as_entries, describe_setting
from bagwise.evaluation.selection import fit
from bagwise.explanations import explain
from bagwise.explanations.explanation import SINGULAR, instance_values, unwrapped
from bagwise.io import load
from bagwise.io.table_files import find_files
from bagwise.io.table_output import (
    Column,
    duration,
    filled,
    numbers,
    own_name,
    percent,
    shortened,
    shown,
    texts,
    without_controls,
)
from bagwise.model_files.fingerprint import describe, of_data
from bagwise.regressors import EmbeddingRidge
from bagwise.regressors.pipeline import last_step
from bagwise.reports.figures import draw_values, histogram, learned_function, spark
from bagwise.reports.verdict import HeldOut

MOST_FEATURES = 40  # in the table
MOST_VALUES = 200_000  # largest number of values of a feature for its histogram and quantiles; more are sampled evenly


def data_section(bags: Bags, y: np.ndarray, by_importance: list[str] | None = None) -> dict:
    """Return the section on the data: facts, the two histograms, and the table of features, the important ones first.

    ``by_importance`` has the names in that order; without it, features are in the order of `_links`.
    """
    names = _names(bags)
    order, by = np.argsort(-_links(bags, y), kind="stable"), "the correlation of bag means with the target"
    if by_importance is not None:
        rank = {name: k for k, name in enumerate(by_importance)}
        order, by = sorted(order, key=lambda j: rank.get(names[j], len(rank))), "importance"
    rows = [profile(names[j], bags.instances[:, j], bags, y) for j in order[:MOST_FEATURES]]
    if bags.covariates is not None:
        names = bags.covariate_names or [f"covariate {j + 1}" for j in range(bags.covariates.shape[1])]
        columns = list(zip(names, bags.covariates.T, strict=True))[:MOST_FEATURES]
        rows += [profile(f"{name} (of the bag)", bags.expand(values), bags, y) for name, values in columns]
    low, high, n_distinct = bags.sizes.min(), bags.sizes.max(), len(np.unique(y))
    text = f"Mean {shown(float(y.mean()))}, standard deviation {shown(float(y.std()))}"
    text += f", {counted(n_distinct, 'distinct value')}." if n_distinct < len(y) / 2 else "."
    charts = [{"svg": histogram(y, own_name(bags.target_name, "target", ())), "caption": text}]
    if high > low:
        text = f"Half of the bags have {np.median(bags.sizes):,.10g} instances or fewer."
        charts.append({"svg": histogram(bags.sizes, "instances in the bag", log=high >= 20 * low), "caption": text})
    more = f"The first {MOST_FEATURES} of {bags.n_features:,} features." if bags.n_features > MOST_FEATURES else ""
    return {"facts": _facts(bags), "charts": charts, "columns": features_table(rows), "order": by, "more": more}


def _names(bags: Bags) -> list[str]:
    return [_label(name) for name in bags.feature_names or [f"x{j + 1}" for j in range(bags.n_features)]]


def _label(value) -> str:
    """Return a name or a kept value as text; seven digits of a coordinate are about a metre.

    Control characters are written out here, because the script of the page shows texts as they are.
    """
    if isinstance(value, float | np.floating):
        return f"{value:.7g}"
    return without_controls(shortened(str(value), 100))


def _facts(bags: Bags) -> dict[str, str]:
    low, high = int(bags.sizes.min()), int(bags.sizes.max())
    facts = {
        "Bags": f"{len(bags):,}",
        "Instances": f"{bags.n_instances:,}",
        "In a bag": f"{low:,}" if low == high else f"{low:,} to {high:,}",
        "Features": f"{bags.n_features:,}",
    }
    if bags.groups is not None:
        facts["Groups"] = f"{len(set(bags.groups.tolist())):,}"
    if bags.covariates is not None:
        facts["Covariates of the bag"] = f"{bags.covariates.shape[1]:,}"
    missing = int(np.isnan(bags.instances).sum()) if bags.has_missing else 0
    facts["Missing values"] = f"{missing:,} ({percent(missing / bags.instances.size, 1)})" if missing else "none"
    row = (bags.kept or {}).get("row")
    if row is not None and len(row):
        last = int(np.max(row)) + 1
        n_out = last - len(np.unique(row))
        facts["Left out"] = f"{counted(n_out, 'row')} of the first {last:,} of the table" if n_out else "no row"
    return facts


def profile(name: str, values: np.ndarray, bags: Bags, y: np.ndarray) -> dict:
    """Return the figures of a feature by name.

    ``between`` is the share of its variance that lies between bags: 0 where every bag has the same mean, 1 where a bag
    has one value. ``correlation`` is that of the means of bags with the targets. Both are None where nothing varies.
    """
    present = np.isfinite(values)
    missing = 1.0 - float(present.mean())
    if not present.any():
        return {"name": name, "missing": missing}
    counts = segment_sum(present.astype(np.float64), bags.offsets)
    has_value = counts > 0
    means = segment_sum(np.where(present, values, 0.0).astype(np.float64), bags.offsets)[has_value] / counts[has_value]
    sample = values[present]
    centre = sample.mean(dtype=np.float64)
    total = float(((sample - centre) ** 2).sum())
    sample = sample[:: -(-len(sample) // MOST_VALUES)]
    low, median, high = np.quantile(sample, [0.0, 0.5, 1.0]).tolist()
    varies = high > low and means.std() > 1e-12 * max(abs(low), abs(high)) and y[has_value].std() > 0
    return {
        "name": name,
        "missing": missing,
        "low": low,
        "median": median,
        "high": high,
        "counts": np.histogram(sample, 24)[0],
        "between": float((counts[has_value] * (means - centre) ** 2).sum()) / total if high > low else None,
        "correlation": float(np.corrcoef(means, y[has_value])[0, 1]) if varies else None,
    }


def features_table(rows: list[dict]) -> list[Column]:
    """Return a table with a row per feature: histogram, range, missing values, differences between bags."""

    def of(key: str) -> list:
        return [row.get(key) for row in rows]

    drawings, ranges = [], []
    for row in rows:
        low, high = row.get("low"), row.get("high")
        span = "no value" if low is None else "constant" if low == high else ""
        title = f"distribution of {row['name']} from {shown(low)} to {shown(high)}"
        drawings.append(spark(row.get("counts", [0]), f"{row['name']}: {span}" if low is None else title))
        ranges.append(span)
    return filled(
        texts("feature", of("name")),
        Column("distribution", ranges, None, "how many instances have which value", drawings),
        *[numbers(head, of(key), shown=shown) for head, key in RANGE.items()],  # each with three digits of its own
        *([numbers("missing", of("missing"), shown=lambda share: percent(share, 1))] if any(of("missing")) else []),
        numbers("between bags", of("between"), shown=percent, note="share of the variance that is between bags"),
        numbers("with target", of("correlation"), digits=2, sign=True, note="correlation of bag means with the target"),
    )


RANGE = {"smallest": "low", "median": "median", "largest": "high"}

# The data and the methods of a run ----------------------------------------------------------------------------------

READING = (ValueError, TypeError, OSError, ImportError)  # what can be wrong with a file


def find_data(results, data, bags, y) -> tuple[Bags | None, np.ndarray | None, str]:
    """Return bags and targets of a run, or the reason why they cannot be read; wrong arguments raise an error."""
    if bags is not None:
        return bags, _same_data(results, bags, y, "the data"), ""
    origin = results.record.get("origin") or {}
    try:
        path = data or origin.get("path")
        if path is None:
            raise ValueError("the run did not record where its data came from")
        bags, y = load(path, **origin.get("options", {}))
        files = find_files(path)
        return bags, _same_data(results, bags, y, files[0].name + (" and others" if len(files) > 1 else "")), ""
    except READING as error:
        if data is not None:
            raise
        return None, None, f"{error}. Give the data to see inside the bags: bagwise report RUN --data TABLE."


def _same_data(results, bags: Bags, y, name: str) -> np.ndarray:
    """Return the targets; refuse bags and targets that are not those of the run."""
    y = None if y is None else np.asarray(aligned(y, bags), dtype=np.float64)
    if y is None or of_data(bags, y) != results.record["data"]["hash"]:
        raise ValueError(f"{name} is not what it was when the run was made: the hash of its bags and targets differs")
    return y


def recall(results, method: str) -> Entry | None:
    """Make a method of the run again from its name; return None for one that is not in the catalogue."""
    settings = results.record["methods"][method]["settings"]
    try:
        entries = [as_entries(method, tune=tune)[0] for tune in (True, False)]
    except (ValueError, ImportError):
        return None
    return next((entry for entry in entries if describe(entry.settings) == settings), entries[-1])


def fit_recalled(results, entry: Entry, bags: Bags, y: np.ndarray):
    """Fit a method of the run on all bags, with the setting that its folds chose most often."""
    names = {describe_setting(setting): setting for setting in entry.settings}
    ((usual, _),) = chosen_settings(results, entry.name).most_common(1) or [("", 0)]
    return fit(entry.make(_seed(results)), names.get(usual, entry.settings[0]), bags, y)


def _seed(results) -> int:
    return results.record.get("random_state") or 0


def chosen_settings(results, method: str) -> Counter:
    """Return how often each setting was chosen, by fold or for all folds; empty where none has a score."""
    chosen = results.setting(method)
    if chosen is None:
        return Counter()
    cells = [results.cell(method, split) for split in results.splits]
    return Counter(cell["settings"][chosen] for cell in cells if cell)


def explored(results, positions: np.ndarray, bags: Bags, y: np.ndarray, *, model, tell) -> tuple:
    """Return the section of the explorer for some bags, and those of the learned function and the instance values.

    They are of one model fitted on all bags: the best method of the run that can be made again from its name. The
    learned function is that of the best method that has one.
    """
    seconds = {row["method"]: row["seconds"] for row in results.ranked()}
    entries = [entry for method in seconds if (entry := recall(results, method)) is not None]

    def fitted(entry: Entry):
        took = duration(seconds[entry.name])
        tell(f"Fitting {entry.name} on all {len(bags):,} bags (on a split it took {took})")
        return fit_recalled(results, entry, bags, y)

    label, changed = "the model given", ""
    if model is None:
        if not entries:
            text = "no method of the run can be made again from its name"
            return {"why_not": f"{text}; write_report(..., model=...) takes a fitted one."}, None, None
        label, written = entries[0].name, results.record["methods"][entries[0].name]["estimator"]
        if describe(entries[0].make(_seed(results))) != written:
            changed = f" {label} has changed since the run was made: this is how it is now."
        try:
            model = fitted(entries[0])
        except Exception as error:  # any error of a method: leave out this section rather than fail
            return {"why_not": f"{error}."}, None, None
    aside = ", fitted on all bags, this one too"
    section = instances_section(label, model, bags[positions], predicted="held out", aside=aside)
    section["more"] = section.get("more", "") + changed
    function = function_section(label, model, bags)
    if not has_learned_function(model):
        with_function = [entry for entry in entries if has_learned_function(entry.make(_seed(results)))]
        with suppress(Exception):  # as above
            function = function_section(with_function[0].name, fitted(with_function[0]), bags)
    return section, function, values_section(label, model, bags, y)


# What a model makes of the instances --------------------------------------------------------------------------------


def instances_section(label: str, model, bags: Bags, *, predicted: str, aside: str = "") -> dict:
    """Return the explorer of some bags, or why there is none; ``predicted`` says how their predictions were made."""
    try:
        explorer = explain_bags(model, bags)
    except Exception as error:  # any error: leave out this section rather than fail
        return {"why_not": f"{label}: {error}."}
    text = f"Choose a bag to see its instances as {label} sees them{aside}.{explorer.pop('left_out')}"
    return {"explorer": explorer | {"what": predicted}, "more": text}


def has_learned_function(model) -> bool:
    """Return whether a prediction is the mean of one learned function h of the instance predictions."""
    steps = getattr(unwrapped(model), "steps", [])
    return bool(steps) and steps[0][0] == "instances" and isinstance(steps[-1][1], EmbeddingRidge)


def function_section(label: str, model, bags: Bags) -> dict | None:
    """Return the learned function as a plot; None leaves the section out."""
    model = unwrapped(model)
    with suppress(Exception):  # as above
        return learned_function(label, model[-1], model[:-1].transform(bags)) if has_learned_function(model) else None


def values_section(label: str, model, bags: Bags, y: np.ndarray) -> dict | None:
    """Return plots of the instance values of methods that aggregate them, with a map if there are coordinates."""
    aggregate = getattr(last_step(unwrapped(model)), "aggregate", None)
    if aggregate is None:
        return None
    try:
        values = instance_values(model, bags)
    except Exception:  # as above: the section is left out
        return None
    weights = bags.sizes if bags.weights is None else segment_sum(bags.weights, bags.offsets)
    rates = y / weights if aggregate == "sum" else y
    names = list(bags.feature_names or ())
    places = bags.instances[:, [names.index("x"), names.index("y")]] if {"x", "y"} <= set(names) else None
    means = values["instance_predictions"]
    return draw_values(label, means, values["instance_std"], bags, rates, places) | {"aggregate": aggregate}


# Limits that keep a page below 3 MB.
MOST_BAGS, MOST_INSTANCES = 300, 200
MOST_NUMBERS = 150_000  # largest number of values of all instances together, about 7 bytes each
FEATURES_OF_A_BAG = 20
FEW_FEATURES, FEW_INSTANCES = 6, 60  # minimum to show; features are left out before instances
MOST_LEFT_OUT = 400  # the largest bag that is explained by leaving out its instances one by one
MOST_ROWS_LEFT_OUT = 1_000_000  # largest number of instances predicted for this: seconds for most methods
PLACE = ("row", "instance")  # columns that say where an instance is in the table


def choose_bags(held: HeldOut, most: int = MOST_BAGS) -> np.ndarray:
    """Return the positions of the bags to show, largest error first: all, or the worst and a random sample."""
    order = np.argsort(-np.abs(held.residual), kind="stable")
    if len(order) <= most:
        return order
    n_worst = 2 * most // 3
    drawn = np.random.default_rng(0).choice(np.arange(n_worst, len(order)), most - n_worst, replace=False)
    return order[np.r_[:n_worst, np.sort(drawn)]]


def explain_bags(model, bags: Bags) -> dict:
    """Return numbers per instance of each bag as plain lists, limited to the size of a page.

    Of a large bag, the instances with the largest numbers are kept. ``bags`` has an entry per bag, None for a bag that
    cannot be explained in reasonable time; slow methods explain only the first bags. ``left_out`` is a sentence about
    the bags without explanation.
    """
    explained, explanation = _explained(model, bags)
    table, placed = explanation.as_dict(), coordinates_of(bags)
    columns = {name: np.asarray(table[name]) for name in SINGULAR if name in table and name != "instance_std"}
    carried = {name: values for name, values in (explanation.bags.kept or {}).items() if name not in PLACE}
    sizes, width, n_features = explanation.bags.sizes, 1 + len(columns) + len(carried), FEATURES_OF_A_BAG
    n_features = min(n_features, bags.n_features)
    while n_features > FEW_FEATURES and _fits(sizes, width + n_features) < FEW_INSTANCES:
        n_features -= 1
    features = np.argsort(-_links(explanation.bags, explanation.predictions), kind="stable")[:n_features].tolist()
    most, names, left_out = _fits(sizes, width + n_features), _names(bags), ""
    bags_shown: list[dict | None] = [None] * len(bags)
    for place, bag in enumerate(explained.tolist()):
        rows = slice(*explanation.bags.offsets[place : place + 2].tolist())
        at = np.sort(np.argsort(-np.abs(explanation.values[rows]), kind="stable")[:most])
        bags_shown[bag] = {
            "instances": table["instance"][rows][at].tolist(),
            "kept": [[_label(value) for value in values[rows][at]] for values in carried.values()],
            "columns": [rounded(values[rows][at]) for values in columns.values()],
            "features": [rounded(bags[bag][at, j]) for j in features],
            "prediction": rounded(explanation.predictions[[place]])[0],
        }
    if len(explained) < len(bags):
        left_out = (
            f" Leaving out instances one by one takes time, so {len(explained):,} of {len(bags):,} bags are explained: "
            f"those of at most {MOST_LEFT_OUT} instances, from the largest error on, until {MOST_ROWS_LEFT_OUT:,} "
            "instances have been predicted."
        )
    return {
        "kind": explanation.kind,
        "columns": [SINGULAR[name] for name in columns],
        "kept": [_label(name) for name in carried],
        "features": [names[j] for j in features],
        "n_features": bags.n_features,
        "axes": [] if placed is None else [list(carried).index(name) for name in placed[0]],
        "most": most,
        "bags": bags_shown,
        "left_out": left_out,
    }


def _explained(model, bags: Bags):
    """Return the positions of the bags that can be explained in reasonable time, and their explanation."""
    if explain(model, bags[[int(np.argmin(bags.sizes))]]).kind != "leave-one-out":
        return np.arange(len(bags)), explain(model, bags)
    explained = np.flatnonzero(bags.sizes <= MOST_LEFT_OUT)
    if not len(explained):
        raise ValueError(f"every bag has more than {MOST_LEFT_OUT} instances, too many to leave each out in turn")
    rows = np.cumsum(bags.sizes[explained] ** 2)  # a bag of L instances is predicted L times, with all but one
    explained = explained[: max(1, int(np.searchsorted(rows, MOST_ROWS_LEFT_OUT, side="right")))]
    return explained, explain(model, bags[explained])


def _fits(sizes: np.ndarray, width: int) -> int:
    """Return the largest number of instances to show per bag, with ``width`` numbers each."""
    counts = range(MOST_INSTANCES, 10, -1)
    return next((most for most in counts if np.minimum(sizes, most).sum() * width <= MOST_NUMBERS), 10)


def _links(bags: Bags, values: np.ndarray) -> np.ndarray:
    """Return the absolute correlation of the bag means of each feature with one value per bag."""
    means = segment_mean(np.nan_to_num(bags.instances), bags.offsets)
    means = means - means.mean(axis=0)
    return np.abs((values - values.mean()) @ means) / np.maximum(np.sqrt((means**2).sum(axis=0)), 1e-300)


def rounded(values) -> list:
    """Return numbers rounded to four digits, the resolution of a plot; None for NaN."""
    return [float(f"{value:.4g}") if np.isfinite(value) else None for value in np.asarray(values).tolist()]


COORDINATES = (("lon", "lat"), ("longitude", "latitude"), ("x", "y"), ("easting", "northing"))


def coordinates_of(bags: Bags) -> tuple[tuple[str, str], np.ndarray] | None:
    """Return names and values (a row per instance) of two kept columns of coordinates; None without them."""
    columns = {str(name).lower(): name for name in bags.kept or {}}
    for pair in COORDINATES:
        if set(pair) <= set(columns):
            names = tuple(columns[name] for name in pair)
            with suppress(TypeError, ValueError):
                values = np.column_stack([np.asarray(bags.kept[name], dtype=np.float64) for name in names])
                if np.isfinite(values).all():
                    return names, values
    return None
