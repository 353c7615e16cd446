"""The crop tables of Uriot (2019): a pixel of a county and year in a row, as a table or as the notebook's pickle."""

from __future__ import annotations

import pickle
from pathlib import Path

import narwhals as nw
import numpy as np

from bagwise.bags import Bags
from bagwise.bags.columns import ArrayColumns
from bagwise.bags.reading import is_row_number, read_csv, read_parquet, reading
from bagwise.bags.tables import from_table, gather

INVALID = (0.0, -32767.0)  # what the tables hold where a pixel was not seen
PICKLES = (".p", ".pkl", ".pickle")


def read_crop(path: Path, *, trust_pickle: bool = False) -> tuple[Bags, np.ndarray]:
    """A table with columns `bag` and `target`, or with the bag id in the first column and the target in the last."""
    frame = _read(path, trust_pickle)
    if isinstance(frame, np.ndarray):
        return _from_matrix(frame)
    if not nw.dependencies.is_into_dataframe(frame):
        raise ValueError(f"it holds a {type(frame).__name__}; a data frame or an array is needed")
    names = nw.from_native(frame, eager_only=True).columns
    rows = [name for name in names if is_row_number(str(name))]
    names = [name for name in names if name not in rows]
    if len(names) < 3:
        raise ValueError(f"it has {len(names)} columns; the bag id, features and the target are needed")
    bag, target = ("bag", "target") if {"bag", "target"} <= set(names) else (names[0], names[-1])
    return from_table(frame, bag=bag, target=target, ignore=rows)


def _read(path: Path, trust_pickle: bool):
    if path.suffix.lower() not in PICKLES:
        return read_parquet(path, None) if path.suffix.lower() == ".parquet" else read_csv(path, ",")
    if not trust_pickle:
        raise PermissionError(
            f"{path.name} is a pickle, which can run any code when opened; pass --trust-pickle if you trust where "
            "it comes from, or save it as .csv or .parquet"
        )
    try:
        with reading(path):
            return pickle.loads(path.read_bytes())
    except ImportError as error:
        raise ImportError(f"{path.name} needs what is not installed here: {error}; save it as .csv there") from error


def _from_matrix(matrix: np.ndarray) -> tuple[Bags, np.ndarray]:
    if matrix.ndim != 2 or matrix.shape[1] < 3:
        raise ValueError(f"it holds an array of shape {matrix.shape}; columns of bag id, features, target are needed")
    columns = {f"x{j}": column for j, column in enumerate(matrix.T)}
    ends = {"bag": "x0", "target": f"x{len(columns) - 1}"}
    return gather(ArrayColumns(columns), **ends, features=None, ignore=(), groups=None, missing="refuse")


def drop_invalid(bags: Bags, y: np.ndarray) -> tuple[Bags, np.ndarray, str]:
    """Without the instances that hold an invalid value, and bags that have no other; and a note that says how many."""
    kept = ~np.isin(bags.instances, INVALID).any(axis=1)
    sizes = np.add.reduceat(kept, bags.offsets[:-1], dtype=np.int64)
    left = sizes > 0
    if left.sum() < 2:
        raise ValueError("hardly a bag has an instance without invalid values; use --invalid keep")
    offsets = np.concatenate([[0], np.cumsum(sizes[left])])
    note = f"{(~kept).sum():,} of {len(kept):,} instances hold 0 or -32767: left out, and {(~left).sum()} bags wholly"
    return Bags(bags.instances[kept], offsets, bags.ids[left], feature_names=bags.feature_names), y[left], note
