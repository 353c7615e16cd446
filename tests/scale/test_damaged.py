"""A file that is damaged or gone, before a fit or in the middle of one, is named, and nothing is written."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.helpers.cut_tables import scanned, small
from typer.testing import CliRunner

from bagwise.cli import app
from bagwise.execution import Dask, Serial
from bagwise.scale import fit_scan, predict_scan

CUT = "may be cut short, damaged, or of another format"


@pytest.fixture
def folder(table, tmp_path):
    """Four files; their pages have checksums."""
    dataset = tmp_path / "dataset"
    for k, start in enumerate(np.linspace(0, table.num_rows, 5)[:-1].astype(int)):
        (dataset / f"part={k}").mkdir(parents=True)
        part = table.slice(start, -(-table.num_rows // 4))
        pq.write_table(part, dataset / f"part={k}" / "rows.parquet", row_group_size=100, write_page_checksum=True)
    return dataset


def shorten(path):
    path.write_bytes(path.read_bytes()[:-100])


def overwrite(path):
    """A few bytes in the middle of a column of values."""
    column = pq.ParquetFile(path).metadata.row_group(1).column(2)
    data = bytearray(path.read_bytes())
    middle = column.data_page_offset + column.total_compressed_size // 2
    data[middle : middle + 8] = b"\xff" * 8
    path.write_bytes(data)


HARMS = {Path.unlink: "there is no file .*part=2", shorten: f"part=2.* {CUT}", overwrite: f"part=2.*row group.* {CUT}"}


class Harmed:
    """An executor whose third file comes to harm when a pass over chunks begins."""

    def __init__(self, executor, harm, path, at: int):
        self.executor, self.harm, self.path, self.left = executor, harm, path, at

    def run(self, function, tasks, shared=()):
        if function.name in ("bag-hashes", "partition"):
            if self.left == 0:
                self.harm(self.path)
            self.left -= 1
        return self.executor.run(function, tasks, shared)


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("at", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_in_whichever_pass_it_happens_the_file_is_named(harm, at, folder):
    source, executor = scanned(folder, chunk_rows=300), Harmed(Serial(), harm, folder / "part=2" / "rows.parquet", at)
    with pytest.raises((ValueError, FileNotFoundError), match=HARMS[harm]):
        fit_scan(source, small("instance-kme:ridge"), executor=executor)
    assert executor.left < 0  # the harm was done


@pytest.mark.parametrize("harm", [overwrite, pytest.param(shorten, marks=pytest.mark.slow)])
def test_a_worker_names_it_too(harm, folder, client):
    source = scanned(folder, chunk_rows=300)
    model = fit_scan(source, small("instance-kme:ridge"), executor=Dask(client))
    harm(folder / "part=2" / "rows.parquet")
    with pytest.raises((ValueError, FileNotFoundError), match=HARMS[harm]):
        fit_scan(source, small("instance-kme:ridge"), executor=Dask(client))
    with pytest.raises((ValueError, FileNotFoundError), match=HARMS[harm]):
        predict_scan(model, source, executor=Dask(client))


@pytest.mark.parametrize("engine", ["stream", pytest.param("dask", marks=pytest.mark.slow)])
def test_the_command_line_names_it_and_writes_nothing(engine, folder, tmp_path):
    columns, model = ["--bag", "bag", "--target", "y", "--ignore", "site"], tmp_path / "model.bagwise"
    fit = ["fit", str(folder), *columns, "--engine", engine, "--n-jobs", "1", "--method", "aggregated", "--out"]
    done = CliRunner().invoke(app, [*fit, str(model)])
    assert done.exit_code == 0, done.output
    overwrite(folder / "part=2" / "rows.parquet")
    before = sorted(tmp_path.iterdir())
    predict = ["predict", str(model), str(folder), "--engine", engine, "--n-jobs", "1", "--out"]
    for command in ([*fit, "other.bagwise"], [*predict, "predictions"], [*predict, "predictions.csv"]):
        done = CliRunner().invoke(app, [*command[:-1], str(tmp_path / command[-1])])
        said = " ".join(done.output.split())
        assert done.exit_code != 0 and "part=2/rows.parquet" in said and "damaged" in said, said
        assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("at", [0, 1])
def test_a_file_that_is_written_anew_during_the_fit_is_named(at, folder):
    def rewrite(path):
        values = pq.read_table(path)
        pq.write_table(values.set_column(0, "x0", [values["x0"].to_numpy() + 1.0]), path, row_group_size=100)

    path = folder / "part=2" / "rows.parquet"
    source, executor = scanned(folder, chunk_rows=300), Harmed(Serial(), rewrite, path, at)
    with pytest.raises(ValueError, match="part=2.* has other columns or values than when the table was scanned"):
        fit_scan(source, small("instance-kme:ridge"), executor=executor)


def test_a_file_that_appears_is_named_and_not_read(folder):
    source = scanned(folder, chunk_rows=10**6)
    expected = fit_scan(source, "aggregated")
    (folder / "part=7").mkdir()
    (folder / "part=7" / "rows.parquet").write_bytes((folder / "part=2" / "rows.parquet").read_bytes())
    with pytest.warns(UserWarning, match="part=7/rows.parquet appeared after the table was scanned, and none of its"):
        model = fit_scan(source, "aggregated")
    with pytest.warns(UserWarning, match="part=7/rows.parquet appeared after the table was scanned"):
        found = predict_scan(model, source)
    assert (found.values == predict_scan(expected, scanned(folder, where="part < 7")).values).all()


def test_columns_that_differ_between_files_are_named(folder, table):
    pq.write_table(table.drop_columns(["x1"]), folder / "part=3" / "rows.parquet")
    with pytest.raises(ValueError, match="part=3.*x1"):
        scanned(folder)
    text = table.set_column(1, "x1", [["high"] * table.num_rows])
    pq.write_table(text, folder / "part=3" / "rows.parquet")
    with pytest.raises(ValueError, match="x1.*part=3"):
        scanned(folder)
