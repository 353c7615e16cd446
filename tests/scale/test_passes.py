"""Passes over partitions by this process, several processes or the workers of a cluster."""

from typing import NamedTuple

import numpy as np
import pytest
from tests.helpers.cut_tables import SHARED, cut, scanned, small, with_value

import bagwise as bw
from bagwise.execution import Dask, Lost, Processes, Serial
from bagwise.scale import fit_scan, predict_scan
from bagwise.scale.passes import Passes


class Part(NamedTuple):
    name: str
    number: int
    n_rows: int = 1


PARTS = [(Part(f"part {number}", number),) for number in range(4)]


def halved(part):
    return {"half": np.array(part.number / 2)}


def inverse(part):
    return {"inverse": np.array(1 // (part.number - 1))}


class Backwards(Serial):
    """Executor that returns the results from the last to the first."""

    def run(self, function, tasks, shared=()):
        yield from reversed(list(super().run(function, tasks, shared)))


class Loses(Serial):
    """Executor whose worker dies at the second task."""

    def run(self, function, tasks, shared=()):
        for number, pair in enumerate(super().run(function, tasks, shared)):
            yield (pair[0], Lost("it died")) if number == 1 else pair


@pytest.mark.parametrize("executor", [Backwards(), Processes(2)], ids=["backwards", "processes"])
def test_results_are_in_the_order_of_the_tasks(executor):
    with Passes(executor) as passes:
        assert [float(arrays["half"]) for arrays in passes.each("halves", halved, PARTS)] == [0, 0.5, 1, 1.5]


@pytest.mark.filterwarnings("error")  # nothing may be left behind in the processes
@pytest.mark.parametrize("executor", [Serial(), Processes(2)], ids=["serial", "processes"])
def test_an_error_is_raised_as_it_was_and_ends_the_pass(executor):
    steps = []
    with Passes(executor, progress=steps.append) as passes:
        with pytest.raises(ZeroDivisionError):
            passes.each("inverses", inverse, PARTS)
        if isinstance(executor, Serial):
            assert not list(passes.folder.glob("*/0000[123]"))


def test_a_task_that_is_lost_is_named():
    with Passes(Loses()) as passes, pytest.raises(RuntimeError, match="part 1: it died"):
        passes.each("halves", halved, PARTS)


def test_a_dashboard_shows_the_names_of_passes(client):
    key_split = pytest.importorskip("dask.utils").key_split
    submit, keys = client.submit, []
    client.submit = lambda *args, **options: (keys.append(options.get("key")), submit(*args, **options))[1]
    try:
        with Passes(Dask(client)) as passes:
            passes.each("survey", halved, PARTS[:2])
            passes.each("fold-sums", halved, PARTS[:2])
    finally:
        del client.submit
    named = [key for key in keys if key]
    expected = [f"{name}-{number:04d}" for name in ("survey", "fold-sums") for number in range(2)]
    assert [key.rpartition("-")[0] for key in named] == expected
    assert {key_split(key) for key in named} == {"survey", "fold-sums"}  # how the dashboard groups them


# Fits and predictions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["processes", "cluster"])
@pytest.mark.parametrize("name", SHARED)
def test_other_executors_give_the_same_bits(name, kind, client, table, tmp_path):
    executors = Serial(), Dask(client) if kind == "cluster" else Processes(2)
    source = scanned(cut(table, tmp_path, 1), chunk_rows=500)
    bags, _ = bw.load(table, bag="bag", target="y", ignore=["site"])
    here, there = (fit_scan(source, small(name), executor=executor) for executor in executors)
    assert (here.predict(bags) == there.predict(bags)).all()
    expected, predicted = (predict_scan(here, source, executor=executor) for executor in executors)
    assert (predicted.values == expected.values).all() and predicted.ids.tolist() == expected.ids.tolist()


def test_inside_a_cluster_it_is_asked_without_being_named(client, table):
    source, asked = scanned(table, chunk_rows=600), client.submit
    calls = []
    client.submit = lambda *args, **options: (calls.append(1), asked(*args, **options))[1]
    try:
        with bw.cluster(client):
            inside = fit_scan(source, "aggregated")
    finally:
        client.submit = asked
    assert calls
    assert (inside[-1].head_.coef_ == fit_scan(source, "aggregated")[-1].head_.coef_).all()


def test_an_error_of_a_worker_is_the_error_here(client, table):
    odd = with_value(table, "x3", 500, np.nan)
    with pytest.raises(ValueError, match="has missing .*column 'x3'"):
        fit_scan(scanned(odd, chunk_rows=400), "aggregated", executor=Dask(client))
