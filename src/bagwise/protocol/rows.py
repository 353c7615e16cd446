"""Rows of the long tables of results: one per cell, one per scored bag."""

from __future__ import annotations

from bagwise.protocol.labelling import label
from bagwise.protocol.metrics import METRICS


def cell_rows(results) -> list[dict]:
    """One row per cell that was run; see `Results.table`."""
    rows = []
    for method in results.methods:
        about = {"data": results.record["data"]["name"], "method": method, "selection": label(results, method)}
        chosen = results.setting(method)
        for repeat, fold in results.splits:
            cell = results.ran(method, (repeat, fold))
            if cell is not None:
                # By the plan, not by the cell: another plan, whose repeats are other ones, may have made it.
                rows.append(about | {"repeat": repeat, "fold": fold} | _numbers(cell, chosen))
    return rows


def _numbers(cell: dict, chosen: int | None) -> dict:
    blank = bool(cell["error"]) or chosen is None
    row = {"n_train": cell["n_train"], "n_test": cell["n_test"], "settings": len(cell["settings"])}
    row |= {"setting": None if blank else cell["settings"][chosen]}
    row |= {name: float("nan") if blank else cell["scores"][name][chosen] for name in METRICS}
    return row | {name: cell[name] for name in ("seconds", "memory_mb", "error")}


def bag_rows(results, method: str) -> list[dict]:
    """One row per scored bag; see `Results.predictions`."""
    ids, sizes = results.record["data"]["ids"], results.record["data"]["sizes"]
    rows = []
    for repeat, fold in results.splits:
        cell = results.cell(method, (repeat, fold))
        if cell and cell["predictions"]:
            std = cell["std"] or [float("nan")] * len(cell["bags"])
            for bag, *numbers in zip(cell["bags"], cell["targets"], cell["predictions"], std, strict=True):
                where = {"repeat": repeat, "fold": fold, "bag": ids[bag], "size": sizes[bag]}
                rows.append(where | dict(zip(("target", "prediction", "std"), numbers, strict=True)))
    return rows
