"""`Results` of an evaluation: tables of scores, comparisons and predictions, with notes on their caveats."""

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

COMPARISON_COLUMNS = ("method", "reference", "metric", "selection", "reference_selection", "splits")
COMPARISON_COLUMNS += ("difference", "standard_error", "t", "p", "p_holm")
MAX_LABELS = 20  # number of labels whose scores are printed
LABEL_COLUMNS = ("bags", "rmse", "mae", "bias", "r2", "spearman", "coverage")  # printed columns of scores by label


def data_frame(columns: Callable) -> Callable:
    """Decorate a method that returns a dict of columns, so that it returns a data frame.

    The data frame is of pandas or else of polars; without both, the dict is returned. `Results.rows` calls the wrapped
    method, so that the command line does not import pandas.
    """

    @wraps(columns)
    def method(self, *arguments, **options):
        return to_frame(columns(self, *arguments, **options))

    return method


class Forecast(NamedTuple):
    """Held-out predictions of one repeat: positions of bags, targets, predictions, and std and uncertainty if any."""

    bags: Any
    targets: Any
    predictions: Any
    std: np.ndarray | None
    uncertainty: Uncertainty | None


class Results:
    """Results of an evaluation, as tables.

    When printed or shown in a notebook, the results are a table of methods, best first. `table`, `summary`, `compare`,
    `predictions` and `scores_by` return data frames of pandas or else of polars; without both, dicts of columns.

    Parameters
    ----------
    record : dict, the plan as stored in plan.json
    cells : results, one per method and split (a "cell"); those that are not in the plan are ignored

    Attributes
    ----------
    methods : list of labels
    metric : name of the metric by which methods are compared
    level : level of the intervals that are scored
    selection : "nested" or "paper"; how the setting of a method with several settings was chosen
    splits : list of (repeat, fold)
    by : {"name": ..., "labels": a label per bag}, the labels by which scores are also computed, or None
    missing : number of cells that have no result yet
    failures : (method, repeat, fold, error) of each failed cell

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
            raise ValueError(f"There is no folder {folder}. Make it with `bagwise evaluate --out`.")
        if path.suffix == ".bagwise" and path.is_file():
            text = f"{folder} is a model, not the folder of an evaluation"
            raise ValueError(f"{text}. `bagwise fit ... --report page.html` writes the report of a model.")
        if not (path / "plan.json").is_file():
            raise ValueError(f"{folder} has no plan.json, so it is not a folder made by `bagwise evaluate --out`.")
        record = read_plan(store := Store(path))
        if record is None:
            raise ValueError(
                f"{path / 'plan.json'} is not the plan of an evaluation, or it is damaged. Repeat the command that "
                "made the folder: it rewrites the plan and keeps finished cells."
            )
        cells = (store.read(cell["key"]) for cell in record["cells"])
        return cls(record, [cell for cell in cells if cell is not None])

    def cell(self, method: str, split: tuple) -> dict | None:
        """Return the result of a method on a split (repeat, fold), or None if it failed or has not run."""
        self._refuse_unknown(method)
        result = self.outcome(method, split)
        return None if result is None or result["error"] else result

    def _refuse_unknown(self, method: str) -> None:
        if method not in self.methods:
            raise ValueError(f"There are no results of {method!r}. The methods are {', '.join(self.methods)}.")

    def outcome(self, method: str, split: tuple) -> dict | None:
        """Return the result of a method on a split, which has an ``error`` if it failed; None if it has not run."""
        return self._cells.get((method, *split))

    def _done(self, method: str, repeat: int | None = None) -> list[dict]:
        """Return the results of a method, of all repeats or of one."""
        cells = (self.cell(method, split) for split in self.splits if repeat in (None, split[0]))
        return [cell for cell in cells if cell]

    def _metric(self, metric: str | None = None) -> Metric:
        """Return a metric, by default the main one, with the level of these results."""
        return get_metric(metric or self.metric, level=self.level)

    def scores(self, method: str, metric: str | None = None) -> np.ndarray:
        """Return the scores of each setting on each split, (splits, settings); NaN where the method failed."""
        name = self._metric(metric).name
        cells = [self.cell(method, split) for split in self.splits]
        blank = [np.nan] * max([len(cell["settings"]) for cell in cells if cell], default=1)
        # .get, because a metric may have been added after the cell ran
        return np.array([cell["scores"].get(name, blank) if cell else blank for cell in cells], dtype=np.float64)

    def setting(self, method: str) -> int | None:
        """Return the index of the setting with the best mean score.

        None if no setting has a score on every split; splits on which no setting has one are ignored.
        """
        losses = self._metric().loss(self.scores(method))
        scored = losses[~np.isnan(losses).all(axis=1)]
        return 0 if losses.shape[1] == 1 else best_of(scored.mean(axis=0)) if len(scored) else None

    def values(self, method: str, metric: str | None = None) -> np.ndarray:
        """Return the score on each split; NaN where the method failed or has no such score."""
        chosen = self.setting(method)
        return np.full(len(self.splits), np.nan) if chosen is None else self.scores(method, metric)[:, chosen]

    def pooled(self, method: str, metric: str | None = None) -> np.ndarray:
        """Return one value per repeat: the score of the predictions of all folds together."""
        repeats, measure = self.repeats(method), self._metric(metric)
        if not repeats:
            text = f"There are no stored predictions of {method!r}"
            raise ValueError(f"{text}, because several settings were scored or all cells failed.")
        return np.array([measure(*self.forecast(method, repeat)[1:]) for repeat in repeats])

    def repeats(self, method: str) -> list[int]:
        """Return the repeats with stored predictions; none if several settings were scored or all cells failed."""
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
        """Return the folds of one repeat in which a method has results."""
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

        ``selection`` is "nested" or "paper (optimistic)" for a method with several settings, else "none".
        """
        rows = []
        for method in self.methods:
            about = {"data": self.record["data"]["name"], "method": method}
            about |= {"selection": LABELS[self.selection_of(method)]}
            chosen, scores = self.setting(method), {name: self.values(method, name).tolist() for name in METRICS}
            for k, (repeat, fold) in enumerate(self.splits):
                cell = self.outcome(method, (repeat, fold))
                if cell is None:
                    continue
                # Use repeat and fold of the plan: the cell may come from another plan, with other repeats.
                row = about | {"repeat": repeat, "fold": fold, "n_train": cell["n_train"], "n_test": cell["n_test"]}
                setting = None if cell["error"] or chosen is None else cell["settings"][chosen]
                row |= {"settings": len(cell["settings"]), "setting": setting}
                row |= {name: values[k] for name, values in scores.items()}
                rows.append(row | {name: cell[name] for name in ("seconds", "memory_mb", "error")})
        return from_rows(rows)

    @data_frame
    def summary(self):
        """Return a data frame, one row per method, with the mean seconds and the maximum memory of a cell.

        For each metric there are its mean over splits, its standard deviation over splits (``_sd_folds``) and over the
        means of repeats (``_sd_repeats``), and the number of cells with a value (``_cells``; ``cells`` for the main
        metric). Repeats of a fixed split differ only in the seed, so they are averaged before the deviation over splits
        is computed. ``rank`` is the average rank by the main metric among the methods that have it on each split.
        """
        splits, repeats = self.distinct_splits(), np.array([repeat for repeat, _ in self.splits])
        ranks = average_ranks(self._metric().loss(self._ranked_scores(splits)))
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

        The result is a data frame, one row per pair, with p-values corrected for the number of comparisons (Holm).
        Repeats of a fixed split differ only in the seed and are averaged first. With a single split, p is NaN.

        Parameters
        ----------
        metric : str, optional
            Name of a metric. Default: the main metric.
        reference : str, optional
            The method with which each other method is compared. Default: all pairs.
        """
        metric, splits, rows = self._metric(metric).name, self.distinct_splits(), []
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
        rows = [dict(zip(COMPARISON_COLUMNS, (*row, p), strict=True)) for row, p in zip(rows, corrected, strict=True)]
        return from_rows(rows, names=COMPARISON_COLUMNS)

    @data_frame
    def predictions(self, method: str):
        """Return a data frame, one row per scored bag: repeat, fold, bag id, size, target, prediction and std.

        The columns of ids and targets have the names that they have in the table of the data. ``std`` is NaN for
        methods without it. The table is empty if several settings were scored, whose predictions are not stored.
        """
        ids, sizes = self.record["data"]["ids"], self.record["data"]["sizes"]
        bag_name, target_name = self.column_names()
        rows = []
        for repeat, fold in self.splits:
            cell = self.cell(method, (repeat, fold))
            if cell and cell["predictions"]:
                std = cell["std"] or [float("nan")] * len(cell["bags"])
                for bag, *numbers in zip(cell["bags"], cell["targets"], cell["predictions"], std, strict=True):
                    where = {"repeat": repeat, "fold": fold, bag_name: ids[bag], "size": sizes[bag]}
                    rows.append(where | dict(zip((target_name, "prediction", "std"), numbers, strict=True)))
        return from_rows(rows)

    def column_names(self) -> tuple[str, str]:
        """Return the column names of bag ids and targets in the table of the data; default: "bag" and "target"."""
        data, fixed = self.record["data"], ["repeat", "fold", "size", "prediction", "std"]
        bag = own_name(data.get("id_name"), "bag", fixed)
        return bag, own_name(data.get("target_name"), "target", [*fixed, bag])

    @data_frame
    def scores_by(self, labels=None):
        """Return the scores of the bags of each label (such as a site or a year), a row per method and label.

        Each metric is computed on all held-out bags of the label and averaged over repeats. ``bias`` is the mean of
        prediction minus target, ``rmse_sd_repeats`` the standard deviation over repeats. A label with one bag has no R²
        and no correlation. Methods without stored predictions have no rows; `by_notes` lists further caveats.

        Parameters
        ----------
        labels : one label per bag, in the order of the data, optional
            Default: the labels passed to `evaluate` as ``by``.
        """
        name, labels = self._labels(labels)
        rows = []
        for method in self.methods:
            repeats = [self.forecast(method, repeat) for repeat in self.repeats(method)]
            for label in np.unique(labels).tolist():
                scores = []
                for bags, *forecast in repeats:
                    positions = np.flatnonzero(labels[bags] == label)
                    if len(positions):
                        y, predicted, *uncertain = (None if part is None else part[positions] for part in forecast)
                        bias = float(np.mean(predicted - y))
                        scores.append(
                            {"bags": len(positions), "bias": bias} | score(y, predicted, *uncertain, level=self.level)
                        )
                if scores:
                    row = {"method": method, name: label, "bags": scores[0]["bags"], "repeats": len(scores)}
                    row |= {key: float(np.mean([values[key] for values in scores])) for key in ("bias", *METRICS)}
                    errors = [values["rmse"] for values in scores]
                    deviation = float(np.std(errors, ddof=1)) if len(errors) > 1 else float("nan")
                    rows.append(row | {"rmse_sd_repeats": deviation})
        return from_rows(rows, names=("method", name, "bags"))

    def by_notes(self, labels=None) -> list[str]:
        """Return the caveats of `scores_by`: labels with one bag, and labels in both training and test sets."""
        name, labels = self._labels(labels)
        values, code, counts = np.unique(labels, return_inverse=True, return_counts=True)
        notes = [
            f"{method} has no scores by {name}, because its predictions are not stored. Several settings were scored "
            "on the same folds (use selection='nested'), or all cells failed."
            for method in self.methods
            if not self.repeats(method)
        ]
        if (counts == 1).any():
            first = values[counts == 1][0]
            notes.append(
                f"{int((counts == 1).sum())} of {len(values)} labels of {name} have one bag (first: {first!s}). Their "
                "RMSE is the error of this bag, and they have no R² and no correlation."
            )
        divided = np.zeros(len(values), dtype=bool)  # labels with bags on both sides of a split
        for cell in (cell for method in self.methods for cell in self._done(method)):
            scored = np.bincount(code[cell["bags"]], minlength=len(values))
            divided |= (scored > 0) & (scored < counts)
        if divided.any():
            notes.append(
                f"{divided.sum()} of {len(values)} labels of {name} had bags both in the training and in the test set, "
                f"so the scores are for new bags of a known {name}. For a new {name}, pass the labels as groups."
            )
        return notes

    def by_to_text(self) -> str:
        """Return the scores of the best method by label as text, the largest RMSE first, with notes."""
        best, name, lines = self.best_method() or self.methods[0], self._labels(None)[0], []
        rows = [row for row in self.rows("scores_by") if row["method"] == best]
        rows.sort(key=lambda row: -row["rmse"])
        if rows:
            shown = rows[:MAX_LABELS]
            many = f", the {len(shown)} of {len(rows)} with the largest RMSE" if len(rows) > len(shown) else ""
            columns = {column: [row[column] for row in shown] for column in (name, *LABEL_COLUMNS)}
            lines = [f"{best} by {name}{many}:", as_text(_without_empty(columns))]
        return "\n".join([*lines, *self.by_notes()])

    def _labels(self, labels) -> tuple[str, np.ndarray]:
        if labels is None:
            if self.by is None:
                raise ValueError("Labels are required. Pass them to scores_by, or as by= to evaluate.")
            return self.by["name"], np.asarray(self.by["labels"])
        labels = np.asarray(aligned(labels, self.record["data"]["ids"], "labels"))
        n_bags = self.record["data"]["bags"]
        if labels.shape != (n_bags,):
            raise ValueError(f"labels must have one label per bag ({n_bags}), not shape {labels.shape}")
        return "label", labels

    def write(self, folder) -> None:
        """Write results.csv, results.parquet, summary.csv and comparisons.csv; with ``by`` also scores_by.csv."""
        files = {"results.csv": "table", "results.parquet": "table"}
        files |= {"summary.csv": "summary", "comparisons.csv": "compare"}
        files |= {} if self.by is None else {"scores_by.csv": "scores_by"}
        for file, table in files.items():
            write_table(Path(folder) / file, self._columns(table))

    def rows(self, table: str, *arguments, **options) -> list[dict]:
        """Return a table as a list of dicts, with None for missing values, as JSON needs.

        ``table`` is the name of the method that returns the data frame; further arguments are passed to it.
        """
        return to_rows(self._columns(table, *arguments, **options))

    def _columns(self, table: str, *arguments, **options) -> dict[str, list]:
        return getattr(type(self), table).__wrapped__(self, *arguments, **options)

    # The best method and differences from it ------------------------------------------------------------------

    def best_method(self) -> str | None:
        """Return the method with the best mean score among the `contenders`, on their common splits; or None."""
        values = self._ranked_scores(self.distinct_splits())
        methods, rows = contenders(values)
        means = np.full(len(self.methods), np.nan)
        if rows.any():
            means[methods] = values[rows][:, methods].mean(axis=0)
        best = best_of(self._metric().loss(means))
        return None if best is None else self.methods[best]

    def ranked(self) -> list[dict]:
        """Return the rows of `summary`, best first, with the paired difference from the best and its p-value.

        Methods without a rank are last. The best method was chosen on the same folds, so p is corrected for all pairs,
        not only for those of the best method.
        """
        name, best, rows, gaps = self.metric, self.best_method(), self.rows("summary"), {}
        for pair in self.rows("compare"):
            gap, p = pair["difference"], pair["p_holm"]
            if pair["reference"] == best:
                gaps[pair["method"]] = gap, p
            elif pair["method"] == best:
                gaps[pair["reference"]] = None if gap is None else 0.0 - gap, p  # unlike -gap, never -0.0
        for row in rows:
            row["from_best"], row["p_holm"] = gaps.get(row["method"], (None, None))
            row["best"] = row["method"] == best
        rows.sort(key=lambda row: self._metric().loss(row[name] or 0.0))
        return sorted(rows, key=lambda row: (not row["best"], row["rank"] is None, row[name] is None))

    def distinct_splits(self) -> np.ndarray:
        """Return a number per split, equal for splits with the same test bags, such as repeats of a fixed fold."""
        numbers: dict[tuple, int] = {}

        def test_bags(split: tuple) -> tuple:
            """Return the test bags of a split, or the split itself if no cell stores them, as for a scan."""
            cells = (self.cell(method, split) for method in self.methods)
            return next((tuple(cell["bags"]) for cell in cells if cell and cell["bags"]), split)

        return np.array([numbers.setdefault(test_bags(split), len(numbers)) for split in self.splits])

    def _ranked_scores(self, splits: np.ndarray) -> np.ndarray:
        """Return the scores for ranks, (distinct splits, methods), on the splits that all methods have finished."""
        common = np.array([all(self.outcome(method, split) for method in self.methods) for split in self.splits])
        common = common if common.any() else np.full(len(common), True)
        return np.column_stack([by_split(self.values(method)[common], splits[common]) for method in self.methods])

    # Text -----------------------------------------------------------------------------------------------------

    def selection_of(self, method: str) -> str:
        """Return how the setting of a method was chosen: "nested", "paper", or "none" if it had one setting."""
        return self.selection if self.record["n_settings"][method] > 1 else "none"

    def by_selection(self) -> dict[str, list[str]]:
        """Return the methods grouped by the result of `selection_of`."""
        methods: dict[str, list[str]] = {}
        for method in self.methods:
            methods.setdefault(self.selection_of(method), []).append(method)
        return methods

    def selection_text(self) -> str:
        """Return a text on how hyperparameters were chosen; it names the methods if this differs between them."""
        by_selection = self.by_selection()
        if len(by_selection) == 1:
            return EXPLANATIONS[next(iter(by_selection))]
        return "; ".join(f"{EXPLANATIONS[how]} ({', '.join(methods)})" for how, methods in by_selection.items())

    def title(self) -> str:
        """Return a title with the data set and how hyperparameters were chosen."""
        kinds = " and ".join(LABELS[selection] for selection in self.by_selection())
        return f"{self.record['data']['name']}, selection {kinds}: {self.selection_text()}"

    def notes(self) -> list[str]:
        """Return notes on methods that lack the main metric on some or all splits, with the reason."""
        metric, notes = self.metric, []
        advice = f"{metric} is not defined if targets or predictions are constant. Rank by rmse."
        if self._metric().needs_std:
            advice = f"{metric} needs standard deviations. Use a method that predicts them, or rank by rmse."
        for method in self.methods:
            n_finished = sum(self.outcome(method, split) is not None for split in self.splits)
            n_values = int((~np.isnan(self.values(method))).sum())
            if self._done(method) and self.setting(method) is None:
                notes.append(f"{method}: no setting has {metric} on all splits, so none was chosen. {advice}")
            elif self._done(method) and not n_values:
                notes.append(f"{method} has no {metric} on any split, so it is not ranked. {advice}")
            elif 0 < n_values < n_finished:
                text = f"{method} has {metric} on only {n_values} of {n_finished} splits. Its mean is over these"
                notes.append(f"{text}, and it is not ranked with methods that have all.")
        return notes

    def _printed_columns(self) -> dict[str, list]:
        """Return the columns to print, best method first."""
        rows, name = self.ranked(), self.metric
        headings = {"method": "method", name: name, f"{name}_sd_folds": "± folds", "from_best": "from best"}
        headings |= {"p_holm": "p (Holm)", "rank": "rank", "seconds": "seconds per split"}
        headings |= {"failed": "failed"} if self.failures else {}
        return _without_empty({heading: [row[key] for row in rows] for key, heading in headings.items()})

    def to_text(self, width: int | None = None) -> str:
        """Return title, scores and notes as text; the last columns are left out if they exceed ``width``."""
        return "\n".join([self.title(), as_text(self._printed_columns(), width), *self.notes()])

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        """Return title, scores and notes as HTML for a notebook."""
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes())
        return f"<p>{escape(self.title())}</p>{as_html(self._printed_columns())}{notes}"


def _without_empty(columns: dict[str, list]) -> dict[str, list]:
    return {name: values for name, values in columns.items() if any(value is not None for value in values)}
