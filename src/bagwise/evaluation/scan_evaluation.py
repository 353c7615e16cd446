"""`evaluate` on a scan: folds of bags held out by sums, and the scores of each as `Results`."""

from __future__ import annotations

import time

import numpy as np

from bagwise.bags.validation import ParameterError
from bagwise.evaluation.metrics import METRICS, get_metric
from bagwise.evaluation.plan import as_entries
from bagwise.evaluation.results import Results
from bagwise.evaluation.splits import as_seed
from bagwise.model_files.fingerprint import describe, digest, of_library, versions
from bagwise.out_of_core.held_out import Folds, HeldOut, error_sums
from bagwise.out_of_core.passes import ColumnSums, Passes, survey
from bagwise.out_of_core.scan_fit import fit_surveyed, fold_seed, made, samplings, summable_methods

SCORES = ("rmse", "mae", "r2")
IN_MEMORY = ("y", "fold", "split", "by", "out", "origin", "device")


def evaluate_scan(scan, methods, *, repeats, folds, metric, executor, random_state, name, **others) -> Results:
    """The results of methods of sums, each fold of bags predicted by heads without it (see `evaluate`)."""
    given = [option for option in IN_MEMORY if others.get(option) is not None]
    if given:
        raise ValueError(f"{given[0]}= is for bags in memory; leave it out, or load the table")
    asked = {"bag_weights": scan.bag_weights, "bag_features": scan.covariates, "missing": scan.missing == "impute"}
    for parameter, value in asked.items():  # errors and heads of folds would be without them
        if value:
            raise ParameterError(
                parameter, f"evaluate takes no {parameter}= on a scan; leave it out, or load the table"
            )
    if methods is None:
        raise TypeError("evaluate needs the methods to compare: evaluate(scan, methods=['aggregated'])")
    if get_metric(metric).name not in SCORES:
        raise ValueError(f"of a scan {', '.join(SCORES)} are known, not {metric!r}; choose one of them")
    seed, results, cells = as_seed(random_state), [], []
    entries = as_entries(methods, tune=False)
    unsummable = [entry.label for entry in entries if entry.label == "auto"]
    if unsummable:
        known = ", ".join(summable_methods())
        raise ValueError(f"auto compares its members by itself: see leaderboard(); methods of sums are {known}")
    facts: dict = {}
    for repeat in range(1 if repeats is None else repeats):
        for result in _repeat(scan, entries, folds, seed + repeat, repeat, executor, facts):
            result["key"] = digest(of_library(), name, result["method"], str(repeat), str(result["fold"]))
            results.append(result)
            cells.append({key: result[key] for key in ("key", "method", "repeat", "fold", "n_train", "n_test")})
    written = {entry.label: {"estimator": describe(entry.make(seed)), "settings": "({})"} for entry in entries}
    record = {
        "library": of_library(),
        "data": {"name": name, "hash": None, "ids": [], "sizes": []} | facts,
        "methods": written,
        "n_settings": dict.fromkeys(written, 1),
        "selection": "nested",
        "metric": metric,
        "random_state": seed,
        "versions": versions(),
        "origin": None,
        "by": None,
        "splits": digest(str(folds), str(repeats), str(seed)),
        "cells": cells,
    }
    return Results(record, results)


def _repeat(scan, entries, n_folds: int, seed: int, repeat: int, executor, facts: dict):
    """A result for every method and fold of one deal."""
    models = {entry.label: made(entry.make(seed), seed) for entry in entries}
    for label, model in models.items():
        if fold_seed(model) not in (seed, 0):
            raise ValueError(f"{label} has a random_state of its own; give it {seed}, that of the folds, or None")
    with Passes(scan, executor, seed=seed) as passes:
        found = survey(passes, *dict.fromkeys(one for model in models.values() for one in samplings(model)))
        folds = Folds(passes, found, n_folds, clipped=False)
        facts |= {"bags": found.n_bags, "instances": found.columns.n, "features": len(found.names)}
        facts |= {"id_name": scan.bag, "target_name": scan.target}
        for number, (label, model) in enumerate(models.items()):
            started, held_out = time.perf_counter(), HeldOut(passes, folds, f"held-{number}")
            fit_surveyed(model, passes, found, held_out)
            held_out.finish()
            seconds = (time.perf_counter() - started) / folds.n
            for k, own in error_sums(passes, [held_out.column]).items():
                scores = _scores(own.n, float(own.products[0, 0]), float(own.absolute[0]), folds.y[k])
                yield _result(label, repeat, k, found.n_bags - own.n, own.n, scores, seconds)


def _scores(n: int, squares: float, absolute: float, y: ColumnSums) -> dict[str, float]:
    total = float(y.scatter[0])
    varies = y.high[0] - y.low[0] > 4 * np.finfo(float).eps * y.largest[0] and total > 0
    return {"rmse": np.sqrt(squares / n), "mae": absolute / n, "r2": 1 - squares / total if varies else np.nan}


def _result(label: str, repeat: int, fold: int, n_train: int, n_test: int, scores: dict, seconds: float) -> dict:
    every = {metric: [float(scores.get(metric, np.nan))] for metric in METRICS}
    result = {"method": label, "repeat": repeat, "fold": fold, "selection": "nested"}
    result |= {"n_train": n_train, "n_test": n_test, "error": None, "settings": [""], "scores": every}
    empty = {"bags": [], "targets": [], "predictions": None, "std": None, "uncertainty": None}
    return result | empty | {"seconds": seconds, "memory_mb": float("nan")}
