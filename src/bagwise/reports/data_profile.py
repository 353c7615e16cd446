"""A profile of the data of a report: bags, sizes, targets, what is missing, and every feature in a row of a table."""

from __future__ import annotations

import numpy as np

from bagwise.bags import Bags
from bagwise.bags.segments import segment_sum
from bagwise.io.table_output import own_name
from bagwise.reports.charts import counted_bins, histogram, spark
from bagwise.reports.text import Column, counted, filled, numbers, percent, shortened, shown, texts

MOST_FEATURES = 40  # in the table
MOST_VALUES = 200_000  # of a feature, for its histogram and quantiles; of more, evenly spaced ones


def data_section(bags: Bags, y: np.ndarray) -> dict:
    """The section on the data: facts, the two histograms, the table of features."""
    rows = [profile(name, bags.instances[:, j], bags, y) for j, name in enumerate(_names(bags)[:MOST_FEATURES])]
    if bags.covariates is not None:
        names = bags.covariate_names or [f"covariate {j + 1}" for j in range(bags.covariates.shape[1])]
        columns = list(zip(names, bags.covariates.T, strict=True))[:MOST_FEATURES]
        rows += [profile(f"{name} (of the bag)", bags.expand(values), bags, y) for name, values in columns]
    low, high = int(bags.sizes.min()), int(bags.sizes.max())
    charts = [{"svg": histogram(y, own_name(bags.target_name, "target", ())), "caption": _target_text(y)}]
    if high > low:
        text = f"Half of the bags have {np.median(bags.sizes):,.10g} instances or fewer."
        charts.append({"svg": histogram(bags.sizes, "instances in the bag", log=high >= 20 * low), "caption": text})
    return {
        "facts": _facts(bags),
        "charts": charts,
        "columns": features_table(rows),
        "more": f"The first {MOST_FEATURES} of {bags.n_features:,} features." * (bags.n_features > MOST_FEATURES),
    }


def _names(bags: Bags) -> list[str]:
    return [shortened(str(name), 100) for name in bags.feature_names or _numbered(bags.n_features)]


def _numbered(n: int) -> list[str]:
    return [f"x{j + 1}" for j in range(n)]


def _facts(bags: Bags) -> list[tuple[str, str]]:
    low, high = int(bags.sizes.min()), int(bags.sizes.max())
    found = [
        ("Bags", f"{len(bags):,}"),
        ("Instances", f"{bags.n_instances:,}"),
        ("In a bag", f"{low:,}" if low == high else f"{low:,} to {high:,}"),
        ("Features", f"{bags.n_features:,}"),
    ]
    if bags.groups is not None:
        found.append(("Groups", f"{len(set(bags.groups.tolist())):,}"))
    if bags.covariates is not None:
        found.append(("Covariates of the bag", f"{bags.covariates.shape[1]:,}"))
    missing = int(np.isnan(bags.instances).sum()) if bags.has_missing else 0
    found.append(
        ("Missing values", f"{missing:,} ({percent(missing / bags.instances.size, 1)})" if missing else "none")
    )
    row = (bags.kept or {}).get("row")
    if row is not None and len(row):
        last = int(np.max(row)) + 1
        out = last - len(np.unique(row))
        found.append(("Left out", f"{counted(out, 'row')} of the first {last:,} of the table" if out else "no row"))
    return found


def _target_text(y: np.ndarray) -> str:
    text = f"Mean {shown(float(y.mean()))}, standard deviation {shown(float(y.std()))}"
    distinct = len(np.unique(y))
    return f"{text}, {counted(distinct, 'distinct value')}." if distinct < len(y) / 2 else f"{text}."


def profile(name: str, values: np.ndarray, bags: Bags, y: np.ndarray) -> dict:
    """What a feature looks like.

    ``between`` is the share of its variance that lies between bags: 0 where every bag has the same mean, 1 where a bag
    has one value. ``correlation`` is that of the means of bags with the targets. Both are None where nothing varies.
    """
    known = np.isfinite(values)
    missing = 1.0 - float(known.mean())
    if not known.any():
        return {"name": name, "missing": missing}
    filled_in = np.where(known, values, 0.0).astype(np.float64)
    counts = segment_sum(known.astype(np.float64), bags.offsets)
    there = counts > 0
    means = segment_sum(filled_in, bags.offsets)[there] / counts[there]
    centre = filled_in.sum() / counts.sum()
    total = float((np.where(known, values - centre, 0.0) ** 2).sum())
    some = values[known]
    some = some[:: -(-len(some) // MOST_VALUES)]
    low, median, high = np.quantile(some, [0.0, 0.5, 1.0]).tolist()
    varies = high > low and means.std() > 1e-12 * max(abs(low), abs(high)) and y[there].std() > 0
    return {
        "name": name,
        "missing": missing,
        "low": low,
        "median": median,
        "high": high,
        "counts": counted_bins(some, 24)[0],
        "between": float((counts[there] * (means - centre) ** 2).sum()) / total if high > low else None,
        "correlation": float(np.corrcoef(means, y[there])[0, 1]) if varies else None,
    }


def features_table(rows: list[dict]) -> list[Column]:
    """A row per feature: a small histogram, its range, what is missing, how it differs between bags."""

    def of(key: str) -> list:
        return [row.get(key) for row in rows]

    def text(row: dict) -> str:
        if "low" not in row:
            return f"{row['name']}: no value"
        return f"distribution of {row['name']} from {shown(row['low'])} to {shown(row['high'])}"

    drawings = [spark(row.get("counts", [0]), text(row)) for row in rows]
    ranges = ["no value" if "low" not in row else "constant" if row["low"] == row["high"] else "" for row in rows]
    return filled(
        texts("feature", of("name")),
        Column("distribution", ranges, None, "how many instances have which value", drawings),
        _each("smallest", of("low")),
        _each("median", of("median")),
        _each("largest", of("high")),
        *([numbers("missing", of("missing"), shown=lambda share: percent(share, 1))] if any(of("missing")) else []),
        numbers("between bags", of("between"), shown=percent, note="share of the variance that is between bags"),
        numbers("with target", of("correlation"), digits=2, sign=True, note="correlation of bag means with the target"),
    )


def _each(head: str, values: list) -> Column:
    """Numbers of different units, each with three digits of its own."""
    return numbers(head, values, shown=shown)
