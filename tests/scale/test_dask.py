"""Fits and predictions by several processes or the workers of a cluster."""

import numpy as np
import pytest
from tests.helpers.cut_tables import SHARED, cut, scanned, small, with_value

import bagwise as bw
from bagwise.execution import Dask, Processes, Serial
from bagwise.scale import fit_scan, predict_scan


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
