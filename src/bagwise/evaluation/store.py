"""Where results are kept: a folder with the plan and one small file per finished cell, or this process's memory."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path

from bagwise.evaluation.plan import Plan, differences
from bagwise.model_files.cell_folder import UNREADABLE, CellFolder, sealed

# What every plan holds, to recognise one among other files of that name.
PLAN = {"library": str, "data": dict, "methods": dict, "selection": str, "metric": str, "splits": str, "cells": list}
PLANNED = {"key", "method", "repeat", "fold"}  # what it holds of every cell
ENDS = 3  # times that a run writes its tables if others, ending at the same moment, replace the plan


class Memory:
    """Results kept in this process only."""

    def __init__(self):
        self.results: dict[str, dict] = {}

    def open(self, plan: Plan) -> bool:
        """Note the plan; whether an evaluation had begun here before."""
        return False

    def close(self, plan: Plan, write_tables: Callable[[Path], None]) -> None:
        """Nothing is written."""

    def read(self, key: str) -> dict | None:
        return self.results.get(key)

    def write(self, result: dict) -> None:
        self.results[result["key"]] = result


class Folder(CellFolder):
    """A results folder: ``plan.json``, and ``cells/KEY.json`` for every finished cell.

    Two runs may share a folder, and cells of another data set or of a changed method are never taken for those of this
    plan.
    """

    def open(self, plan: Plan) -> bool:
        """Write the plan; warn if the folder held another one. Whether an evaluation had begun here before."""
        old = self.read_plan()
        begun = any(self.cells.glob("*.json"))
        if old is not None and begun:
            _warn_of_changes(self.path, old, plan.record)
            _warn_of_dropped(self.path, old, plan.record)
        if old is None and (self.path / "plan.json").exists():
            text = f"{self.path / 'plan.json'} is damaged, or no plan; it is written again, and finished cells are kept"
            warnings.warn(text, UserWarning, stacklevel=2)
        self.write_plan(plan.record)
        return begun

    def close(self, plan: Plan, write_tables: Callable[[Path], None]) -> None:
        """Write the tables, and the plan again if another run replaced it: those on disk are of the same run."""
        mine = json.loads(json.dumps(plan.record))
        for _ in range(ENDS):
            found = self.read_plan()
            if found != mine:
                _warn_of_dropped(self.path, found or {"methods": {}}, mine)
                self.write_plan(mine)
            write_tables(self.path)
            if self.read_plan() == mine:
                return

    def read_plan(self) -> dict | None:
        """The plan last written here; None if there is none that can be read."""
        try:
            found = json.loads((self.path / "plan.json").read_text(encoding="utf-8"))
            seal = found.pop("digest", None)  # earlier versions wrote none
            whole = all(isinstance(found[name], kind) for name, kind in PLAN.items())
            whole = whole and all(isinstance(cell, dict) and cell.keys() >= PLANNED for cell in found["cells"])
            return found if whole and seal in (None, sealed(found)) else None
        except (*UNREADABLE, AttributeError):  # a list has no pop of a name
            return None

    def write_plan(self, record: dict) -> None:
        record = json.loads(json.dumps(record))  # as it will be read: the digest is of that
        self.write_json("plan.json", record | {"digest": sealed(record)})


def _warn_of_changes(path: Path, old: dict, new: dict) -> None:
    """Cells that the new plan shares with the old one are used; the others stay where they are, and are not."""
    try:
        found = differences(old, new)
    except (KeyError, TypeError):
        found = ["its plan is of another version"]
    if found:
        warnings.warn(
            f"{path} holds results of another plan: {'; '.join(found)}. Results that do not belong to this plan are "
            "kept and not used; give another folder to keep the two apart",
            UserWarning,
            stacklevel=4,
        )


def _warn_of_dropped(path: Path, old: dict, new: dict) -> None:
    dropped = [method for method in old["methods"] if method not in new["methods"]]
    if dropped:
        warnings.warn(
            f"the tables in {path} are of the methods named now, no longer of {', '.join(dropped)}, which another run "
            "compared there. Its cells are kept: name all methods together to have them in one table",
            UserWarning,
            stacklevel=4,
        )
