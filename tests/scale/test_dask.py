"""A fit and a prediction by the workers of a cluster."""

import numpy as np
import pytest
from distributed import Client, LocalCluster
from tests.helpers.cut_tables import SHARED, cut, scanned, small

import bagwise as bw
from bagwise.execution import Dask, Serial
from bagwise.scale import fit_scan, predict_scan


@pytest.fixture(scope="module")
def client():
    """Two workers in this process: what they do is what workers do elsewhere, and they start at once."""
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0") as workers,
        Client(workers, set_as_default=False) as client,
    ):
        yield client


@pytest.mark.parametrize("name", SHARED)
def test_the_model_of_a_cluster_is_that_of_one_process_to_the_last_bit(name, client, table, tmp_path):
    source = scanned(cut(table, tmp_path, 1), chunk_rows=500)
    bags, _ = bw.load(table, bag="bag", target="y", ignore=["site"])
    here, there = (fit_scan(source, small(name), executor=each) for each in (Serial(), Dask(client)))
    assert (here.predict(bags) == there.predict(bags)).all()
    one, two = (predict_scan(here, source, executor=each) for each in (Serial(), Dask(client)))
    assert (one.values == two.values).all() and one.ids.tolist() == two.ids.tolist()


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
    import pyarrow as pa

    values = table["x3"].to_numpy().copy()
    values[500] = np.nan
    odd = table.set_column(table.column_names.index("x3"), "x3", pa.array(values))
    with pytest.raises(ValueError, match="has missing .*column 'x3'"):
        fit_scan(scanned(odd, chunk_rows=400), "aggregated", executor=Dask(client))
