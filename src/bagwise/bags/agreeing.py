"""Ids in several files, of which some are text (.csv, .tsv) and some have types: no bag comes apart unsaid."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from pathlib import Path

import narwhals as nw
import numpy as np


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
