"""Table 1 again, on files of the published shapes and formats with few bags."""

import hashlib

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from tests.helpers.published_files import crop_frame, write_aerosol

import bagwise as bw
from bagwise.evaluation import Results, evaluate, table1
from bagwise.evaluation.table1 import DATA_SETS, find_files, read_file

MEAN, *KME = [list(table1.PUBLISHED)[k] for k in (0, 2, 3)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("mir")
    write_aerosol(place, "MISR1")
    write_aerosol(place, "MISR2", ragged=True, seed=1)
    write_aerosol(place, "MODIS", features=12, seed=2)
    crop_frame(invalid=0.001).to_csv(place / "wheat.csv", index=False)
    crop_frame(seed=1).to_parquet(place / "CORN.parquet")
    crop_frame(seed=2).to_pickle(place / "WHEAT.p")
    return place


def test_each_file_is_found_and_a_table_is_preferred_to_a_pickle(folder):
    found = find_files(folder)
    names = {"MODIS": "MODIS.mat", "MISR1": "MISR1.mat", "MISR2": "MISR2.mat"}
    assert {name: path.name for name, path in found.items()} == names | {"WHEAT": "wheat.csv", "CORN": "CORN.parquet"}
    for name, shape in {"MODIS": (40, 12), "MISR1": (40, 16), "CORN": (30, 92)}.items():
        bags, y, notes = read_file(name, found[name])
        assert bags.shape == shape and y.shape == shape[:1] and not any("features" in note for note in notes)
    with pytest.raises(NotADirectoryError, match="There is no folder"):
        find_files(folder / "nowhere")


def test_differences_from_the_published_files_are_noted(folder, tmp_path):
    path = find_files(folder)["MISR1"]
    content = path.read_bytes()
    blob = hashlib.sha1(b"blob " + str(len(content)).encode() + b"\0" + content).hexdigest()
    (note,) = read_file("MISR1", path)[2]
    assert blob in note and "not cf7b9876140f1a5ec5c656ab43fa5a0244fd75ea" in note
    write_aerosol(tmp_path, "MODIS", features=16)
    assert read_file("MODIS", tmp_path / "MODIS.mat")[2] == ["MODIS.mat has 16 features; the published file has 12"]


def test_bags_of_100_are_kept_as_in_the_notebook(folder, tmp_path):
    path = find_files(folder)["MISR2"]
    bags, y, _ = read_file("MISR2", path)
    kept, targets, notes = read_file("MISR2", path, bags_of_100=True)
    assert set(kept.sizes) == {100} and 0 < len(kept) == (bags.sizes == 100).sum() < 40
    np.testing.assert_array_equal(targets, y[bags.sizes == 100])
    assert notes == [f"{len(kept)} of 40 bags have exactly 100 instances; the others were dropped"]
    write_aerosol(tmp_path, "MISR2", n_bags=5, instances=20)
    with pytest.raises(ValueError, match="Only 0 bags have exactly 100 instances. Leave --bags-of-100 out"):
        read_file("MISR2", tmp_path / "MISR2.mat", bags_of_100=True)


@pytest.mark.filterwarnings("ignore:.*looks like a fill value")
def test_invalid_crop_values_are_kept_or_dropped(folder):
    path = find_files(folder)["WHEAT"]
    bags, y, _ = read_file("WHEAT", path)
    assert (bags.instances == -32767).any() and bags.ids[0] == "c0_2003"
    clean, targets, (note,) = read_file("WHEAT", path, invalid="drop")
    assert not np.isin(clean.instances, [0, -32767]).any() and "contain 0 or -32767" in note
    assert dict(zip(clean.ids, targets, strict=True)).items() <= dict(zip(bags.ids, y, strict=True)).items()
    crop_frame(invalid=0.9).to_csv(path.parent / "other.csv", index=False)
    with pytest.raises(ValueError, match="Fewer than two bags have an instance without invalid values"):
        read_file("WHEAT", path.parent / "other.csv", invalid="drop")
    with pytest.raises(ValueError, match="invalid must be 'keep' or 'drop', not 'no'"):
        read_file("WHEAT", path, invalid="no")


def test_a_pickle_is_opened_only_when_trusted(folder, tmp_path):
    with pytest.raises(PermissionError, match="can run code when opened. Pass --trust-pickle"):
        read_file("WHEAT", folder / "WHEAT.p")
    bags, y, _ = read_file("WHEAT", folder / "WHEAT.p", trust_pickle=True)
    assert bags.shape == (30, 92)
    numbers = crop_frame(seed=2).assign(county_year=np.repeat(np.arange(30), 10)).to_numpy(dtype=float)
    numbers.dump(tmp_path / "CORN.p")  # the notebook may have held an array
    same, targets, _ = read_file("CORN", tmp_path / "CORN.p", trust_pickle=True)
    np.testing.assert_array_equal(same.instances, bags.instances)
    np.testing.assert_array_equal(targets, y)


@pytest.fixture(scope="module")
def short_grid():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table1, "PAPER_BANDWIDTHS", (10.0, 70.0, 140.0))
        patch.setattr(table1, "PAPER_PENALTIES", (1e-2, 1e-8, 1e-16))
        yield


@pytest.fixture(scope="module")
def small(folder):
    bags, y, _ = read_file("MISR1", find_files(folder)["MISR1"])
    rng = np.random.default_rng(0)  # a few pixels of each bag are enough here
    return bw.from_arrays([bag[rng.permutation(100)[:8]] for bag in bags], ids=bags.ids), y


@pytest.fixture(scope="module")
def table(small, short_grid, tmp_path_factory):
    out = tmp_path_factory.mktemp("run")
    rows = list(table1.PUBLISHED)[:4]
    table1.run_rows("MISR1", *small, repeats=2, folds=2, inner_folds=3, rows=rows, out=out)
    results = Results.load(out)
    return [table1.read_row(results, row, "MISR1") for row in rows], results


def test_rows_stand_beside_the_published_numbers(table):
    rows, results = table
    assert [(row["row"], row["published"]) for row in rows] == [
        ("instance-MIR (mean)", 9.02),
        ("instance-MIR (median)", 8.89),
        ("instance-kme-MIR (INV)", 8.68),
        ("instance-kme-MIR (RBF)", 8.70),
    ]
    assert results.scores("instance-kme-MIR").shape == (4, 2 * (9 + 2)) and results.failures == []
    for row in rows:
        gap = (row["nested"] - row["published"]) / row["nested_se"]
        assert row["nested_gap_in_se"] == pytest.approx(gap)
    for row, columns in zip(rows[2:], (slice(0, 9), slice(11, 20)), strict=True):
        settings = 100 * results.scores("instance-kme-MIR")[:, columns].mean(axis=0)
        assert row["paper"] == pytest.approx(settings.min())  # of the settings that are the same on every fold
    mean, median = rows[:2]
    assert mean["paper"] == mean["nested"] != median["paper"]


def test_the_standard_error_is_that_of_the_repeats(table):
    rows, results = table
    means = 100 * results.scores("instance-MIR")[:, 0].reshape(2, 2).mean(axis=1)
    assert (rows[0]["paper"], rows[0]["paper_se"]) == pytest.approx((means.mean(), means.std(ddof=1) / np.sqrt(2)))


def test_protocols_equal_plain_refits(small, table):
    """The nested setting has the paper's grid in its head, the one before it is of the paper's protocol."""
    (entry,) = table1.table_entries(crop=False, inner_folds=3, rows=KME)
    assert entry.settings[10] == entry.settings[9] | {"head__embedding__beyond": "clip"}
    for k in (7, 9, 10):
        plain = evaluate(*small, [("plain", clone(entry.make(0)).set_params(**entry.settings[k]))], repeats=1, folds=2)
        scores = table[1].scores("instance-kme-MIR")[:2, k]
        np.testing.assert_allclose(plain.values("plain"), scores, rtol=1e-12)


def test_crops_have_the_network_of_the_notebook():
    pool, kme = table1.table_entries(crop=True, inner_folds=4, rows=list(table1.PUBLISHED)[1:3])
    assert pool.make(3).get_params()["instances__estimator__hidden"] == (512,)
    made, names = kme.make(3).get_params(), ("regressor__hidden", "folds", "random_state")
    assert [made[f"instances__{name}"] for name in names] == [(512,), 4, 3]


def test_unknown_rows_and_protocols_are_refused(small):
    with pytest.raises(ValueError, match="Table 1 has no row 'EM'. Its rows are instance-MIR"):
        table1.choose_rows(["EM"])
    with pytest.raises(ValueError, match="folds must be"):
        table1.run_rows("MISR1", *small, rows=[MEAN], folds=0)


def test_inner_folds_are_at_most_the_training_bags(small, monkeypatch):
    asked = {}
    monkeypatch.setattr(table1, "evaluate", lambda *_, **__: None)
    monkeypatch.setattr(table1, "table_entries", lambda **options: asked.update(options))
    bags, y = small
    table1.run_rows("MISR1", bags[:7], y[:7], rows=[MEAN], folds=3)
    assert asked["inner_folds"] == 4  # folds of 3, 2 and 2 bags


def test_a_row_is_optimistic_where_a_setting_was_chosen_on_the_scoring_folds(table):
    """EM-MIR and attention-MIR have one setting, as the rows of instance-MIR have."""
    rows, _ = table
    assert [row["selection"] for row in rows] == ["none"] * 2 + ["paper (optimistic)"] * 2
    for row in rows:
        assert (row["paper"] == row["nested"]) == (row["selection"] == "none")


def test_every_row_and_data_set_of_the_table_is_there():
    assert len(table1.PUBLISHED) == 6
    assert all(set(row) == set(DATA_SETS) for row in table1.PUBLISHED.values())


def test_predictions_outside_the_range_are_scored_without_a_word():
    """By hand they are warned of, which here is an error."""
    rng = np.random.default_rng(0)
    bags = bw.from_arrays([rng.normal(size=(4, 1)) + 10 * (i % 10 == 9) for i in range(40)])
    y = np.array([bag.mean() for bag in bags])
    fold = (np.arange(40) % 10 == 9).astype(int)
    plain = bw.method("instance-kme:paper").set_params(instances__regressor=LinearRegression(), instances__folds=3)
    assert evaluate(bags, y, [("plain", plain)], fold=fold).failures == []
    with pytest.warns(UserWarning, match="instance predictions of up to"):
        clone(plain).fit(bags[fold == 0], y[fold == 0]).predict(bags[fold == 1])
