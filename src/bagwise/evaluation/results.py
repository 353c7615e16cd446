"""`Results`: what an evaluation found, as tables, and what a reader must know before believing them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from html import escape
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bagwise.bags.folds import Folds
from bagwise.bags.frames import to_frame
from bagwise.bags.validation import aligned
from bagwise.evaluation.comparison import average_ranks, by_split, contenders, corrected_t_test, holm, spread
from bagwise.evaluation.plan import read_plan
from bagwise.evaluation.selection import EXPLANATIONS, LABELS
from bagwise.io.table_output import as_html, as_text, from_rows, own_name, to_rows, write_table
from bagwise.metrics import METRICS, Metric, Uncertainty, best_of, get_metric, score
from bagwise.model_files.store import Store

# Columns of a comparison, also where there is no pair to compare.
COMPARED = ("method", "reference", "metric", "selection", "reference_selection", "splits")
COMPARED += ("difference", "standard_error", "t", "p", "p_holm")
MOST_LABELS = 20  # whose scores are printed
SHOWN_BY = ("bags", "rmse", "mae", "bias", "r2", "spearman", "coverage")  # of the scores by label


def data_frame(columns: Callable) -> Callable:
    """Turn a method that returns columns by name into one that returns a data frame.

    The frame is of pandas, else of polars; without either it is the columns. `Results.rows` calls the wrapped method,
    so that the command line does not import pandas.
    """

    @wraps(columns)
    def method(self, *arguments, **options):
        return to_frame(columns(self, *arguments, **options))

    return method


class Forecast(NamedTuple):
    """Positions of bags, their targets and predictions, and standard deviations and uncertainty or None."""

    bags: Any
    targets: Any
    predictions: Any
    std: np.ndarray | None
    uncertainty: Uncertainty | None


class Results:
    """What an evaluation found, as tables to print, to write, or to go on with.

    Printed, and in a notebook, it is the table of its methods, best first. `table`, `summary`, `compare`,
    `predictions` and `scores_by` are data frames of pandas, or else of polars; without both they are dicts of columns.

    Parameters
    ----------
    record : dict, the plan as it is written down
    cells : results of cells; those that are not in the plan are ignored

    Attributes
    ----------
    methods : list of labels
    metric : the one that methods are compared by
    level : that of the intervals that are judged
    selection : "nested" or "paper", for methods that have several settings to choose among
    splits : list of (repeat, fold)
    by : what scores are given apart by, {"name": ..., "labels": a label for every bag}, or None
    missing : number of cells that have no result yet
    failures : (method, repeat, fold, error) of every cell that failed

    Examples
    --------
    >>> import bagwise as bw
    >>> from bagwise.evaluation import evaluate
    >>> bags, y = bw.testing.contract_checks.sample(40)
    >>> results = evaluate(bags, y, ["aggregated"], repeats=2)
    >>> len(results.table()["rmse"]), results.summary()["method"].to_list()
    (10, ['aggregated'])
    """

    def __init__(self, record: dict, cells: Iterable[dict]):
        self.record = record
        self.methods, self.metric, self.selection = list(record["methods"]), record["metric"], record["selection"]
        keys = {cell["key"]: (cell["method"], cell["repeat"], cell["fold"]) for cell in record["cells"]}
        self.splits = list(dict.fromkeys(where[1:] for where in keys.values()))
        self._cells = {keys[cell["key"]]: cell for cell in cells if cell["key"] in keys}
        self.by, self.level = record.get("by"), record["level"]
        self.missing = len(keys) - len(self._cells)
        self.failures = [(*at, cell["error"]) for at, cell in self._cells.items() if cell["error"]]

    @classmethod
    def load(cls, folder) -> Results:
        """Load the results in a folder, of a finished or an unfinished evaluation."""
        path = Path(folder)
        if not path.exists():
            raise ValueError(f"there is no folder {folder}; bagwise evaluate --out makes one")
        if path.suffix == ".bagwise" and path.is_file():
            text = f"{folder} is a model, not the folder of an evaluation"
            raise ValueError(f"{text}; `bagwise fit ... --report page.html` writes the report of a model")
        if not (path / "plan.json").is_file():
            raise ValueError(f"{folder} holds no plan of an evaluation; bagwise evaluate --out makes one")
        record = read_plan(store := Store(path))
        if record is None:
            raise ValueError(
                f"{path / 'plan.json'} is not a plan of an evaluation, or is damaged; the command that made the "
                "folder writes it again and keeps what is finished"
            )
        cells = (store.read(cell["key"]) for cell in record["cells"])
        return cls(record, [cell for cell in cells if cell is not None])

    def cell(self, method: str, split: tuple) -> dict | None:
        """Return the result of a method on a split (repeat, fold); None if it failed or is not there yet."""
        self._refuse_unknown(method)
        result = self.ran(method, split)
        return None if result is None or result["error"] else result

    def _refuse_unknown(self, method: str) -> None:
        if method not in self.methods:
            raise ValueError(f"there is no method {method!r} here; there are {', '.join(self.methods)}")

    def ran(self, method: str, split: tuple) -> dict | None:
        """Return the result of a method on a split, or its failure (with ``error``); None if it is not there yet."""
        return self._cells.get((method, *split))

    def _done(self, method: str, repeat: int | None = None) -> list[dict]:
        """Return the results of a method, of all repeats or of one."""
        cells = (self.cell(method, split) for split in self.splits if repeat in (None, split[0]))
        return [cell for cell in cells if cell]

    def _measure(self, metric: str | None = None) -> Metric:
        """Return a metric, by default the main one, for intervals of this level."""
        return get_metric(metric or self.metric, level=self.level)

    def scores(self, method: str, metric: str | None = None) -> np.ndarray:
        """Return the scores of each setting on each split, (splits, settings); NaN where the method failed."""
        name = self._measure(metric).name
        cells = [self.cell(method, split) for split in self.splits]
        blank = [np.nan] * max([len(cell["settings"]) for cell in cells if cell], default=1)
        # .get, for a metric that was added after the cell ran
        return np.array([cell["scores"].get(name, blank) if cell else blank for cell in cells], dtype=np.float64)

    def setting(self, method: str) -> int | None:
        """Return the position of the setting that the results are for: the one with the best mean of several.

        None if no setting has a score on every split that any of them has one on.
        """
        losses = self._measure().loss(self.scores(method))
        scored = losses[~np.isnan(losses).all(axis=1)]
        return 0 if losses.shape[1] == 1 else best_of(scored.mean(axis=0)) if len(scored) else None

    def values(self, method: str, metric: str | None = None) -> np.ndarray:
        """Return the score on each split; NaN where the method failed or has no such score."""
        chosen = self.setting(method)
        return np.full(len(self.splits), np.nan) if chosen is None else self.scores(method, metric)[:, chosen]

    def pooled(self, method: str, metric: str | None = None) -> np.ndarray:
        """Return one value per repeat: the score of the predictions of all folds together."""
        repeats, of = self.repeats(method), self._measure(metric)
        if not repeats:
            raise ValueError(f"no predictions of {method!r} are kept: many settings were scored, or every cell failed")
        return np.array([of(*self.forecast(method, repeat)[1:]) for repeat in repeats])

    def repeats(self, method: str) -> list[int]:
        """Return the repeats with predictions of a method; none if many settings were scored, or every cell failed."""
        repeats = [split[0] for split in self.splits if (self.cell(method, split) or {}).get("predictions")]
        return list(dict.fromkeys(repeats))

    def forecast(self, method: str, repeat: int) -> Forecast:
        """Return the predictions of a method in one repeat."""
        cells = [cell for cell in self._done(method, repeat) if cell["predictions"]]
        columns: dict[str, Any] = {}
        for name in ("bags", "targets", "predictions", "std"):
            parts = [cell[name] for cell in cells]
            columns[name] = None if None in parts else np.concatenate(parts)
        parts, uncertainty = [cell.get("uncertainty") for cell in cells], None
        if None not in parts:
            lists = {name: sum((part[name] for part in parts), []) for name in parts[0]}
            uncertainty = Uncertainty.of_lists(lists, self.level)
        return Forecast(**columns, uncertainty=uncertainty)

    def folds(self, method: str, repeat: int) -> Folds:
        """Return the folds of one repeat, as far as a method has results."""
        test, trains = np.full(self.record["data"]["bags"], -1), self.record.get("trains")
        cells = self._done(method, repeat)
        for k, cell in enumerate(cells):
            test[cell["bags"]] = k
        if trains is None:
            return Folds(test)
        names = [fold for at, fold in self.splits if at == repeat and self.cell(method, (at, fold))]
        return Folds(test, tuple(np.isin(np.arange(len(test)), trains[f"{repeat}/{name}"]) for name in names))

    # Tables -------------------------------------------------------------------------------------------------

    @data_frame
    def table(self):
        """Return a data frame, one row per cell, with its scores, seconds, memory and error.

        ``selection`` is that of the method: "nested" or "paper (optimistic)" if it had several settings, else "none".
        """
        rows = []
        for method in self.methods:
            about = {"data": self.record["data"]["name"], "method": method}
            about |= {"selection": LABELS[self.selection_of(method)]}
            chosen, scores = self.setting(method), {name: self.values(method, name).tolist() for name in METRICS}
            for k, (repeat, fold) in enumerate(self.splits):
                cell = self.ran(method, (repeat, fold))
                if cell is None:
                    continue
                # By the plan, not by the cell: another plan, whose repeats are other ones, may have made it.
                row = about | {"repeat": repeat, "fold": fold, "n_train": cell["n_train"], "n_test": cell["n_test"]}
                setting = None if cell["error"] or chosen is None else cell["settings"][chosen]
                row |= {"settings": len(cell["settings"]), "setting": setting}
                row |= {name: values[k] for name, values in scores.items()}
                rows.append(row | {name: cell[name] for name in ("seconds", "memory_mb", "error")})
        return from_rows(rows)

    @data_frame
    def summary(self):
        """Return a data frame, one row per method, with mean seconds and most memory of a cell.

        For every metric its mean over splits, the deviation over splits (``_sd_folds``), that of the means of repeats
        (``_sd_repeats``) and how many cells have a value (``_cells``; ``cells`` for the main one). Over fixed splits,
        repeats vary the seed alone: they are averaged before the deviation over splits is taken. ``rank`` is the
        average rank by the main metric, of the methods that have it on every split.
        """
        splits, repeats = self.distinct_splits(), np.array([repeat for repeat, _ in self.splits])
        ranks = average_ranks(self._measure().loss(self._ranked_scores(splits)))
        rows = []
        for method, rank in zip(self.methods, ranks.tolist(), strict=True):
            spreads = {name: spread(self.values(method, name), repeats, splits) for name in METRICS}
            row = {"method": method, "selection": LABELS[self.selection_of(method)]}
            n_failed = sum(failed == method for failed, *_ in self.failures)
            row |= {"cells": spreads[self.metric]["_cells"], "failed": n_failed}
            row |= {f"{name}{end}": value for name in METRICS for end, value in spreads[name].items()}
            done = self._done(method)
            seconds, memory = ([cell[name] for cell in done] or [np.nan] for name in ("seconds", "memory_mb"))
            rows.append(row | {"rank": rank, "seconds": float(np.mean(seconds)), "memory_mb": float(np.max(memory))})
        return from_rows(rows)

    @data_frame
    def compare(self, *, metric: str | None = None, reference: str | None = None):
        """Compare methods by paired differences on shared splits and the corrected resampled t-test.

        A data frame, one row per pair; p-values are corrected (Holm) for the number of comparisons. Repeats of a fixed
        split are averaged first, as they vary the seed alone: p is NaN where there is one split.

        Parameters
        ----------
        metric : str, optional
            One of the metrics; default: the one that methods are compared by.
        reference : str, optional
            The method that every other is compared with; default: all pairs.
        """
        metric, splits, rows = self._measure(metric).name, self.distinct_splits(), []
        pairs = list(combinations(self.methods, 2))
        if reference is not None:
            self._refuse_unknown(reference)
            pairs = [(method, reference) for method in self.methods if method != reference]
        for pair in pairs:
            gaps = self.values(pair[0], metric) - self.values(pair[1], metric)
            shared = ~np.isnan(gaps)
            gaps = by_split(gaps[shared], splits[shared])
            sizes = [(cell["n_train"], cell["n_test"]) for cell in self._done(pair[0])]
            n_train, n_test = np.mean(sizes, axis=0) if sizes else (1, 1)
            test = corrected_t_test(gaps, n_train=n_train, n_test=n_test)
            labels = [LABELS[self.selection_of(method)] for method in pair]
            rows.append((*pair, metric, *labels, len(gaps), test.mean, test.error, test.t, test.p))
        corrected = holm([row[-1] for row in rows]).tolist()
        rows = [dict(zip(COMPARED, (*row, p), strict=True)) for row, p in zip(rows, corrected, strict=True)]
        return from_rows(rows, names=COMPARED)

    @data_frame
    def predictions(self, method: str):
        """Return a data frame, one row per scored bag: repeat, fold, bag id, size, target, prediction and std.

        The id and the target have the names of the table that the bags were loaded from. ``std`` is NaN for methods
        that give none. The table is empty if many settings were scored on the same folds, as those are not kept.
        """
        ids, sizes = self.record["data"]["ids"], self.record["data"]["sizes"]
        bag_name, target_name = self.own_names()
        rows = []
        for repeat, fold in self.splits:
            cell = self.cell(method, (repeat, fold))
            if cell and cell["predictions"]:
                std = cell["std"] or [float("nan")] * len(cell["bags"])
                for bag, *numbers in zip(cell["bags"], cell["targets"], cell["predictions"], std, strict=True):
                    where = {"repeat": repeat, "fold": fold, bag_name: ids[bag], "size": sizes[bag]}
                    rows.append(where | dict(zip((target_name, "prediction", "std"), numbers, strict=True)))
        return from_rows(rows)

    def own_names(self) -> tuple[str, str]:
        """Return the names of bag id and target in the table of the data; "bag" and "target" by default."""
        data, fixed = self.record["data"], ["repeat", "fold", "size", "prediction", "std"]
        bag = own_name(data.get("id_name"), "bag", fixed)
        return bag, own_name(data.get("target_name"), "target", [*fixed, bag])

    @data_frame
    def scores_by(self, labels=None):
        """Return scores by label (site, year): a data frame with a row per method and label.

        Every metric is that of the label's held-out bags taken together, the mean over repeats; ``bias`` is the mean of
        prediction minus target, ``rmse_sd_repeats`` the deviation over repeats. A label of one bag has no R² and no
        correlation. Methods whose predictions are not kept have no rows; `by_notes` has further caveats.

        Parameters
        ----------
        labels : one label per bag, in the order of the data, optional
            Default: those given to `evaluate` as ``by``.
        """
        name, labels = self._labels(labels)
        rows = []
        for method in self.methods:
            repeats = [self.forecast(method, repeat) for repeat in self.repeats(method)]
            for label in np.unique(labels).tolist():
                scores = []
                for bags, *forecast in repeats:
                    mine = np.flatnonzero(labels[bags] == label)
                    if len(mine):
                        y, predicted, *uncertain = (None if part is None else part[mine] for part in forecast)
                        bias = float(np.mean(predicted - y))
                        scores.append(
                            {"bags": len(mine), "bias": bias} | score(y, predicted, *uncertain, level=self.level)
                        )
                if scores:
                    row = {"method": method, name: label, "bags": scores[0]["bags"], "repeats": len(scores)}
                    row |= {key: float(np.mean([of[key] for of in scores])) for key in ("bias", *METRICS)}
                    errors = [of["rmse"] for of in scores]
                    deviation = float(np.std(errors, ddof=1)) if len(errors) > 1 else float("nan")
                    rows.append(row | {"rmse_sd_repeats": deviation})
        return from_rows(rows, names=("method", name, "bags"))

    def by_notes(self, labels=None) -> list[str]:
        """Return the caveats of `scores_by`: labels of few bags, and labels in training while they are scored."""
        name, labels = self._labels(labels)
        values, code, counts = np.unique(labels, return_inverse=True, return_counts=True)
        notes = [
            f"{method} has no scores by {name}: its predictions are not kept, as many settings were scored on the same "
            "folds (choose them with selection='nested'), or every cell failed."
            for method in self.methods
            if not self.repeats(method)
        ]
        if (counts == 1).any():
            first = values[counts == 1][0]
            notes.append(
                f"{int((counts == 1).sum())} of {len(values)} labels of {name} have one bag (first: {first!s}): their "
                "RMSE is the error of one bag, and they have no R² and no correlation."
            )
        divided = np.zeros(len(values), dtype=bool)  # labels with bags on both sides of a split
        for cell in (cell for method in self.methods for cell in self._done(method)):
            scored = np.bincount(code[cell["bags"]], minlength=len(values))
            divided |= (scored > 0) & (scored < counts)
        if divided.any():
            notes.append(
                f"{divided.sum()} of {len(values)} labels of {name} had bags in training while others of them were "
                f"scored: scores are for new bags of a known {name}. Give it as groups to have scores for a new {name}."
            )
        return notes

    def by_to_text(self) -> str:
        """Return the scores of the best method by label as text, the largest RMSE first, and the notes on them."""
        best, name, lines = self.best_method() or self.methods[0], self._labels(None)[0], []
        rows = [row for row in self.rows("scores_by") if row["method"] == best]
        rows.sort(key=lambda row: -row["rmse"])
        if rows:
            shown = rows[:MOST_LABELS]
            many = f", the {len(shown)} of {len(rows)} with the largest RMSE" if len(rows) > len(shown) else ""
            columns = {column: [row[column] for row in shown] for column in (name, *SHOWN_BY)}
            lines = [f"{best} by {name}{many}:", as_text(_without_empty(columns))]
        return "\n".join([*lines, *self.by_notes()])

    def _labels(self, labels) -> tuple[str, np.ndarray]:
        if labels is None:
            if self.by is None:
                raise ValueError("there is nothing to score apart by; give labels, or evaluate(..., by=labels)")
            return self.by["name"], np.asarray(self.by["labels"])
        labels = np.asarray(aligned(labels, self.record["data"]["ids"], "labels"))
        if labels.shape != (self.record["data"]["bags"],):
            raise ValueError(f"give one label for each of {self.record['data']['bags']} bags, not shape {labels.shape}")
        return "label", labels

    def write(self, folder) -> None:
        """Write results.csv (and .parquet with pyarrow), summary.csv, comparisons.csv; with ``by`` scores_by.csv."""
        files = {"results.csv": "table", "results.parquet": "table"}
        files |= {"summary.csv": "summary", "comparisons.csv": "compare"}
        files |= {} if self.by is None else {"scores_by.csv": "scores_by"}
        for file, table in files.items():
            write_table(Path(folder) / file, self._columns(table))

    def rows(self, table: str, *arguments, **options) -> list[dict]:
        """Return a table as plain rows, with None where there is no value: what JSON can hold.

        ``table`` is the name of the method that returns the table as a data frame; its arguments follow.
        """
        return to_rows(self._columns(table, *arguments, **options))

    def _columns(self, table: str, *arguments, **options) -> dict[str, list]:
        return getattr(type(self), table).__wrapped__(self, *arguments, **options)

    # The best, and the distance from it -----------------------------------------------------------------------

    def best_method(self) -> str | None:
        """Return the method with the best mean among the `contenders`, on the splits that all have; or None."""
        values = self._ranked_scores(self.distinct_splits())
        methods, rows = contenders(values)
        means = np.full(len(self.methods), np.nan)
        if rows.any():
            means[methods] = values[rows][:, methods].mean(axis=0)
        best = best_of(self._measure().loss(means))
        return None if best is None else self.methods[best]

    def ranked(self) -> list[dict]:
        """Return the rows of `summary`, best first, with the paired difference from the best and its p-value.

        Methods without a rank come last. Which method is best was found on the same folds, so p is corrected for all
        pairs, not only for those shown.
        """
        name, best, rows, gaps = self.metric, self.best_method(), self.rows("summary"), {}
        for pair in self.rows("compare"):
            gap, p = pair["difference"], pair["p_holm"]
            if pair["reference"] == best:
                gaps[pair["method"]] = gap, p
            elif pair["method"] == best:
                gaps[pair["reference"]] = None if gap is None else 0.0 - gap, p  # no -0
        for row in rows:
            row["from_best"], row["p_holm"] = gaps.get(row["method"], (None, None))
            row["best"] = row["method"] == best
        rows.sort(key=lambda row: self._measure().loss(row[name] or 0.0))
        return sorted(rows, key=lambda row: (not row["best"], row["rank"] is None, row[name] is None))

    def distinct_splits(self) -> np.ndarray:
        """Return a number per split, the same for splits that score the same bags, as repeats of a fixed fold do."""
        numbers: dict[tuple, int] = {}

        def scored(split: tuple) -> tuple:
            """Return the bags scored by at least one cell, or the split itself for a scan."""
            cells = (self.cell(method, split) for method in self.methods)
            return next((tuple(cell["bags"]) for cell in cells if cell and cell["bags"]), split)

        return np.array([numbers.setdefault(scored(split), len(numbers)) for split in self.splits])

    def _ranked_scores(self, splits: np.ndarray) -> np.ndarray:
        """Return the scores that rank, (distinct splits, methods), on the splits that all methods have run."""
        ran = np.array([[self.ran(method, split) is not None for method in self.methods] for split in self.splits])
        run = ran.all(axis=1) if ran.all(axis=1).any() else np.full(len(ran), True)
        return np.column_stack([by_split(self.values(method)[run], splits[run]) for method in self.methods])

    # Text -----------------------------------------------------------------------------------------------------

    def selection_of(self, method: str) -> str:
        """Return how the setting of a method was chosen: "nested" or "paper"; "none" where it had one setting."""
        return self.selection if self.record["n_settings"][method] > 1 else "none"

    def by_selection(self) -> dict[str, list[str]]:
        """Return the methods by how their settings were chosen."""
        methods: dict[str, list[str]] = {}
        for method in self.methods:
            methods.setdefault(self.selection_of(method), []).append(method)
        return methods

    def selection_text(self) -> str:
        """Return how hyperparameters were chosen, with the methods if it differs between them."""
        by_selection = self.by_selection()
        if len(by_selection) == 1:
            return EXPLANATIONS[next(iter(by_selection))]
        return "; ".join(f"{EXPLANATIONS[how]} ({', '.join(methods)})" for how, methods in by_selection.items())

    def title(self) -> str:
        """Return a title: the data set, and how hyperparameters were chosen."""
        kinds = " and ".join(LABELS[selection] for selection in self.by_selection())
        return f"{self.record['data']['name']}, selection {kinds}: {self.selection_text()}"

    def notes(self) -> list[str]:
        """Return the caveats of the means: which methods lack some or all values, and why."""
        metric, notes = self.metric, []
        advice = f"{metric} is not defined where targets or predictions do not vary; rank by rmse."
        if self._measure().needs_std:
            advice = f"{metric} needs a method that gives standard deviations; or rank by rmse."
        for method in self.methods:
            ran = sum(self.ran(method, split) is not None for split in self.splits)
            n_values = int((~np.isnan(self.values(method))).sum())
            if self._done(method) and self.setting(method) is None:
                notes.append(f"{method}: no setting has {metric} on every split, so none is the best; {advice}")
            elif self._done(method) and not n_values:
                notes.append(f"{method} has no {metric} on any split and is not ranked; {advice}")
            elif 0 < n_values < ran:
                text = f"{method}: {metric} on {n_values} of {ran} splits only; its mean is of those"
                notes.append(f"{text}, and it is not ranked with methods that have them all.")
        return notes

    def _shown(self) -> dict[str, list]:
        """Return the columns to print, best method first."""
        rows, name = self.ranked(), self.metric
        heads = {"method": "method", name: name, f"{name}_sd_folds": "± folds", "from_best": "from best"}
        heads |= {"p_holm": "p (Holm)", "rank": "rank", "seconds": "seconds per split"}
        heads |= {"failed": "failed"} if self.failures else {}
        return _without_empty({head: [row[key] for row in rows] for key, head in heads.items()})

    def to_text(self, width: int | None = None) -> str:
        """Return title, scores and notes as text; the last columns of scores are left out where ``width`` is short."""
        return "\n".join([self.title(), as_text(self._shown(), width), *self.notes()])

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        """Return the same table as HTML for a notebook."""
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes())
        return f"<p>{escape(self.title())}</p>{as_html(self._shown())}{notes}"


def _without_empty(columns: dict[str, list]) -> dict[str, list]:
    return {name: values for name, values in columns.items() if any(value is not None for value in values)}
