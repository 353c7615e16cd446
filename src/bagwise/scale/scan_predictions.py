"""`predict_scan`: the bags of a table that need not fit into memory, predicted by an ordinary model."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from bagwise.bags import Bags
from bagwise.bags.checks import find_far, warn_of_far
from bagwise.bags.validation import warn_user
from bagwise.intervals import Intervals
from bagwise.intervals.order_statistics import check_level
from bagwise.io.atomic_files import new_folder, refuse_place, replace_file
from bagwise.regressors.pipeline import first_step
from bagwise.scale.passes import Arrays, Passes
from bagwise.scale.table_scan import Scan, need_scan
from bagwise.scale.training_data import TrainingData

COLUMNS = ("prediction", "instances", "lower", "upper")


class Predictions(NamedTuple):
    """The bags of a scan with predictions, numbers of instances, and the bounds of intervals if the model has any."""

    ids: np.ndarray
    values: np.ndarray
    sizes: np.ndarray
    lower: np.ndarray | None = None
    upper: np.ndarray | None = None


def predict_scan(model, scan: Scan, *, level: float | None = None, out=None, executor=None, work=None) -> Predictions:
    """Predict every bag of a scan, wherever its rows are.

    The table is partitioned by bag, and the model predicts one partition after another, as in memory.

    Parameters
    ----------
    model : fitted estimator
        Any fitted method.
    scan : Scan
        With the features that the model was fitted on; a target is not needed.
    level : float, optional
        Of the intervals, for a model of `Intervals`. Default: that of its fit.
    out : path, optional
        A new folder to which the executor also writes the predictions as a Parquet data set, ``part-00000.parquet`` and
        so on: the id of a bag, ``prediction``, ``instances``, and ``lower`` and ``upper`` of its interval if the model
        has any. It appears whole or not at all.
    executor : object with ``run``, optional
        `Processes(n)` for several cores, `Dask(client)` for a cluster. Default: this process, and inside
        `bagwise.cluster` its workers.
    work : path, optional
        A folder that all workers reach, in which the partitions are stored meanwhile; a folder within it is made and
        removed. Default: the system's folder for temporary files.

    Returns
    -------
    Predictions
        ``ids``, ``values``, ``sizes``, ``lower`` and ``upper`` of all bags, in the order in which they first appear.

    Examples
    --------
    >>> import numpy as np, pandas as pd, bagwise as bw
    >>> table = pd.DataFrame({"site": [1, 2, 1, 2], "red": [0.0, 1.0, 2.0, 3.0], "aod": [0.1, 0.3, 0.1, 0.3]})
    >>> bags, y = bw.load(table, bag="site", target="aod")
    >>> model = bw.method("aggregated").fit(bags, y)
    >>> predicted = bw.predict_scan(model, bw.scan(table, bag="site", features=["red"], chunk_rows=2))
    >>> predicted.ids.tolist(), bool(np.allclose(predicted.values, model.predict(bags)))
    ([1, 2], True)
    """
    need_scan(scan)
    check_is_fitted(model[-1] if isinstance(model, Pipeline) else model)
    bounded = _gives_intervals(model, level)
    if out is not None:
        refuse_place(out)
        if scan.bag in COLUMNS:
            raise ValueError(
                f"The bag column is called {scan.bag!r}, as a column of the output is. Rename the bag column first."
            )
    with Passes(executor, within=work) as passes:
        data = TrainingData.of(scan, passes)
        predicted = passes.each("predict", _predict, data.tasks(), model, level, bounded)
        _warn(predicted, data.ids)
        if out is not None:
            tasks = list(zip(data.parts, range(len(predicted)), data.cut(data.ids), predicted, strict=True))
            new_folder(out, lambda folder: passes.each("write", _write, tasks, scan.bag, folder))
        order = np.argsort(data.first, kind="stable")
        names = ("values", "sizes", *(["lower", "upper"] if bounded else []))
        values = (np.concatenate([arrays[name] for arrays in predicted])[order] for name in names)
        return Predictions(data.ids[order], *values)


def _gives_intervals(model, level: float | None) -> bool:
    """Return whether the model gives intervals; raise an error for a level that it cannot give."""
    if not isinstance(model, Intervals):
        if level is not None:
            raise ValueError("The model was fitted without intervals. Fit bagwise.Intervals(method) with fit_scan.")
        return False
    why = model.refusal(check_level(model.level if level is None else level))
    if why is not None and level is not None:
        raise ValueError(why)
    return why is None


def _predict(part, model, level: float | None, bounded: bool) -> dict:
    bags: Bags = part.load()._with(compared=False)
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        arrays: dict[str, Any] = {"values": model.predict(bags), "sizes": bags.sizes}
        if bounded:
            arrays["lower"], arrays["upper"] = model.predict_interval(bags, level).T
    first = first_step(model)
    texts = [str(note.message) for note in notes if issubclass(note.category, UserWarning)]
    texts = [text for text in texts if "far outside the range of training" not in text]  # of all partitions below
    arrays["notes"] = np.array(texts, dtype=object) if texts else None
    if getattr(first, "n_features_in_", bags.n_features) != bags.n_features:
        bags = bags.spread()  # the method reads covariates as columns of the instances
    arrays["far"], text = find_far(bags, first)
    arrays["far_text"] = np.array([text], dtype=object)
    return arrays


def _warn(predicted: list[Arrays], ids: np.ndarray) -> None:
    """Repeat the warnings of the partitions, and warn once of values far outside the range of training."""
    for text in dict.fromkeys(text for arrays in predicted if "notes" in arrays for text in arrays["notes"].tolist()):
        warn_user(text)
    marked = np.concatenate([arrays["far"] for arrays in predicted])
    warn_of_far(ids, marked, next((text for arrays in predicted if (text := arrays["far_text"][0])), ""))


def _write(part, number: int, ids: np.ndarray, predicted: Arrays, bag: str, folder: Path) -> dict:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {bag: ids, "prediction": predicted["values"], "instances": predicted["sizes"]}
    columns |= {name: predicted[name] for name in ("lower", "upper") if name in predicted}
    table = pa.table({name: pa.array(np.asarray(column)) for name, column in columns.items()})
    replace_file(folder / f"part-{number:05d}.parquet", lambda path: pq.write_table(table, path))
    return {}
