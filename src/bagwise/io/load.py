"""`load`: bags and targets from a data frame or a file.

Ids in several files, of which some are text (.csv, .tsv) and some have types: no bag comes apart unsaid.
"""

from __future__ import annotations

import os
from decimal import Decimal, InvalidOperation
from pathlib import Path

import narwhals as nw
import numpy as np

from bagwise.bags.container import Bags
from bagwise.bags.frames import as_frame, as_list
from bagwise.io.array_files import load_mat, load_npz
from bagwise.io.parquet import ENDINGS as PARQUET
from bagwise.io.parquet import Part, find_parts, is_data_set, read_parts
from bagwise.io.paths import find_files, stack
from bagwise.io.readers import is_row_number, read_arrow, read_csv, read_parquet, reading
from bagwise.io.tables import from_table


def agree_on_ids(frames: list[nw.DataFrame], paths: list[Path], written: list[bool], ids: list) -> list[nw.DataFrame]:
    """Tables whose ids are of one kind; ``written`` says which come from files of text.

    In files of text alone, ids that are text in one are so in all. Beside a file in which they are numbers, they are
    numbers.
    """
    for name in ids:
        if all(name in frame.columns for frame in frames):  # else `stack` says what is missing
            columns = _agree([frame[name] for frame in frames], paths, written)
            frames = [frame.with_columns(column) for frame, column in zip(frames, columns, strict=True)]
    return frames


def _agree(columns: list[nw.Series], paths: list[Path], written: list[bool]) -> list[nw.Series]:
    if len({column.dtype for column in columns}) == 1:
        return columns
    if all(written):
        _refuse_two_forms(columns, paths)
        return [column.cast(nw.String) for column in columns]
    typed = [k for k, text in enumerate(written) if not text]
    if not all(columns[k].dtype.is_numeric() for k in typed):
        return columns
    kind, beside = _common([columns[k].dtype for k in typed]), f"as {columns[typed[0]].dtype} in {paths[typed[0]]}"
    return [
        _as_numbers(column, path, kind, beside) if text and column.dtype == nw.String else column
        for column, path, text in zip(columns, paths, written, strict=True)
    ]


def _common(kinds: list):
    """The type in which ids of text are equal to those of the files with types; 0.1 is another number in Float32."""
    if all(kind.is_integer() for kind in kinds):
        return nw.Int64
    return nw.Float32 if all(kind == nw.Float32 for kind in kinds) else nw.Float64


def _refuse_two_forms(columns: list[nw.Series], paths: list[Path]) -> None:
    """Refuse 7 in one file and 7.0 or 007 in another: one bag, or two, who knows."""
    whole = {}
    for column, path in zip(columns, paths, strict=True):
        if column.dtype != nw.String:
            whole |= dict.fromkeys(_distinct(column), path)
    for column, path in zip(columns, paths, strict=True):
        texts = _distinct(column) if column.dtype == nw.String else []
        twice = [text for text in texts if (number := _number(text)) in whole and text != str(int(number))]
        if twice:
            number = int(_number(twice[0]))
            others = f" (and {len(twice) - 1} more such)" if len(twice) > 1 else ""
            raise ValueError(
                f"column {column.name!r} has {number} in {whole[number]} and {twice[0]} in {path}{others}: one number "
                "in two forms, which as text are two ids; write it in one form in all files"
            )


def _as_numbers(column: nw.Series, path: Path, kind, beside: str) -> nw.Series:
    """Ids of text as numbers, if every one is a number of its own."""
    numbers = {text: _fit(_number(text), kind) for text in _distinct(column)}
    seen: dict = {}
    for text, number in numbers.items():
        if number is None or number in seen:
            what = f"{text!r}, which is none" if number is None else f"{seen[number]!r} and {text!r}, which are one"
            raise ValueError(
                f"column {column.name!r} holds numbers, {beside}, but {path} has {what}; write the ids in one form in "
                "all files"
            )
        seen[number] = text
    values = [numbers.get(text) for text in column.to_list()]
    return nw.new_series(column.name, values, kind, backend=column.implementation)


def _fit(number: Decimal | None, kind) -> int | float | None:
    """A number as a value of a type; None for none, and for one that is not whole or too long where it must not be."""
    if number is None:
        return None
    if not kind.is_integer():
        return float(np.float32(number) if kind == nw.Float32 else number)
    return int(number) if abs(number) < 2**63 and number == int(number) else None


def _number(text: str) -> Decimal | None:
    """The number that a text writes, if any."""
    try:
        number = Decimal(text.replace("_", "?"))  # which Python reads over
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _distinct(column: nw.Series) -> list:
    return sorted(column.drop_nulls().unique().to_list())


ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".feather", ".arrow", ".mat", ".npz")


def load(
    source,
    *,
    bag=None,
    target=None,
    features=None,
    ignore=(),
    groups=None,
    missing="refuse",
    fill_values=(),
    weights=None,
    bag_features=None,
    variable=None,
) -> tuple[Bags, np.ndarray | None]:
    """Bags and targets from a data frame, or from files by the endings of their names.

    - **.csv, .tsv** (also .gz), **.parquet, .feather, .arrow**: a long table, read by pyarrow, polars or pandas,
      whichever is installed. The unnamed row numbers that pandas writes are left out. Bag ids and groups of a .csv or
      .tsv are whole numbers if all are written so, else text as it stands: "007", "1.10" and "1e5" stay what they are.
      Beside a file in which they are numbers, they are read as such.
    - **.mat**: a MATLAB matrix with the bag id in the first column and the target in the last, as in MISR1.mat;
      other columns by position. Features are named x1, x2, ...; those of MISR1, MISR2 and MODIS reflectance_1, ...,
      angle_1, ...
    - **.npz**: bags saved by `save_npz` (instances with offsets or sizes; ids, targets, groups, feature_names,
      weights, covariates and covariate_names if there are any), a padded array X with sizes (and y), or a long table
      as arrays by name. There ``bag``, ``target`` and ``groups`` are names of arrays. Pickled arrays are never read.

    Several tables, given as a list of paths or as a pattern such as ``"year-*.parquet"``, are read as one: their rows
    follow each other, and a bag may be spread over them. So are the Parquet files below a folder, or at a URL that
    fsspec knows (``s3://bucket/lake``). A folder named ``year=2020`` gives the files in it a column ``year``, if that
    is named as the bag, as a feature or in another role; unnamed, it is no feature: it says where the data lie. What is
    larger than memory is read by `scan`.

    Parameters
    ----------
    source : data frame, path, pattern, folder, URL, or list of paths
    bag, target, features, ignore, groups, missing, fill_values, weights, bag_features
        As for `from_table`. ``bag`` is needed for every table.
    variable : str, optional
        The matrix to take from a .mat file that holds several.

    Returns
    -------
    bags : Bags
    y : array of float64, one target per bag, or None if there is no target

    Examples
    --------
    >>> import pandas as pd, bagwise as bw
    >>> frame = pd.DataFrame({"site": ["a", "a", "b"], "red": [1.0, 2.0, 3.0], "aod": [0.1, 0.1, 0.3]})
    >>> bags, y = bw.load(frame, bag="site", target="aod")
    >>> bags
    Bags: 2 bags of 1 to 2 instances (3 in all), 1 feature
    """
    columns = {"bag": bag, "target": target, "features": features, "ignore": ignore, "groups": groups}
    columns |= {"weights": weights, "bag_features": bag_features}
    options = columns | {"missing": missing, "fill_values": fill_values}
    if not names_files(source):
        return from_table(source, **options)
    table = _read_files(source, _ids(**columns), _asked(**columns), only=features is not None and bag is not None)
    path = None if table is not None else find_files(source)[0]
    if path is not None and _ending(path) == ".mat":
        return load_mat(path, variable=variable, **options)
    if variable is not None:
        raise ValueError(f"variable= chooses a matrix of a .mat file; {path.name if path else source} is not one")
    return from_table(table, **options) if path is None else load_npz(path, **options)


def read_table(
    source, *, bag=None, target=None, groups=None, features=None, ignore=(), weights=None, bag_features=None
) -> nw.DataFrame | None:
    """The whole long table of a source, as `load` sees it; None for an archive (.mat, .npz), which is no data frame.

    The names only say which columns of row numbers and of partitions are wanted.
    """
    if not names_files(source):
        return as_frame(source)
    columns = {"bag": bag, "target": target, "features": features, "ignore": ignore, "groups": groups}
    columns |= {"weights": weights, "bag_features": bag_features}
    return _read_files(source, _ids(**columns), _asked(**columns), only=False)


def _read_files(source, ids: list, asked: list, only: bool) -> nw.DataFrame | None:
    """One table of all files, with only the columns asked for where a format allows it; None for an archive."""
    parts = find_parts(source)
    if is_data_set(source) or _is_partitioned(parts, asked):
        return read_parts(parts, asked, only=only)
    paths = find_files(source)
    endings = [_ending(path) for path in paths]
    odd = [path.name for path, ending in zip(paths, endings, strict=True) if ending in (".mat", ".npz")]
    if odd and len(paths) > 1:
        raise ValueError(f"several files must be tables (.csv, .tsv, .parquet, .feather, .arrow); {odd[0]} is not one")
    if odd:
        return None
    frames = [_read(path, ending, ids, asked, only) for path, ending in zip(paths, endings, strict=True)]
    if len(frames) == 1:
        return frames[0]
    written = [ending.startswith((".csv", ".tsv")) for ending in endings]
    return stack(agree_on_ids(frames, paths, written, ids), paths)


def _is_partitioned(parts: tuple[Part, ...], asked: list) -> bool:
    """Whether these are Parquet files in folders that have a column which is asked for."""
    columns = {value.column for part in parts for value in part.values}
    return any(name in columns for name in asked) and all(part.name.lower().endswith(PARQUET) for part in parts)


def _ids(bag, target, features, ignore, groups, weights, bag_features) -> list:
    """The columns whose values are only told apart; groups may be numbers that are learned from, too."""
    numbers = _asked(None, target, features, (), None, weights, bag_features)
    return [name for name in (bag, groups) if name is not None and name not in numbers]


def _asked(bag, target, features, ignore, groups, weights, bag_features) -> list:
    """Every column that is named somewhere."""
    roles = [name for name in (bag, target, groups, weights) if name is not None]
    roles += [] if bag_features is None or bag_features == "auto" else as_list(bag_features)
    return list(dict.fromkeys(roles + as_list([] if features is None else features) + as_list(ignore)))


def names_files(source) -> bool:
    """Whether a source is a path or a list of them, not a data frame."""
    if isinstance(source, list | tuple):
        return all(isinstance(one, str | os.PathLike) for one in source)
    return isinstance(source, str | os.PathLike)


def _ending(path: Path) -> str:
    ending = next((one for one in ENDINGS if path.name.lower().endswith(one)), None)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    if path.suffix.lower() in (".xlsx", ".xls", ".ods"):
        raise ValueError(f"{path.name} is a spreadsheet, which is not read; export the sheet as .csv")
    if ending is None:
        raise ValueError(f"{path.name} is of no known type; the known endings are {', '.join(ENDINGS)}")
    return ending


def _read(path: Path, ending: str, ids: list, asked: list, only: bool) -> nw.DataFrame:
    """The table in a file, without the unnamed row numbers unless they are asked for."""
    if ending == ".parquet":
        # reading some columns only is what the format is for; with features left open, all must be looked at
        frame = read_parquet(path, asked if only else None)
    elif ending in (".feather", ".arrow"):
        frame = read_arrow(path)
    else:
        frame = read_csv(path, "\t" if ending.startswith(".tsv") else ",", ids)
    with reading(path):  # names that are no text show themselves here
        frame = as_frame(frame)
        names = frame.columns
    return frame.drop([name for name in names if is_row_number(name) and name not in asked])
