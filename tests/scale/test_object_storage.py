"""Scans, fits and predictions of a table in object storage, at a server that understands S3."""

import contextlib
import io

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.helpers.cut_tables import scanned

import bagwise as bw
from bagwise.execution import Processes
from bagwise.scale import fit_scan, predict_scan

KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}


@pytest.fixture(scope="module")
def server():
    """The address of a server of this process."""
    found = pytest.importorskip("moto.server", reason="needs a server of S3: pip install 'moto[s3]' flask flask-cors")
    one = found.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    with contextlib.redirect_stdout(io.StringIO()):
        one.start()
    yield "http://{}:{}".format(*one.get_host_and_port())
    one.stop()


@pytest.fixture(scope="module")
def storage(server):
    import boto3

    options = {name.lower(): value for name, value in KEYS.items() if "ACCESS" in name}
    client = boto3.client("s3", endpoint_url=server, region_name="us-east-1", **options)
    client.create_bucket(Bucket="bucket")
    return client


@pytest.fixture(scope="module")
def files(table, tmp_path_factory):
    """The table in folders by site, on this machine."""
    folder = tmp_path_factory.mktemp("cut")
    for site in range(3):
        (folder / f"part={site}").mkdir()
        rows = table.filter(np.asarray(table["site"]) % 3 == site)
        pq.write_table(rows, folder / f"part={site}" / "rows.parquet", row_group_size=400)
    return folder


@pytest.fixture
def url(files, storage, server, monkeypatch):
    """The same in a bucket."""
    for name, value in (KEYS | {"AWS_ENDPOINT_URL": server}).items():
        monkeypatch.setenv(name, value)
    for path in files.rglob("*.parquet"):
        storage.upload_file(str(path), "bucket", f"pixels/{path.relative_to(files).as_posix()}")
    return "s3://bucket/pixels"


def test_the_model_and_its_predictions_are_those_of_local_files(url, files, tmp_path):
    here, there = (scanned(source, chunk_rows=400) for source in (files, url))
    assert [chunk.n_rows for chunk in there.chunks] == [chunk.n_rows for chunk in here.chunks]
    assert there.chunks[0].name == "s3://bucket/pixels/part=0/rows.parquet, row group 0"
    models = [fit_scan(source, "aggregated") for source in (here, there)]
    one, other = (predict_scan(model, source) for model, source in zip(models, (here, there), strict=True))
    assert one.ids.tolist() == other.ids.tolist() and (one.values == other.values).all()
    predict_scan(models[0], there, out=tmp_path / "out")
    assert pq.read_table(tmp_path / "out").num_rows == len(one.ids)
    with pytest.raises(ValueError, match="s3://bucket/out is a URL, and results are written to this machine"):
        predict_scan(models[0], there, out="s3://bucket/out")


def test_patterns_conditions_and_load_follow_the_rules_of_local_files(url, files):
    for source in (scanned(f"{url}/part=[12]/*.parquet"), scanned(url, where="part >= 1")):
        assert {chunk.name.split("/")[4] for chunk in source.chunks} == {"part=1", "part=2"}
    one, other = (bw.load(source, bag="bag", target="y", ignore=["site"])[0] for source in (url, files))
    assert (one.instances == other.instances).all() and one.ids.tolist() == other.ids.tolist()


@pytest.mark.slow
def test_a_fit_goes_on_unless_an_object_has_changed(url, storage, tmp_path, files):
    for executor in (None, Processes(2)):
        fit_scan(scanned(url, chunk_rows=400), "aggregated", work=tmp_path / "work", executor=executor)
    rows = pq.read_table(files / "part=1" / "rows.parquet")
    pq.write_table(rows, tmp_path / "other.parquet", compression="none", row_group_size=100)
    storage.upload_file(str(tmp_path / "other.parquet"), "bucket", "pixels/part=1/rows.parquet")
    with pytest.raises(ValueError, match=r"other contents of s3://bucket/pixels/part=1/rows\.parquet"):
        fit_scan(scanned(url, chunk_rows=400), "aggregated", work=tmp_path / "work")


def test_what_is_not_there_is_named(url):
    with pytest.raises(FileNotFoundError, match="s3://bucket/nothing"):
        scanned("s3://bucket/nothing")
    with pytest.raises(FileNotFoundError, match=r"no file matches s3://bucket/pixels/\*\.csv"):
        scanned("s3://bucket/pixels/*.csv")
    with pytest.raises((FileNotFoundError, ValueError), match="s3://nobody/pixels"):
        scanned("s3://nobody/pixels")
