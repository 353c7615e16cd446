"""`bagwise report`, as typed after `bagwise evaluate`."""

import shutil

import pandas as pd
import pytest
from tests.helpers.page_reading import Report
from typer.testing import CliRunner

import bagwise as bw
from bagwise.cli import app
from bagwise.testing.contract_checks import sample


def typed(*words):
    result = CliRunner().invoke(app, [str(word) for word in words], prog_name="bagwise")
    return result, " ".join(result.stderr.split())


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """A folder with a table and a run on it."""
    folder = tmp_path_factory.mktemp("evaluated")
    bags, y = sample(30)
    frame = pd.DataFrame(bags.instances, columns=["a", "b", "c d"])
    frame = frame.assign(site=bags.expand(bags.ids), aod=bags.expand(y), patient=bags.expand(bags.ids % 6), year=2026)
    frame.to_csv(folder / "aod.csv", index=False)
    options = ["--bag", "site", "--target", "aod", "--groups", "patient", "--ignore", "year", "--no-tune"]
    result, said = typed(
        "evaluate", folder / "aod.csv", "--method", "aggregated", *options, "--repeats", 1, "--out", folder / "run"
    )
    assert result.exit_code == 0, said
    return folder


@pytest.fixture
def folder(evaluated, tmp_path):
    """The same, where a test may change it; the table stays where the run recorded it unless the test moves it."""
    shutil.copytree(evaluated / "run", tmp_path / "run")
    return tmp_path


def test_a_report_beside_the_run(evaluated, folder):
    result, said = typed("report", folder / "run")
    assert result.exit_code == 0 and "Fitting aggregated on all 30 bags" in said and "Wrote" in said
    found = Report(folder / "run" / "report.html")
    assert found.explorer["features"] == ["a", "b", "c d"] and len(found.explorer["bags"]) == 30
    table, run = evaluated / "aod.csv", evaluated / "run"
    columns = "--bag site --target aod --groups patient --ignore year"
    command = f"bagwise evaluate {table} --method aggregated {columns} --no-tune --repeats 1 --out {run}"
    assert command in found.text
    assert "has changed since" not in found.text


def test_the_explorer_of_a_run_that_filled_in_missing_values(evaluated, tmp_path):
    frame = pd.read_csv(evaluated / "aod.csv")
    frame.loc[::9, "b"] = None
    frame.to_csv(tmp_path / "s.csv", index=False)
    options = ["--bag", "site", "--target", "aod", "--missing", "impute", "--repeats", 1, "--no-tune"]
    typed("evaluate", tmp_path / "s.csv", "--method", "aggregated", *options, "--out", tmp_path / "run")
    assert typed("report", tmp_path / "run")[0].exit_code == 0
    found = Report(tmp_path / "run" / "report.html")
    assert len(found.explorer["bags"]) == 30 and "has changed since" not in found.text


def test_quiet_elsewhere_without_explorer(folder):
    (folder / "new").mkdir()
    result, said = typed("report", folder / "run", "--out", folder / "new" / "aod.html", "--no-explorer", "--quiet")
    assert (result.exit_code, said, result.stdout) == (0, "", "")
    assert Report(folder / "new" / "aod.html").explorer is None


def test_a_table_that_is_gone_has_changed_or_moved(evaluated, folder, monkeypatch):
    table = evaluated / "aod.csv"
    text = table.read_text()
    shutil.copy(table, folder / "moved.csv")
    try:
        table.unlink()
        result, said = typed("report", folder / "run")
        found = Report(folder / "run" / "report.html")
        assert result.exit_code == 0 and found.explorer is None
        assert "Without bag explorer: there is no file" in said and "--data TABLE" in said
        assert "there is no file" in found.text and "--data TABLE" in found.text
        assert found.words("methods", "method") == ["aggregated"]
        assert typed("report", folder / "run", "--data", folder / "moved.csv")[0].exit_code == 0
        assert Report(folder / "run" / "report.html").explorer is not None
        table.write_text(text.replace("2026", "2025", 1).replace("0.", "1.", 1))
        typed("report", folder / "run")
        assert "aod.csv is not what it was when the run was made" in Report(folder / "run" / "report.html").text
    finally:
        table.write_text(text)


def test_damaged_results_are_an_error(folder):
    for cell in (folder / "run" / "cells").iterdir():
        cell.write_bytes(cell.read_bytes()[:-20])
    result, said = typed("report", folder / "run")
    assert result.exit_code == 1 and "is damaged or cut short" in said
    assert "cells have not run, or their files are damaged" in said
    assert not (folder / "run" / "report.html").exists()


def test_one_message_no_traceback(evaluated, folder):
    result, said = typed("report", folder / "nothere")
    assert result.exit_code == 1 and said.startswith(f"bagwise report: There is no folder {folder / 'nothere'}.")
    (folder / "my.bagwise").write_bytes(b"")
    result, said = typed("report", folder / "my.bagwise")
    assert result.exit_code == 1 and "my.bagwise is a model, not the folder of an evaluation." in said
    assert "`bagwise fit ... --report page.html` writes the report of a model" in said
    other = bw.datasets.make_gaussian(10, instances=2)[0]
    pd.DataFrame(other.instances).assign(
        site=other.expand(other.ids), aod=other.expand(other.ids), patient=1, year=1
    ).to_csv(folder / "other.csv", index=False)
    result, said = typed("report", folder / "run", "--data", folder / "other.csv")
    assert result.exit_code == 1 and "other.csv is not what it was when the run was made" in said
    assert typed("report")[0].exit_code == 2
