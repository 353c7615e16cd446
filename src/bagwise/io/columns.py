"""What can be odd about a column of a table, told from its values alone."""

from __future__ import annotations

from datetime import datetime
from unicodedata import normalize

import narwhals as nw
import numpy as np

from bagwise.io.readers import NULLS

ODDITIES = {
    "infinite": ("error", "infinite values; replace them, or leave those rows out with missing='drop-instances'"),
    "missing": ("note", "missing values; missing= says whether to refuse, drop or keep those rows"),
    "empty": ("error", "not a single value; ignore it"),
    "constant": ("note", "one value throughout, which says nothing"),
    "target": ("warning", "equal to the target, and gives the answer away; ignore it if it is a copy"),
    "dates": ("warning", "looks like dates read as numbers, and would be a feature; ignore it if that is not meant"),
    "split": ("warning", "named like a split of the bags, and would be a feature; ignore it if that is not meant"),
    "counter": ("warning", "counts the rows, and would be a feature; ignore it if that is not meant"),
    "bag-level": ("note", "constant within every bag: a property of the bag, and can be given as a bag feature"),
}


# A code that starts with 0, such as 01001, is none.
NUMBER = r"^\s*[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\s*$"
SPLITS = ("fold", "folds", "split", "cv", "partition")


def oddities(name, values, finite, codes, n_bags, y) -> list[str]:
    """What is odd about one feature column."""
    if len(finite) == 0:
        return ["empty"]
    odd = ["infinite"] if np.isinf(values).any() else []
    odd += ["missing"] if np.isnan(values).any() else []
    if finite.min() == finite.max():
        return [*odd, "constant"]
    if y is not None and np.array_equal(values, y):
        return [*odd, "target"]
    if str(name).lower() in SPLITS:
        return [*odd, "split"]
    if look_like_dates(np.unique(finite)):
        return [*odd, "dates"]
    if len(values) > 20 and (np.diff(values) == 1).all():
        return [*odd, "counter"]
    if n_bags < len(values) and len(finite) == len(values) and not varying(values, codes, n_bags).any():
        return [*odd, "bag-level"]
    return odd


def doubtful_texts(table, used) -> dict:
    """Columns, of those that are not used, that are text though most of their values are numbers; and what to say."""
    others = [name for name in table.names if name not in used and table.kind(name) in ("String", "Object")]
    found = {name: _doubt(table.column(name)) for name in others}
    return {name: f"column {name!r} is text, and left out: {text}" for name, text in found.items() if text}


def _doubt(series: nw.Series) -> str | None:
    some = _texts(series.drop_nulls().head(1000))
    if len(some) == 0 or some.str.contains(NUMBER).mean() <= 0.5:
        return None
    known = _texts(series.drop_nulls())
    odd = known.filter(~known.str.contains(NUMBER))
    if len(odd) == 0:
        return "its values are numbers; make it a column of numbers, or name it in ignore="
    others = f" (nor are {len(odd) - 1:,} more)" if len(odd) > 1 else ""
    return f"most of its values are numbers, but {odd[0]!r} is not{others}; correct it, or name the column in ignore="


def alike_ids(ids) -> str | None:
    """What to say of bag ids that look the same: they differ by blanks, or by how Unicode writes their letters.

    Examples
    --------
    >>> alike_ids(["A1", "B", "A1 "])
    "bag ids 'A1' and 'A1 ' differ only by blanks or in Unicode form, and are two bags; write them the same if ..."
    """
    ids = np.asarray(ids)
    texts = [one for one in ids.tolist() if isinstance(one, str)] if ids.dtype.kind in "OUT" else []
    if all(one == _seen(one) for one in texts):
        return None
    first: dict[str, str] = {}
    pairs = [(first[key], one) for one in texts if first.setdefault(key := _seen(one), one) != one]
    if not pairs:
        return None
    others = f" (and {len(pairs) - 1:,} more such)" if len(pairs) > 1 else ""
    return (
        f"bag ids {ascii(pairs[0][0])} and {ascii(pairs[0][1])}{others} differ only by blanks or in Unicode form, and "
        "are two bags; write them the same if one is meant"
    )


def _seen(text: str) -> str:
    """A text as it looks: composed letters, single blanks between words, none around."""
    return " ".join(normalize("NFC", text).split())


def _texts(series: nw.Series) -> nw.Series:
    """As text, also what pandas holds as objects, without what stands for a missing value."""
    # narwhals looks at the first hundred objects of pandas, and may call them text
    if series.dtype == nw.Object or getattr(series.to_native(), "dtype", None) == np.dtype(object):
        series = nw.new_series("text", [str(one) for one in series.to_list()], nw.String, backend=series.implementation)
    return series.filter(~series.is_in(NULLS))


def varying(values, codes, n_bags) -> np.ndarray:
    """Which bags hold more than one value."""
    low, high = np.full(n_bags, np.inf), np.full(n_bags, -np.inf)
    np.fmin.at(low, codes, values)
    np.fmax.at(high, codes, values)
    return low < high


def look_like_dates(values) -> bool:
    """Whether two numbers or more all read as days between 1900 and 2100, such as 20190423.

    Examples
    --------
    >>> look_like_dates([20190423, 20190424]), look_like_dates([20190423, 20199924])
    (True, False)
    """
    values = np.asarray(values)
    if values.dtype.kind not in "iuf" or len(values) < 2 or not ((values > 19000000) & (values < 21010000)).all():
        return False
    return (values == np.trunc(values)).all() and all(_is_day(int(value)) for value in values[:200])


def _is_day(number: int) -> bool:
    try:
        datetime.strptime(str(number), "%Y%m%d")
    except ValueError:
        return False
    return True
