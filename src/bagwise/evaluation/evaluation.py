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
from bagwise.evaluation.splits import as_labels, as_repeats, as_seed, make_splits
from bagwise.execution import Lost, executor_for
from bagwise.io.table_output import duration
from bagwise.metrics import LEVEL, best_of, get_metric, score
from bagwise.model_files.fingerprint import describe, digest
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
    """Turns results, as they come, into steps; ``planned`` are the numbers of cells by method."""

    def __init__(self, planned: dict[str, int], metric: str, level: float = LEVEL):
        self.total, self.metric = sum(planned.values()), get_metric(metric, level=level)
        self.remaining = dict(planned)
        self.seconds: dict[str, list[float]] = {}
        self.done = self.failed = 0
        self.busy = 0.0  # seconds of the cells that this call ran
        self.scores: dict[str, list] = {}  # of each cell, a score of each setting
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
                self.scores.setdefault(method, []).append(result["scores"][self.metric.name])
        means = {}  # of the best setting of each method; one without a score somewhere is not a candidate
        for method, scores in self.scores.items():
            if method not in self.incomplete:
                of_settings = np.mean(scores, axis=0)
                best = best_of(self.metric.loss(of_settings))
                means[method] = float("nan") if best is None else float(of_settings[best])
        best = best_of([self.metric.loss(mean) for mean in means.values()])
        leader = (None, None) if best is None else list(means.items())[best]
        return Step(self.done, self.total, self.failed, self._seconds_left(), *leader, result)

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


class Display:
    """A line in the terminal: a bar, cells done, failures, the time left, the best method so far.

    In a narrow terminal the bar goes first, then the line ends early: the cells done are always there.
    """

    def __init__(self, *, console=None, metric: str = "rmse"):
        from rich.console import Console
        from rich.progress import BarColumn

        from bagwise.execution.progress import Line, progress_display

        def text(task) -> str:
            took = duration(max(1, round(task.elapsed or 0)))  # goes on between two steps
            return f"{task.description}, {took}{task.fields['rest']}"

        console = console or Console(stderr=True)
        bar = [BarColumn(bar_width=40 if console.width >= WIDE else 10)] if console.width >= NARROW else []
        self.metric, self.progress = metric, progress_display(*bar, Line(text), console=console)
        self.task = self.progress.add_task("", total=None, rest="")

    def __enter__(self) -> Display:
        self.progress.start()
        return self

    def __exit__(self, *_) -> None:
        self.progress.stop()

    def __call__(self, step: Step) -> None:
        failed = f", {step.failed} failed" if step.failed else ""
        left = "" if step.seconds_left is None else f", {duration(step.seconds_left)} left"
        best = "" if step.best is None else f"; best so far: {step.best}, {self.metric} {step.best_score:.4g}"
        done = f"{step.done}/{step.total} cells{failed}"
        self.progress.update(self.task, completed=step.done, total=step.total, description=done, rest=left + best)


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
    level: float = LEVEL,
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
        repeat by default. Heads are fitted without each fold; what comes before them (scales, bandwidths, out-of-fold
        predictions) is fitted once on all bags. Predictions of single bags are not kept.
    methods : list of names, "name:preset", (label, estimator), or (label, estimator, search space)
    repeats, folds, fold, split, random_state : the protocol, see `make_splits`
        Default: 10 repeats of 5 folds. Repeat r of a method has the seed ``random_state + r``; with fixed splits
        nothing else changes, and tables take the mean over repeats first.
    selection : {"nested", "paper"}
        How the settings of a method with a search space are chosen: inside the training bags; or the best on the
        scoring folds, as the paper did, which is optimistic and marked in every table.
    tune : bool
        Whether catalogue methods are searched over the space of their card, which multiplies their cost. A search
        space given with an estimator is always searched.
    metric : str, default "rmse"
        Name of a metric of `bagwise.evaluation.METRICS` to choose and rank by; all are computed. "rmse", "mae",
        "medae", "r2", "pearson", "spearman" and "kendall" need predictions; "nll", "crps", "pinball", "interval_score"
        and "coverage" methods that give standard deviations, or (NLL aside) `Intervals`.
    level : float, default 0.9
        Level of the intervals that the metrics "coverage" and "interval_score" judge, and that a report shows.
    by : one label per bag, {name: labels} or "groups", optional
        What to score apart: the site, the year. ``results.scores_by()`` has a row for every label.
    out : folder, optional
        Its tables are of the methods named in the last call; cells of others are kept for a call that names them again.
    n_jobs : int, optional
        Processes; None or 1 for this one alone, -1 for one per core. Inside `bagwise.cluster` its workers run the
        cells, unless it is 1.
    executor : optional
        What runs the cells instead, such as ``bagwise.execution.Dask(client)``.
    device : {"cpu", "cuda", "auto"}, optional
        Where every part of a method that has a ``device`` runs; by default, as the method has it.
    name : what the data set is called in tables
    origin : dict, optional
        Where the data came from, kept with the results so that a report can read it again: ``path``, ``options`` (the
        keywords of `load`) and the ``command`` that was typed.
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
    how = {"selection": selection, "metric": metric, "level": level, "random_state": random_state}
    plan = make_plan(bags, y, entries, splits, **how, name=name, origin=origin, by=as_labels(bags, by))
    return run_plan(plan, bags, y, Store(out), executor or executor_for(n_jobs), progress, retry_failed)


def run_plan(plan: Plan, bags: Bags, y: np.ndarray, store, executor, progress, retry_failed: bool = False) -> Results:
    """Run the cells of a plan that the store lacks, and return the results of all cells."""
    metric, results, lock = plan.record["metric"], {}, Lock()  # with processes, a thread of joblib takes the cells
    tracker = Tracker(Counter(cell.method for cell in plan.cells), metric, plan.record["level"])
    has_results = open_plan(store, plan.record)
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
    close_plan(store, plan.record)
    if store.path is not None:
        evaluated.write(store.path)
    return evaluated


# Scans ----------------------------------------------------------------------------------------------------------------


def evaluate_scan(scan, methods, *, repeats, folds, metric, executor, random_state, name, **in_memory) -> Results:
    """Evaluate methods on a scan: each is fitted without each fold of bags, and predicts that fold (see `evaluate`)."""
    from bagwise.scale.held_out import fit_without
    from bagwise.scale.passes import Passes
    from bagwise.scale.training_data import TrainingData

    unsupported = [option for option, value in in_memory.items() if value is not None]
    if unsupported:
        raise ValueError(f"{unsupported[0]}= is for bags in memory; leave it out, or load the table")
    if methods is None:
        raise TypeError("evaluate needs the methods to compare: evaluate(scan, methods=['aggregated'])")
    if get_metric(metric).needs_std:
        raise ValueError(f"metric={metric!r} needs standard deviations, which a scan does not give; choose another")
    seed, entries, results = as_seed(random_state), as_entries(methods, tune=False), []
    for repeat in range(as_repeats(repeats, 1)):
        with Passes(executor) as passes:
            data = TrainingData.of(scan, passes)
            sizes = {"bags": len(data), "instances": int(data.sizes.sum()), "features": data.n_features}
            fold = data.folds(folds, seed + repeat)
            for entry in entries:
                for k in range(int(fold.max()) + 1):
                    held_out = fold == k
                    held = fit_without(entry.make(seed + repeat), data, ~held_out, held_out)
                    scores = {name: [value] for name, value in score(data.y[held_out], held.predictions).items()}
                    about = {"key": digest(entry.name, str(repeat), str(k))}
                    about |= {"method": entry.name, "repeat": repeat, "fold": k}
                    about |= {"n_train": int(np.sum(~held_out)), "n_test": int(np.sum(held_out))}
                    outcome = {"settings": [""], "scores": scores, "seconds": held.fit_seconds + held.predict_seconds}
                    results.append((about, finish(about, outcome)))
    written = {entry.name: {"estimator": describe(entry.make(seed)), "settings": "({})"} for entry in entries}
    names = {"name": name, "hash": None, "id_name": scan.bag, "target_name": scan.target}
    record = make_record(
        data=names | sizes | {"ids": [], "sizes": []},
        methods=written,
        n_settings=dict.fromkeys(written, 1),
        metric=metric,
        random_state=seed,
        splits=digest(str(folds), str(repeats), str(seed)),
        cells=[about for about, _ in results],
    )
    return Results(record, [result for _, result in results])
