"""What a run folder remembers: the data it was made from, read again, and its methods, fitted on all of it."""

from __future__ import annotations

from collections import Counter

import numpy as np

from bagwise.bags import Bags, load
from bagwise.bags.several import find_files
from bagwise.protocol.cells import describe_setting
from bagwise.protocol.describing import describe
from bagwise.protocol.entries import Entry, as_entries
from bagwise.protocol.fingerprints import of_data
from bagwise.protocol.fitting import fit


def recall_data(record: dict, source=None) -> tuple[Bags, np.ndarray]:
    """The bags and targets of a run: from ``source``, or from where the run had them; refused if they are others.

    Raises
    ------
    ValueError, OSError
        In words: nothing was recorded, the file is gone, or it is not what it was.
    """
    origin = record.get("origin") or {}
    path = source or origin.get("path")
    if path is None:
        raise ValueError("the run did not record where its data came from")
    bags, y = load(path, **origin.get("options", {}))
    files = find_files(path)
    refuse_other_data(record, bags, y, name=files[0].name + (" and others" if len(files) > 1 else ""))
    return bags, y


def refuse_other_data(record: dict, bags: Bags, y, *, name: str = "the data") -> None:
    """Refuse bags and targets that are not those of the run."""
    y = None if y is None else np.asarray(y, dtype=np.float64)
    if y is None or of_data(bags, y) != record["data"]["hash"]:
        raise ValueError(f"{name} is not what it was when the run was made: the hash of its bags and targets differs")


def recall_model(results, method: str, bags: Bags, y: np.ndarray):
    """A method of the run fitted on all bags, with the setting that its folds chose most often."""
    entry, _ = _recall_entry(results, method)
    return fit(entry.make(_seed(results)), _usual_setting(results, method, entry), bags, y)


def unfitted(results, method: str):
    """A method of the run, made again from its name; None for one that is not of the catalogue."""
    try:
        return _recall_entry(results, method)[0].make(_seed(results))
    except (ValueError, ImportError):
        return None


def is_as_it_was(results, method: str) -> bool:
    """Whether the method of that name still has the parameters that it had in the run."""
    return _recall_entry(results, method)[1]


def _recall_entry(results, method: str) -> tuple[Entry, bool]:
    """The entry, and whether it is the one of the run: with its search space, without, or changed since."""
    written = results.record["methods"][method]
    for tune in (True, False):
        (entry,) = as_entries(method, tune=tune)
        if describe(entry.settings) == written["settings"]:
            return entry, describe(entry.make(_seed(results))) == written["estimator"]
    return entry, False


def _seed(results) -> int:
    return results.record.get("random_state") or 0


def _usual_setting(results, method: str, entry: Entry) -> dict:
    names = {describe_setting(setting): setting for setting in entry.settings}
    ((usual, _),) = chosen_settings(results, method).most_common(1) or [("", 0)]
    return names.get(usual, entry.settings[0])


def chosen_settings(results, method: str) -> Counter:
    """How often each setting was chosen: by every fold for itself, or one for all; none where none has a score."""
    chosen = results.setting(method)
    if chosen is None:
        return Counter()
    cells = [results.cell(method, split) for split in results.splits]
    return Counter(cell["settings"][chosen] for cell in cells if cell)
