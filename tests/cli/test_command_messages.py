"""What each command refuses: one message with the way out, before any work, and nothing is written."""

import pandas as pd
import pytest
from tests.helpers.typed import done, refused, sample_frame

COLUMNS = ("--bag", "site", "--target", "aod")
FIT = ("fit", "old.csv", *COLUMNS, "--method", "aggregated")
SCAN = ("fit", "old.parquet", *COLUMNS, "--engine", "stream")
EVALUATE = ("evaluate", "old.csv", *COLUMNS)
PREDICT = ("predict", "model.bagwise", "new.csv")
IMPORTANCE = ("importance", "model.bagwise", "old.csv")

FAILS = [
    (("fit", "old.csv", "--bag", "site"), "there is no target to learn: name its column with --target"),
    (("fit", "old.csv", "--bag", "sit", "--target", "aod"), "there is no column 'sit' (did you mean 'site'?)"),
    (("fit", "old.csv", "--target", "aod"), "--bag is needed: the column"),
    ((*FIT, "--out", "no/m.bagwise"), "there is no folder"),
    ((*FIT, "--out", "old.csv"), "old.csv is an input as well"),
    ((*FIT, "--report", "r.csv"), "should end in .html"),
    ((*FIT, "--time-budget", 3), "--time-budget is only for the method auto: aggregated has no time limit"),
    ((*FIT, "--work", "w"), "--work is only for the method auto: aggregated is a single fit"),
    ((*FIT, "--metric", "mae"), "--metric is only for the method auto: aggregated minimises its own loss"),
    ((*FIT, "--no-intervals", "--scores", "quantile"), "--scores is for intervals"),
    ((*FIT, "--aggregate", "sum"), "--aggregate has no effect on aggregated. Use it with --method aggregate-gp"),
    ((*FIT, "--folds", "forward"), "--folds forward needs a time per bag, and the bags have none"),
    ((*FIT, "--folds", "given"), "name its column: --fold-column"),
    ((*FIT, "--fold-column", "fold", "--folds", 3), "--folds 3 asks for random folds, and --fold-column fixes them"),
    ((*FIT, "--time", "dya"), "there is no column 'dya' (did you mean 'day'?)"),
    ((*FIT, "--where", "year > 1"), "--where is for tables that are read chunk by chunk. Use --engine stream"),
    ((*SCAN, "--report", "r.html"), "--report is for tables in memory. Leave it out, or use --engine memory"),
    ((*SCAN, "--keep", "a"), "--keep is for tables in memory"),
    ((*SCAN, "--time", "day"), "--time is for tables in memory"),
    ((*SCAN, "--target", "year"), "Several targets are fitted in memory only"),
    ((*SCAN, "--method", "aggregated", "--bag-feature", "a"), "has more than one value in column 'a'"),
    ((*SCAN, "--missing", "keep"), "missing must be 'refuse', 'drop-instances' or 'impute'"),
    ((*SCAN, "--scheduler", "tcp://x:1"), "--scheduler names a Dask cluster, and --engine stream has none"),
    ((*SCAN, "--where", "year >> 1"), "year >> 1"),
    ((*EVALUATE, "--method", "aggregated", "--fold-column", "folds"), "'folds' (did you mean 'fold'?)"),
    ((*EVALUATE, "--by", "site"), "--by site is the column of bag ids"),
    ((*EVALUATE, "--by", "yea"), "did you mean 'year'?"),
    ((*EVALUATE, "--by", "a"), "has more than one label in column 'a'"),
    ((*EVALUATE, "--out", "run", "--resume"), "There is no run in run to resume"),
    (("predict", "gone.bagwise", "new.csv"), "bagwise predict: there is no file gone.bagwise; give one that"),
    (("predict", ".", "new.csv"), "bagwise predict: . is a folder; give the model file in it"),
    (("predict", "notes.txt", "new.csv"), "it is not a bagwise model"),
    (("predict", "model.bagwise", "other.csv"), "there is no column 'b'"),
    ((*PREDICT, "--out", "p.xlsx"), "'p.xlsx' should end in .csv or .parquet"),
    ((*PREDICT, "--out", "new.csv"), "new.csv is an input as well. Give the output another name"),
    ((*PREDICT, "--out", "model.bagwise"), "model.bagwise is an input as well"),
    ((*PREDICT, "--out", "p.csv", "--instances", "p.csv"), "Two outputs have the name p.csv"),
    ((*PREDICT, "--quantile", 0.001), "a quantile of 0.001 needs more calibration bags"),
    ((*PREDICT, "--by-time"), "--by-time needs --novelty and a column of times"),
    (
        ("predict", "model.bagwise", "words.csv"),
        "with --fill-value 'n/a?'; the model was fitted with numbers in this column",
    ),
    (
        ("importance", "model.bagwise", "words.csv"),
        "column 'b' is String: 'n/a?' in row 7 (counted from 0) is not a number",
    ),
    (
        ("predict", "model.bagwise", "texts.csv"),
        "column 'b' is String; the model was fitted with numbers in this column",
    ),
    ((*IMPORTANCE, "--group", "a,b"), "Write a name and its columns, as in angles=sza,vza"),
    ((*IMPORTANCE, "--group", "both=a,z"), "the group 'both' names the unknown column 'z'; the columns are a, b, c"),
    ((*IMPORTANCE, "--part", "variance"), "parts must be some of 'whole', 'mean', 'spread'"),
    (("datasets", "aerosl"), "there is no data set 'aerosl'; did you mean 'aerosol'"),
    (("datasets", "mean", "--out", "p.xlsx"), "'p.xlsx' should end in .csv or .parquet or .npz"),
]
MISTYPED = [
    (("fit", "nowhere.csv", "--method", "agregated"), "did you mean 'aggregated'"),
    (("fit", "nowhere.csv", "--method", "instance-kme:papr"), "has no preset 'papr'"),
    (("fit", "nowhere.csv", "--method", "random-forest"), "did you mean 'statistics:forest'"),
    (("fit", "nowhere.csv", "--level", 90), "90 is not a share between 0 and 1. 90 per cent is --level 0.9."),
    (("fit", "nowhere.csv", "--missing", "skip"), "drop-instances"),
    (("fit", "nowhere.csv", "--n-jobs", 0), "0 is no number of processes. Give 1 or more, or -1 for all cores"),
    (("fit", "nowhere.csv", "--time-budget", -5), "--time-budget"),
    (("fit", "old.csv", "--folds", 1), "neither a number of folds from 2"),
    (("fit", "old.csv", "--folds", "later"), "neither a number of folds from 2"),
    (("fit", "old.csv", "site", "aod"), "There is no file 'site'. Columns are named by options: --bag site"),
    (("fit", "aggregated", "old.csv"), "'aggregated' is a method, and a table is expected. Write --method aggregated"),
    (("predict", "new.csv", "model.bagwise"), "new.csv is a table, and a model is expected"),
    ((*PREDICT, "--quantile", 10), "10 per cent is --quantile 0.1"),
    ((*EVALUATE, "--methods", "aggregated,agregated"), "did you mean 'aggregated'"),
    ((*EVALUATE, "--selection", "best"), "'best' is not one of 'nested', 'paper'"),
    (("learning-curve", "old.csv", "--times", 1), "1 is no growth. Give a factor above 1, such as --times 2"),
    (("datasets", "mean", "--bags", 0), "--bags"),
    (("demo", "--bags", 0), "--bags"),
    (("fit",), "Missing argument"),
    (("predict", "--nonsense"), "--nonsense"),
    (("learn",), "learn"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("messages")
    frame = sample_frame(40).assign(year=2019)
    frame = frame.assign(fold=frame.site % 4, day=frame.site)
    frame.to_csv(place / "old.csv", index=False)
    frame.to_parquet(place / "old.parquet")
    frame.to_csv(place / "new.csv", index=False)
    frame.drop(columns="b").to_csv(place / "other.csv", index=False)
    frame.assign(b=frame.b.astype(object).where(frame.index != 7, "n/a?")).to_csv(place / "words.csv", index=False)
    frame.assign(b="red").to_csv(place / "texts.csv", index=False)
    (place / "notes.txt").write_text("no model")
    names = ("--feature", "a", "--feature", "b", "--feature", "c")
    done("fit", place / "old.csv", *COLUMNS, *names, "--method", "aggregated", "--out", place / "model.bagwise")
    return place


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [(*row, 1) for row in FAILS] + [(*row, 2) for row in MISTYPED],
    ids=lambda value: " ".join(map(str, value))[:60] if isinstance(value, tuple) else "",
)
def test_a_mistake_is_one_message(folder, monkeypatch, arguments, words, code):
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    refused(*arguments, words=words, code=code)
    assert sorted(folder.iterdir()) == before


def test_decimal_commas_and_single_words_among_numbers(tmp_path):
    """A numeric column with a few words is an error that names them and the option that makes them missing."""
    frame = sample_frame(12)
    frame.assign(aod=frame.aod.map(lambda y: f"{y:.3f}".replace(".", ","))).to_csv(tmp_path / "c.csv", index=False)
    refused("fit", tmp_path / "c.csv", *COLUMNS, words="decimal commas; load with --decimal , to read them")
    frame = frame.assign(a=frame.a.astype(object).where(frame.index != 7, "n/a?"))
    frame.to_csv(tmp_path / "w.csv", index=False)
    for verb in ("check", "fit", "evaluate"):
        said = refused(verb, tmp_path / "w.csv", *COLUMNS, words="column 'a' is numeric but for a few cells: 'n/a?'")
        assert "in row 7" in said and "--fill-value 'n/a?'" in said
    out = ("--method", "aggregated", "--out", tmp_path / "m.bagwise")
    done("fit", tmp_path / "w.csv", *COLUMNS, "--fill-value", "n/a?", "--missing", "impute", *out)


@pytest.mark.parametrize("verb", ["check", "fit", "evaluate", "learning-curve"])
def test_a_constant_target_is_refused(verb, tmp_path):
    sample_frame(12).assign(aod=0.5).to_csv(tmp_path / "t.csv", index=False)
    refused(verb, tmp_path / "t.csv", *COLUMNS, words="every bag has the same target, 0.5")


def test_names_of_columns_are_listed_as_they_are_in_the_table(folder, tmp_path):
    frame = pd.read_csv(folder / "old.csv").rename(columns={"b": "Red, mean"}).assign(crop="rye")
    frame.to_csv(tmp_path / "t.csv", index=False)
    options = ("--categories", "crop", "--method", "aggregated", "--no-intervals", "--out", tmp_path / "m.bagwise")
    done("fit", tmp_path / "t.csv", *COLUMNS, *options)
    frame.drop(columns="a").to_csv(tmp_path / "t.csv", index=False)
    listed = "the columns are 'Red, mean', 'c', 'site', 'aod', 'year', 'fold', 'day', 'crop'"
    refused("predict", tmp_path / "m.bagwise", tmp_path / "t.csv", words=f"there is no column 'a'; {listed}")
