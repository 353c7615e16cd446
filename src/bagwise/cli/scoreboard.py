"""The table that `bagwise evaluate` prints: as much of it as the terminal has room for."""

from __future__ import annotations

from bagwise.protocol.summaries import against_best

HEADS = {
    "sd_folds": "±folds",
    "sd_repeats": "±repeats",
    "from_best": "vs best",
    "p_holm": "p Holm",
    "seconds": "s/cell",
    "memory_mb": "MB",
}
# The least important first. The method and its score are always shown.
LEFT_OUT_FIRST = ("memory_mb", "sd_repeats", "seconds", "rank", "p_holm", "sd_folds", "cells", "from_best")
MIN_WIDTH, GAP = 7, 1


def scoreboard(results, *, width: int):
    """Methods, their scores (± over folds, ± over repeats), how far each is from the best, and what was left out.

    Returns
    -------
    table : of rich
    left_out : heads of the columns for which there is no room
    """
    from rich.table import Table

    rows = against_best(results)
    columns = _columns(rows, results.metric)
    shown, fits = _fitting(columns, width)
    table = Table(box=None, padding=(0, GAP, 0, 0))
    for name in shown:
        if name == "method":
            table.add_column(name, no_wrap=fits, overflow="fold")  # too long for a line, a name takes two
        else:
            table.add_column(HEADS.get(name, name), justify="right", no_wrap=True, min_width=MIN_WIDTH)
    for k, row in enumerate(rows):
        table.add_row(*[columns[name][k] for name in shown], style="bold green" if row["best"] else None)
    return table, [HEADS.get(name, name) for name in columns if name not in shown]


def _columns(rows: list[dict], metric: str) -> dict[str, list[str]]:
    """Texts by column, those that say something; how many cells a mean is of, where it is not the same for all."""
    names = {name: name.removeprefix(f"{metric}_") for name in rows[0] if name not in ("failed", "best")}
    columns = {short: [row[name] for row in rows] for name, short in names.items()}
    if len(set(columns["cells"])) == 1:
        del columns["cells"]
    return {
        name: list(map(_shown, values))
        for name, values in columns.items()
        if any(value is not None for value in values)
    }


def _fitting(columns: dict[str, list[str]], width: int) -> tuple[list[str], bool]:
    """The columns there is room for, and whether there is room for these."""
    shown = list(columns)
    for name in LEFT_OUT_FIRST:
        if _needed(columns, shown) <= width:
            break
        shown = [other for other in shown if other != name]
    return shown, _needed(columns, shown) <= width


def _needed(columns: dict[str, list[str]], shown: list[str]) -> int:
    return sum(max([MIN_WIDTH, len(HEADS.get(name, name)), *map(len, columns[name])]) + GAP for name in shown)


def _shown(value) -> str:
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return "" if value is None else str(value)
