"""Results: the long table of an evaluation, its summary, and paired differences on the same folds.

Rows of the long tables of results: one per cell, one per scored bag.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path

import numpy as np

from bagwise.evaluation import comparison
from bagwise.evaluation.comparison import COMPARED, compare_pairs, label, summarise
from bagwise.evaluation.metrics import METRICS, best_of, get_metric
from bagwise.evaluation.store import Folder
from bagwise.io.table_output import as_text, from_rows, write_table


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


class Results:
    """What an evaluation found, as tables: dicts of columns, to print, to write, or to make a data frame of.

    Parameters
    ----------
    record : dict, the plan as it is written down
    cells : results of cells; those that are not in the plan are ignored

    Attributes
    ----------
    methods : list of labels
    metric : the one that methods are compared by
    selection : "nested" or "paper", for methods that have several settings to choose among
    splits : list of (repeat, fold)
    missing : number of cells that have no result yet
    failures : (method, repeat, fold, error) of every cell that failed

    Examples
    --------
    >>> import bagwise as bw
    >>> from bagwise.evaluation import evaluate
    >>> bags, y = bw.testing.contracts.sample(40)
    >>> results = evaluate(bags, y, ["aggregated"], repeats=2)
    >>> len(results.table()["rmse"]), results.summary()["method"]
    (10, ['aggregated'])
    """

    def __init__(self, record: dict, cells: Iterable[dict]):
        self.record = record
        self.methods, self.metric, self.selection = list(record["methods"]), record["metric"], record["selection"]
        keys = {cell["key"]: (cell["method"], cell["repeat"], cell["fold"]) for cell in record["cells"]}
        self.splits = list(dict.fromkeys(where[1:] for where in keys.values()))
        self._cells = {keys[cell["key"]]: cell for cell in cells if cell["key"] in keys}
        self.missing = len(keys) - len(self._cells)
        self.failures = [(*at, cell["error"]) for at, cell in self._cells.items() if cell["error"]]

    @classmethod
    def load(cls, folder) -> Results:
        """The results in a folder, of a finished or an unfinished evaluation."""
        if not (Path(folder) / "plan.json").is_file():
            raise ValueError(f"{folder} holds no plan of an evaluation; bagwise evaluate --out makes one")
        record = Folder(folder).read_plan()
        if record is None:
            raise ValueError(
                f"{Path(folder) / 'plan.json'} is no plan of an evaluation, or is damaged; the command that made the "
                "folder writes it again and keeps what is finished"
            )
        found = (Folder(folder).read(cell["key"]) for cell in record["cells"])
        return cls(record, [cell for cell in found if cell is not None])

    # Numbers ------------------------------------------------------------------------------------------------

    def cell(self, method: str, split: tuple) -> dict | None:
        """The result of a method on a split (repeat, fold); None if it failed or is not there yet."""
        self._refuse_unknown(method)
        found = self.ran(method, split)
        return None if found is None or found["error"] else found

    def _refuse_unknown(self, method: str) -> None:
        if method not in self.methods:
            raise ValueError(f"there is no method {method!r} here; there are {', '.join(self.methods)}")

    def ran(self, method: str, split: tuple) -> dict | None:
        """What a method came to on a split, a failure (with its ``error``) too; None if it is not there yet."""
        return self._cells.get((method, *split))

    def scores(self, method: str, metric: str | None = None) -> np.ndarray:
        """(splits, settings): every setting scored, on every split; NaN where the method failed."""
        name = get_metric(metric or self.metric).name
        found = [self.cell(method, split) for split in self.splits]
        width = max([len(cell["settings"]) for cell in found if cell], default=1)
        return np.array([cell["scores"][name] if cell else [np.nan] * width for cell in found], dtype=np.float64)

    def setting(self, method: str) -> int | None:
        """Which setting the results are of: with several scored on the same folds, the one with the best mean.

        None if no setting has a score on every split that any of them has one on.
        """
        losses = get_metric(self.metric).loss(self.scores(method))
        known = losses[~np.isnan(losses).all(axis=1)]
        return 0 if losses.shape[1] == 1 else best_of(known.mean(axis=0)) if len(known) else None

    def values(self, method: str, metric: str | None = None) -> np.ndarray:
        """The score on every split; NaN where the method failed or has no such score."""
        chosen = self.setting(method)
        return np.full(len(self.splits), np.nan) if chosen is None else self.scores(method, metric)[:, chosen]

    def pooled(self, method: str, metric: str | None = None) -> np.ndarray:
        """One value per repeat: the score of the predictions of all its folds taken together."""
        rows = {name: np.array(column) for name, column in self.predictions(method).items()}
        if not rows:
            raise ValueError(f"no predictions of {method!r} are kept: many settings were scored, or every cell failed")
        of = get_metric(metric or self.metric).of
        parts = [rows["repeat"] == repeat for repeat in np.unique(rows["repeat"])]
        return np.array([of(rows["target"][at], rows["prediction"][at], rows["std"][at]) for at in parts])

    # Tables -------------------------------------------------------------------------------------------------

    def table(self) -> dict[str, list]:
        """One row per cell: data, method, selection, repeat, fold, setting, every metric, seconds, memory, error.

        ``selection`` is of the method: "nested" or "paper (optimistic)" where it had several settings, else "none".
        """
        return from_rows(cell_rows(self))

    def summary(self) -> dict[str, list]:
        """One row per method. For every metric its mean over splits, the deviation over splits (``_sd_folds``), that of
        the means of repeats (``_sd_repeats``) and how many cells have a value (``_cells``; ``cells`` for the main one).

        Over fixed folds or a fixed split, repeats vary the seed alone: they are averaged before the deviation over
        splits is taken. ``rank`` is the average rank by the main metric, of the methods that have it on every split;
        blank for the others. Then mean seconds and most memory of a cell.
        """
        return from_rows(summarise(self))

    def compare(self, *, metric: str | None = None, reference: str | None = None) -> dict[str, list]:
        """Paired differences (method minus reference) on the splits both have, by the corrected resampled t-test.

        All pairs, or every method against one; p-values are corrected (Holm) for the number of comparisons. Repeats of
        a fixed split are averaged first, as they vary the seed alone: p is NaN where there is one split, however
        often it is repeated.
        """
        pairs = list(combinations(self.methods, 2))
        if reference is not None:
            self._refuse_unknown(reference)
            pairs = [(method, reference) for method in self.methods if method != reference]
        return from_rows(compare_pairs(self, pairs, get_metric(metric or self.metric).name), names=COMPARED)

    def predictions(self, method: str) -> dict[str, list]:
        """One row per scored bag: repeat, fold, bag id, size, target, prediction, std (NaN without one).

        Empty where many settings were scored on the same folds: those predictions are not kept.
        """
        return from_rows(bag_rows(self, method))

    # Out ----------------------------------------------------------------------------------------------------

    def write(self, folder) -> None:
        """Write results.csv (and .parquet where pyarrow is), summary.csv and comparisons.csv."""
        tables = {"results": self.table(), "summary": self.summary(), "comparisons": self.compare()}
        for name, columns in tables.items():
            write_table(Path(folder) / f"{name}.csv", columns)
        if find_spec("pyarrow") is not None:
            write_table(Path(folder) / "results.parquet", tables["results"])

    def title(self) -> str:
        """What the numbers are, and how hyperparameters were chosen."""
        return comparison.title(self)

    def notes(self) -> list[str]:
        """What to know before believing a mean: which methods lack some values, or have none."""
        return comparison.notes(self)

    def __str__(self) -> str:
        columns = self.summary()
        kept = {name: column for name, column in columns.items() if any(value == value for value in column)}
        for name in [f"{metric}_cells" for metric in METRICS]:  # told where it is not the number of the main metric
            if columns[name] == columns["cells"] or not any(columns[name]):
                del kept[name]
        return "\n".join([self.title(), as_text(kept), *self.notes()])
