"""`evaluate`: several methods on the same splits of the bags; the steps to watch it by, and a live display of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from threading import Lock

import numpy as np

from bagwise.bags import Bags, check_fit
from bagwise.bags.checks import compared
from bagwise.bags.shared_rows import check_separation
from bagwise.evaluation.plan import (
    Cell,
    Plan,
    as_entries,
    close_plan,
    finish,
    in_order,
    make_plan,
    make_record,
    on_device,
    open_plan,
    run_cell,
)
from bagwise.evaluation.results import Results
from bagwise.evaluation.splits import as_labels, as_seed, make_splits
from bagwise.execution import Lost, executor_for
from bagwise.io.table_output import duration
from bagwise.metrics import best_of, get_metric, score
from bagwise.model_files.fingerprint import describe, digest, of_library
from bagwise.model_files.store import Store

WIDE, NARROW = 110, 70  # columns of a terminal that shows a long bar, and any bar


@dataclass(frozen=True)
class Step:
    """Cells done (found on disk included) of all, failed ones, seconds left (a guess), the best method so far."""

    done: int
    total: int
    failed: int
    seconds_left: float | None
    best: str | None
    best_score: float | None
    last: dict | None


class Tracker:
    """Turns results, as they come, into steps.

    Parameters
    ----------
    planned : number of cells of each method
    metric : name of the metric that decides which method is best
    """

    def __init__(self, planned: dict[str, int], metric: str):
        self.total, self.metric = sum(planned.values()), get_metric(metric)
        self.remaining = dict(planned)
        self.seconds: dict[str, list[float]] = {}
        self.done = self.failed = 0
        self.busy = 0.0  # seconds of the cells that this call ran
        self.sums: dict[str, list] = {}
        self.incomplete: set[str] = set()  # methods that failed somewhere: their means are of the easier folds
        self.started = time.perf_counter()

    def step(self, result: dict | None = None, *, ran: bool = False) -> Step:
        """Count a result, run now or read from the store, and return the step after it."""
        if result is not None:
            method, seconds = result["method"], result["seconds"]
            self.done += 1
            self.remaining[method] -= 1
            if seconds == seconds:
                self.seconds.setdefault(method, []).append(seconds)
                self.busy += seconds * ran
            if result["error"]:
                self.failed += 1
                self.incomplete.add(method)
            else:
                total, count = self.sums.get(method, (0.0, 0))
                self.sums[method] = [total + np.array(result["scores"][self.metric.name]), count + 1]
        return Step(self.done, self.total, self.failed, self._seconds_left(), *self._best(), result)

    def _seconds_left(self) -> float | None:
        """Return the mean time of each method times its remaining cells, divided by the cells that run at a time.

        None until each remaining method has a finished cell, which is after the first fold.
        """
        remaining = {method: n_cells for method, n_cells in self.remaining.items() if n_cells}
        if not remaining:
            return 0.0
        if not self.busy or not remaining.keys() <= self.seconds.keys():
            return None
        work = sum(n_cells * np.mean(self.seconds[method]) for method, n_cells in remaining.items())
        return float(work * (time.perf_counter() - self.started) / self.busy)

    def _best(self) -> tuple[str | None, float | None]:
        """Return the best mean so far; a method without a score somewhere is not a candidate."""
        means = {method: self._mean(*sums) for method, sums in self.sums.items() if method not in self.incomplete}
        best = best_of([self.metric.loss(mean) for mean in means.values()])
        return (None, None) if best is None else list(means.items())[best]

    def _mean(self, total: np.ndarray, count: int) -> float:
        """Return the mean over cells; with several settings scored on the same folds, that of the best."""
        best = best_of(self.metric.loss(total / count))
        return float("nan") if best is None else float(total[best] / count)


class Display:
    """A line in the terminal: a bar, cells done, failures, the time left, the best method so far.

    In a narrow terminal the bar goes first, then the line ends early: the cells done are always there.
    """

    def __init__(self, *, console=None, metric: str = "rmse"):
        from rich.console import Console
        from rich.progress import BarColumn, ProgressColumn
        from rich.text import Text

        from bagwise.execution.progress import progress_display

        class Line(ProgressColumn):
            def render(self, task):
                elapsed, fields = task.elapsed or 0.0, task.fields
                took = f", {duration(max(1, round(elapsed)))}"
                left = ""
                if fields["seconds_left"] is not None:  # counts down between two steps
                    left = f", {duration(max(0.0, fields['seconds_left'] - (elapsed - fields['at'])))} left"
                return Text(f"{fields['done']}{took}{left}{fields['best']}", no_wrap=True, overflow="ellipsis")

        self.metric = metric
        console = console or Console(stderr=True)
        bar = [BarColumn(bar_width=40 if console.width >= WIDE else 10)] if console.width >= NARROW else []
        self.progress = progress_display(*bar, Line(), console=console)
        self.task = self.progress.add_task("cells", total=None, done="", best="", seconds_left=None, at=0.0)

    def __enter__(self) -> Display:
        self.progress.start()
        return self

    def __exit__(self, *_) -> None:
        self.progress.stop()

    def __call__(self, step: Step) -> None:
        failed = f", {step.failed} failed" if step.failed else ""
        best = "" if step.best is None else f"; best so far: {step.best}, {self.metric} {step.best_score:.4g}"
        done = f"{step.done}/{step.total} cells{failed}"
        left = {"seconds_left": step.seconds_left, "at": self.progress.tasks[0].elapsed or 0.0}
        self.progress.update(self.task, completed=step.done, total=step.total, done=done, best=best, **left)


def evaluate(
    bags,
    y=None,
    methods=None,
    *,
    repeats: int | None = None,
    folds=5,
    fold=None,
    split=None,
    selection: str = "nested",
    tune: bool = True,
    metric: str = "rmse",
    by=None,
    out=None,
    n_jobs: int | None = None,
    executor=None,
    device: str | None = None,
    random_state: int = 0,
    name: str = "data",
    origin: dict | None = None,
    progress: bool | Callable[[Step], None] = False,
    retry_failed: bool = False,
) -> Results:
    """Compare methods by held-out bags.

    Every method is trained and scored on the same splits. The work is cut into cells, one per method and split; each
    is a pure function of the data, the method and the split, so the numbers do not depend on who runs it or when. With
    ``out``, every finished cell is a file there: calling again with the same arguments runs the others.

    Parameters
    ----------
    bags, y : Bags and one target per bag
        The order (methods, bags, y) works, too. Bags that carry groups are split by group. A scan (`bagwise.scan`) has
        its targets: ``evaluate(scan, methods=[...])`` compares methods of `fit_scan` by RMSE, MAE and R², with one
        repeat by default. Heads are fitted without each fold, and choose their settings on the other folds; what comes
        before them (scales, bandwidths, out-of-fold predictions) is fitted once on all bags. Predictions of single bags
        are not kept.
    methods : list of names, "name:preset", (label, estimator), or (label, estimator, search space)
    repeats, folds, fold, split, random_state : the protocol, see `make_splits`
        Default: 10 repeats of 5 folds. ``folds="forward"`` scores later bags by what was trained on earlier ones;
        ``fold`` gives fixed folds, ``split`` fixes "train" and "test", one label per bag. Repeat r of a method has the
        seed ``random_state + r``; with fixed splits nothing else changes, and tables take the mean over repeats first.
    selection : {"nested", "paper"}
        How the settings of a method with a search space are chosen: inside the training bags; or the best on the
        scoring folds, as the paper did. The latter is optimistic, and every table marks these methods. A method
        with one setting is labelled "none": it has default settings, or chooses its own inside the training bags.
    tune : bool
        Whether catalogue methods are searched over the space of their card, which multiplies their cost; if not, they
        are used as they come. A search space given with an estimator is always searched.
    metric : {"rmse", "mae", "medae", "r2", "pearson", "spearman", "kendall", "nll", "crps", "pinball", "interval90",
        "coverage90"}
        The one to choose and rank by. All are computed; the last five where a method gives standard deviations or
        (NLL aside) is an `Intervals`. "medae" is the median absolute error, "pinball" the mean pinball loss of the
        deciles, "interval90" Winkler's score of the 90 % intervals.
    by : one label per bag, {name: labels} or "groups", optional
        What to score apart: the site, the year. No number of the evaluation depends on it; ``results.scores_by()``
        has a row for every label, and with ``out`` the file scores_by.csv.
    out : folder, optional
        Its tables are of the methods named in the last call; cells of others are kept for a call that names them again.
    n_jobs : int, optional
        Processes; None or 1 for this one alone, -1 for one per core. Inside `bagwise.cluster` its workers run the
        cells, unless it is 1.
    executor : optional
        Who runs the cells instead, such as ``bagwise.execution.Dask(client)``.
    device : {"cpu", "cuda", "auto"}, optional
        Where every part of a method that has a ``device`` runs; by default, as the method has it. On a GPU the
        networks of `OutOfFold` stages are trained together, those of all cells in as few launches as memory allows, and
        the cells then run as ever.
    name : what the data set is called in tables
    origin : dict, optional
        Where the data came from, kept with the results so that a report can read it again: ``path``, ``options`` (the
        keywords of `load`) and the ``command`` that was typed. No number depends on it.
    progress : bool, or a function of a `Step`
        Whether to show a live line in the terminal.
    retry_failed : bool
        Whether cells that failed before are run again.

    Returns
    -------
    Results

    Examples
    --------
    >>> import bagwise as bw
    >>> from bagwise.evaluation import evaluate
    >>> bags, y = bw.testing.contract_checks.sample(40)
    >>> results = evaluate(bags, y, ["aggregated"], repeats=1)
    >>> results.summary()["cells"].to_list()
    [5]
    """
    if type(bags).__module__.startswith("bagwise.scale"):
        how = {"repeats": repeats, "folds": folds, "metric": metric, "random_state": random_state, "name": name}
        in_memory = {"y": y, "fold": fold, "split": split, "by": by, "out": out, "origin": origin, "device": device}
        return evaluate_scan(bags, methods, executor=executor or executor_for(n_jobs), **how, **in_memory)
    bags, y, methods = in_order("evaluate", bags, y, methods)
    if y is None or methods is None:
        raise TypeError("evaluate needs bags, their targets and methods: evaluate(bags, y, ['aggregated'])")
    bags, y = check_fit(bags, y, allow_missing=True, allow_weights=True, apart=True)
    bags = compared(bags)  # a held-out bag far from the others is expected here: no warning
    entries = [on_device(entry, device) for entry in as_entries(methods, tune=tune)]
    splits = make_splits(bags, repeats=repeats, folds=folds, fold=fold, split=split, random_state=random_state)
    tested = np.zeros(len(bags), dtype=int)  # the fold of each bag in the first repeat
    for k, part in enumerate(part for part in splits if part.repeat == 0):
        tested[part.test] = k + 1
    bags = check_separation(bags, tested)
    how = {"selection": selection, "metric": metric, "random_state": random_state}
    plan = make_plan(bags, y, entries, splits, **how, name=name, origin=origin, by=as_labels(bags, by))
    store = Store(out)
    return run_plan(plan, bags, y, store, executor or executor_for(n_jobs), progress, retry_failed)


def run_plan(plan: Plan, bags: Bags, y: np.ndarray, store, executor, progress, retry_failed: bool = False) -> Results:
    """Run the cells of a plan that the store lacks, and return the results of all cells."""
    metric, results, lock = plan.record["metric"], {}, Lock()  # with processes, a thread of joblib takes the cells
    tracker = Tracker(Counter(cell.method for cell in plan.cells), metric)
    has_results = open_plan(store, plan)
    display = Display(metric=metric) if progress is True else nullcontext(progress or (lambda step: None))
    with display as watch:

        def note(result: dict, *, ran: bool = False) -> None:
            with lock:
                results[result["key"]] = result
                watch(tracker.step(result, ran=ran))

        def is_stored(cell: Cell) -> bool:
            result = store.read(cell.key)
            if result is None or (result["error"] and retry_failed):
                return False
            note(result)
            return True

        pending = [cell for cell in plan.cells if not is_stored(cell)]
        # A second run on the same folder starts from the other end: the two meet, and little is done twice.
        pending = pending[::-1] if has_results else pending
        watch(tracker.step())
        # Those that another run has finished meanwhile are left out when their turn comes.
        for cell, result in executor.run(run_cell, (cell for cell in pending if not is_stored(cell)), (bags, y)):
            if isinstance(result, Lost):
                result = finish(cell.about, {"error": result.reason}, selection=cell.selection)
            store.write(result["key"], result)
            note(result, ran=True)
    evaluated = Results(plan.record, results.values())
    close_plan(store, plan, evaluated.write)
    return evaluated


# Scans ----------------------------------------------------------------------------------------------------------------


def evaluate_scan(scan, methods, *, repeats, folds, metric, executor, random_state, name, **in_memory) -> Results:
    """Evaluate methods on a scan: each is fitted without each fold of bags, and predicts that fold (see `evaluate`)."""
    unsupported = [option for option, value in in_memory.items() if value is not None]
    if unsupported:
        raise ValueError(f"{unsupported[0]}= is for bags in memory; leave it out, or load the table")
    if methods is None:
        raise TypeError("evaluate needs the methods to compare: evaluate(scan, methods=['aggregated'])")
    if get_metric(metric).needs_std:
        raise ValueError(f"metric={metric!r} needs standard deviations, which a scan does not give; choose another")
    seed, entries = as_seed(random_state), as_entries(methods, tune=False)
    facts: dict = {}
    results: list[dict] = []
    for repeat in range(1 if repeats is None else repeats):
        facts, outcomes = _repeat(scan, entries, folds, seed + repeat, executor)
        for outcome in outcomes:
            key = digest(of_library(), name, outcome["method"], str(repeat), str(outcome["fold"]))
            results.append({"key": key, "repeat": repeat} | outcome)
    written = {entry.label: {"estimator": describe(entry.make(seed)), "settings": "({})"} for entry in entries}
    record = make_record(
        data={"name": name, "hash": None, "ids": [], "sizes": []} | facts,
        methods=written,
        n_settings=dict.fromkeys(written, 1),
        metric=metric,
        random_state=seed,
        splits=digest(str(folds), str(repeats), str(seed)),
        cells=[
            {key: cell[key] for key in ("key", "method", "repeat", "fold", "n_train", "n_test")} for cell in results
        ],
    )
    return Results(record, results)


def _repeat(scan, entries, n_folds: int, seed: int, executor) -> tuple[dict, list[dict]]:
    """Return facts of the data, and a result for every method and fold of one split into folds."""
    from bagwise.scale.held_out import fit_without
    from bagwise.scale.passes import Passes
    from bagwise.scale.training_data import TrainingData

    results = []
    with Passes(executor) as passes:
        data = TrainingData.of(scan, passes)
        fold = data.folds(n_folds, seed)
        for entry in entries:
            for k in range(int(fold.max()) + 1):
                held_out = fold == k
                held = fit_without(entry.make(seed), data, ~held_out, held_out)
                scores = {name: [value] for name, value in score(data.y[held_out], held.predictions).items()}
                n_test = int(np.count_nonzero(held_out))
                about = {"method": entry.label, "fold": k, "n_train": len(data) - n_test, "n_test": n_test}
                seconds = held.fit_seconds + held.predict_seconds
                results.append(finish(about, {"settings": [""], "scores": scores, "seconds": seconds}))
        facts = {"bags": len(data), "instances": int(data.bag_arrays.sizes.sum()), "features": data.n_features}
    return facts | {"id_name": scan.bag, "target_name": scan.target}, results
