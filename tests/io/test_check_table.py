"""`bw.check_table`: what a table holds, and what looks wrong."""

import warnings

import numpy as np
import pandas as pd
import pytest

import bagwise as bw


@pytest.fixture(autouse=True)
def few_bags_will_do(monkeypatch):
    """The tables here have few bags, of which `test_door` has the warning."""
    monkeypatch.setattr("bagwise.io.table_report.FEWEST", 0)


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    site = np.repeat(["a", "b", "c"], [10, 1, 14])
    y = pd.Series({"a": 0.5, "b": 1.5, "c": 2.5})[site].to_numpy()
    return pd.DataFrame({"site": site, "red": rng.normal(size=25), "nir": rng.normal(size=25), "aod": y})


def findings(frame, level, **options):
    found = bw.check_table(frame, **{"bag": "site", "target": "aod"} | options)
    return [finding.text for finding in found.findings if finding.level == level]


def test_a_sound_table(frame):
    found = bw.check_table(frame, bag="site", target="aod")
    assert (found.rows, found.bags, found.sizes, found.findings, found.ok) == (25, 3, (1, 10.0, 14), [], True)
    assert [feature["name"] for feature in found.features] == ["red", "nir"]
    assert found.features[0]["minimum"] == frame.red.min() and found.features[0]["maximum"] == frame.red.max()
    assert found.targets == [{"name": "aod", "minimum": 0.5, "median": 1.5, "maximum": 2.5}]


@pytest.mark.parametrize(
    ("change", "level", "words"),
    [
        (
            {"aod": lambda f: f.aod.where(f.index != 3, 9.0)},
            "error",
            "bag 'a' has more than one target in column 'aod'",
        ),
        ({"aod": lambda f: f.aod.where(f.index != 10)}, "error", "bag 'b' has a missing or infinite target"),
        ({"aod": lambda f: 1.0}, "error", "every bag has the same target, 1"),
        ({"aod": lambda f: (f.site == "a") * 1.0}, "note", "the target has two values, 0 and 1: it looks like a class"),
        ({"aod": lambda f: "high"}, "error", "the target must be numbers; column 'aod' is String"),
        ({"site": lambda f: "a"}, "error", "column 'site' puts all rows into one bag"),
        ({"site": lambda f: f.index, "aod": lambda f: np.arange(25.0)}, "warning", "every row is a bag of its own"),
        ({"site": lambda f: f.site.where(f.index != 3)}, "error", "1 of 25 rows have no bag id (the first is row 3"),
        ({"site": lambda f: 20190423 + (f.site > "a")}, "warning", "bag ids such as 20190423 look like dates read as"),
        ({"red": lambda f: 3.0}, "note", "column 'red': the same value in all rows"),
        ({"red": lambda f: f.red.where(f.index != 3)}, "note", "column 'red': missing values"),
        ({"red": lambda f: f.red.where(f.index != 3)}, "error", "bag 'a' has"),
        ({"red": lambda f: np.nan}, "error", "column 'red': no values"),
        ({"red": lambda f: f.red.where(f.index != 3, np.inf)}, "error", "column 'red': infinite values"),
        ({"copy": lambda f: f.aod}, "warning", "column 'copy': equal to the target"),
        ({"row": lambda f: np.arange(25)}, "warning", "column 'row': counts the rows"),
        ({"day": lambda f: 20190401 + f.index}, "warning", "column 'day': looks like dates read as numbers"),
        ({"sza": lambda f: (f.site > "a") / 2}, "note", "column 'sza': constant within every bag"),
        ({"fold": lambda f: np.arange(25) % 5}, "warning", "column 'fold': named like a split"),
        ({"note": lambda f: "text"}, "note", "column 'note' (String) is not numeric and was left out"),
    ],
)
def test_what_is_odd_is_told(frame, change, level, words):
    odd = frame.assign(**change)
    assert any(words in text for text in findings(odd, level)), bw.check_table(odd, bag="site", target="aod").findings
    assert findings(frame, level) == []  # and nothing is told of the sound table


def test_several_things_are_told_at_once(frame):
    odd = frame.assign(aod=frame.aod.where(frame.index != 3, 9.0), red=np.inf)
    assert len(findings(odd, "error")) == 2


def test_the_last_word_has_load(frame):
    """Whatever is refused is an error, and an error is refused."""
    lost = frame.assign(red=frame.red.where(frame.site != "a"))
    assert "no finite instance" in findings(lost, "error", missing="drop-instances")[0]
    assert findings(lost, "error", missing="keep") == []


def test_archives_are_looked_at_too(frame, tmp_path):
    bags, y = bw.load(frame, bag="site", target="aod")
    bw.save_npz(tmp_path / "a.npz", bags, y)
    found = bw.check_table(tmp_path / "a.npz")
    assert (found.bags, found.rows, found.ok, found.targets[0]["maximum"]) == (3, 25, True, 2.5)


def test_text_that_is_mostly_numbers_is_reported_once(frame):
    odd = frame.assign(depth=["?", "x", "y", *map(str, range(22))], note="text")
    with warnings.catch_warnings(action="error"):
        texts = findings(odd, "warning")
    assert len(texts) == 1 and "column 'depth' is text and was left out: '?' in row 0" in texts[0]


def test_columns_with_another_role_are_no_features(frame):
    other = frame.assign(area=1.5, sza=frame.site.map({"a": 1.5, "b": 2.5, "c": 1.0}))
    found = bw.check_table(other, bag="site", target="aod", weights="area", bag_features=["sza"])
    assert [feature["name"] for feature in found.features] == ["red", "nir"] and found.bag_features == ["sza"]
    assert found.ok and found.left_out == {}


def test_what_is_ignored_on_purpose_is_no_finding(frame):
    found = bw.check_table(frame.assign(note="x"), bag="site", target="aod", ignore=["note", "nir"])
    assert found.findings == [] and found.left_out == {"nir": "ignored", "note": "ignored"}
    found = bw.check_table(frame, bag="site", target="aod", features=["red"])
    assert found.findings == [] and found.left_out == {"nir": "not asked for"}


def test_repeated_rows_are_a_note_where_folds_are_given(frame):
    copies = pd.concat([frame, frame.assign(site=frame.site + "2")], ignore_index=True)
    copies["k"] = copies.site.str[0].map({"a": 0, "b": 1, "c": 2})
    assert "Keep bags that share rows together" in findings(copies, "warning", ignore="k")[0]
    assert findings(copies, "warning", fold="k") == []
    assert "100 % of the instances" in findings(copies, "note", fold="k")[0]
