"""Finished fits that are kept in a folder: a fit that was stopped goes on, and gives the same model."""

import json

import numpy as np
import pytest
from tests.helpers.toy_members import Broken, Column

import bagwise as bw
from bagwise.auto import AutoRegressor, stored_fits
from bagwise.auto.cross_validation import CrossValidation
from bagwise.model_files.store import Store, write_sealed

MEMBERS = ["aggregated", "statistics:moments", ("broken", Broken())]
FITS = 15  # of two members and the mean in five folds; chosen ones come on top


@pytest.fixture(scope="module")
def data():
    return bw.datasets.make_problem("mean", 40)


@pytest.fixture(scope="module")
def plain(data):
    return AutoRegressor(MEMBERS).fit(*data)


@pytest.fixture
def fits(monkeypatch):
    """The names of the members that are fitted, one for every fit; it may hold the number after which one is killed."""

    class Fits(list):
        stop = None

    done, run = Fits(), CrossValidation._run

    def counted(self, tasks, bags=None):
        if done.stop is not None and len(done) >= done.stop:
            raise KeyboardInterrupt
        results = run(self, tasks, bags)
        if bags is None:  # not of the learning curve
            done.extend(member.name for member, *_ in tasks)
        return results

    monkeypatch.setattr(CrossValidation, "_run", counted)
    return done


def same(one, other, bags):
    np.testing.assert_array_equal(one.predict(bags), other.predict(bags))
    np.testing.assert_array_equal(one.predict_folds(bags), other.predict_folds(bags))
    np.testing.assert_array_equal(one.held_out_, other.held_out_)
    assert one.weights_ == other.weights_ and one.scores_ == other.scores_
    assert [(row["member"], row["status"], row["why"]) for row in one.trials_] == [
        (row["member"], row["status"], row["why"]) for row in other.trials_
    ]


def test_a_stopped_fit_goes_on_and_gives_the_same_model(data, plain, fits, tmp_path):
    bags, _ = data
    fits.stop = 12
    with pytest.raises(KeyboardInterrupt):
        AutoRegressor(MEMBERS, work=tmp_path / "w").fit(*data)
    assert len(list((tmp_path / "w" / "cells").glob("*.json"))) == 12
    fits.stop = None
    fits.clear()
    again = AutoRegressor(MEMBERS, work=tmp_path / "w").fit(*data)
    chosen = len(plain.models_)
    assert len(fits) == FITS - 12 + chosen
    same(again, plain, bags)
    fits.clear()
    same(AutoRegressor(MEMBERS, work=str(tmp_path / "w")).fit(*data), plain, bags)
    assert fits == []


def test_another_seed_or_parameter_is_another_fit(data, fits, tmp_path):
    AutoRegressor(["aggregated"], work=tmp_path).fit(*data)
    fits.clear()
    AutoRegressor(["aggregated"], random_state=1, work=tmp_path).fit(*data)
    assert len(fits) > 9
    fits.clear()
    own = bw.method("aggregated").set_params(head__head__penalties=(1.0,))
    AutoRegressor([("aggregated", own)], transforms=False, work=tmp_path).fit(*data)
    assert "aggregated" in fits


def test_other_data_and_other_versions_are_refused_by_name(data, tmp_path, monkeypatch):
    (bags, y), work = data, tmp_path / "w"
    AutoRegressor(["aggregated"], work=work).fit(bags, y)
    with pytest.raises(ValueError, match=r"w holds the results of a fit of auto with other data: 40 bags of .* \(hash"):
        AutoRegressor(["aggregated"], work=work).fit(bags, y + 1)
    with pytest.raises(ValueError, match="other data: .*; give another folder to --work"):
        AutoRegressor(["aggregated"], work=work).fit(bags, y, sample_weight=np.arange(40) + 1.0)
    monkeypatch.setattr(stored_fits, "of_library", lambda: "bagwise 9.9")
    with pytest.raises(ValueError, match=r"other versions: bagwise 0\..* there, bagwise 9\.9 here"):
        AutoRegressor(["aggregated"], work=work).fit(bags, y)


def test_damaged_entries_are_named_and_run_again(data, plain, fits, tmp_path):
    bags, _ = data
    AutoRegressor(MEMBERS, work=tmp_path).fit(*data)
    results, models = (sorted((tmp_path / "cells").glob(f"*.{kind}")) for kind in ("json", "bagwise"))
    results[0].write_text(results[0].read_text()[:50])
    results[1].write_text(results[2].read_text())
    models[3].write_bytes(models[3].read_bytes()[:-9])
    models[4].unlink()
    (tmp_path / "work.json").write_text("{")
    fits.clear()
    with pytest.warns(UserWarning) as noted:
        again = AutoRegressor(MEMBERS, work=tmp_path).fit(*data)
    texts = sorted(str(one.message) for one in noted)
    assert len(fits) == 4 and len(texts) == 5
    for file, what in (
        (results[0], "is damaged or cut short; its fit will be run again"),
        (results[1], "holds the result of another fit; its fit will be run again"),
        (models[3], "is damaged or missing; its fit will be run again"),
        (models[4], "is damaged or missing; its fit will be run again"),
        (tmp_path / "work.json", "is damaged or cut short; it is written again, and finished results are kept"),
    ):
        assert f"{file} {what}" in texts
    same(again, plain, bags)


def test_a_larger_budget_tries_what_the_first_left_out(data, fits, tmp_path):
    members = ["aggregated", "statistics:moments"]
    first = AutoRegressor(members, time_budget=1e-9, work=tmp_path).fit(*data)
    assert {row["status"] for row in first.trials_ if row["member"] != "mean"} == {"skipped"}
    fits.clear()
    second = AutoRegressor(members, time_budget=600, work=tmp_path).fit(*data)
    assert {row["status"] for row in second.trials_} <= {"tried", "blended", "dropped"}
    assert "mean" not in fits[:5] and "statistics:moments" in fits


def test_seconds_used_before_the_interruption_are_counted(data, tmp_path):
    """What is read is free, but nothing more is begun than an uninterrupted fit would have."""
    AutoRegressor(["aggregated"], transforms=False, work=tmp_path).fit(*data)
    store = Store(tmp_path)
    for file in store.cells.glob("*.json"):
        document = json.loads(file.read_text())
        del document["digest"]
        document["result"]["elapsed"] = 100.0
        write_sealed(file, document)
    members = ["aggregated", "statistics:moments"]
    found = AutoRegressor(members, transforms=False, time_budget=90, work=tmp_path).fit(*data)
    rows = {row["member"]: row for row in found.trials_}
    assert rows["aggregated"]["status"] != "skipped" and rows["statistics:moments"]["why"] == "no time was left"
    assert found.seconds_ >= 100 and found.predictor_ == "refit"


def test_an_estimator_that_no_file_holds_is_fitted_again(data, fits, tmp_path):
    for _ in range(2):
        fits.clear()
        AutoRegressor([("first", Column(0))], work=tmp_path).fit(*data)
        assert fits.count("first") >= 5


def test_the_model_file_does_not_tell_the_folder(data, tmp_path):
    model = AutoRegressor(["aggregated"], work=tmp_path / "secret").fit(*data)
    bw.save_model(model, tmp_path / "m.bagwise")
    assert b"secret" not in (tmp_path / "m.bagwise").read_bytes()
    assert bw.load_model(tmp_path / "m.bagwise").work is None and model.work == tmp_path / "secret"


def test_every_target_has_a_folder_of_its_own(data, fits, tmp_path):
    bags, y = data
    both = np.column_stack([y, -(y**2)])
    model = bw.MultiTarget(AutoRegressor(["aggregated"], work=tmp_path)).fit(bags, both)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["target 1", "target 2"]
    fits.clear()
    again = bw.MultiTarget(AutoRegressor(["aggregated"], work=tmp_path)).fit(bags, both)
    np.testing.assert_array_equal(again.predict(bags), model.predict(bags))
    assert fits == []
