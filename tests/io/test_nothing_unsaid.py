"""What `load` leaves out or drops is told, and what is left keeps its place in the table."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

import bagwise as bw


def field(n_bags=12, rows=4):
    rng = np.random.default_rng(0)
    n = n_bags * rows
    frame = pd.DataFrame({"plot": np.repeat([f"p{i:02}" for i in range(n_bags)], rows), "red": rng.normal(size=n)})
    frame["nir"] = frame["red"] * 0.5 + rng.normal(size=n)
    frame["yield"] = frame.groupby("plot")["red"].transform("mean")
    return frame.sample(frac=1.0, random_state=1).reset_index(drop=True)


@pytest.mark.parametrize("as_frame", [lambda frame: frame, pl.from_pandas])
def test_one_warning_names_columns_and_rows(as_frame):
    frame = field().assign(crop="wheat", price="1,5", date=pd.Timestamp("2020-01-01"))
    frame.loc[[0, 5, 9], "red"] = np.nan
    with pytest.warns(UserWarning) as caught:
        bags, _ = bw.load(as_frame(frame), bag="plot", missing="drop-instances")
    assert len(caught) == 1
    text = str(caught[0].message)
    lost = frame.loc[[0, 5, 9], "plot"].nunique()
    assert f"3 of 48 rows, in {lost} of 12 bags, have missing or infinite values and were dropped" in text
    assert "column 'price' is text and was left out: its numbers have decimal commas; load with decimal=',' to" in text
    assert "column 'crop' (String) is not numeric and was left out; categories=['crop'] uses" in text
    assert "column 'date' is a date and was left out; dates=['date'] uses its season and year" in text
    assert bags.feature_names == ("red", "nir", "yield")


def test_nothing_is_said_where_nothing_is_left_out():
    with warnings.catch_warnings(action="error"):
        bw.load(field(), bag="plot", target="yield", missing="drop-instances")
        bw.load(field().assign(crop="x"), bag="plot", target="yield", ignore="crop")
        bw.load(field().assign(crop="x"), bag="plot", target="yield", keep="crop")
        bw.load(field().assign(crop="x"), bag="plot", target="yield", features=["red"])


@pytest.mark.parametrize("as_frame", [lambda frame: frame, pl.from_pandas])
def test_decimal_commas_are_read_with_gaps_and_without(as_frame):
    frame = field()
    texts, expected = [f"{value}".replace(".", ",") for value in frame["red"]], frame["red"].to_numpy().copy()
    for gaps in ([], [3, 5]):
        for row, text in zip(gaps, ("", "NA"), strict=False):
            texts[row], expected[row] = text, np.nan
        bags, _ = bw.load(as_frame(frame.assign(red=texts)), bag="plot", target="yield", decimal=",", missing="keep")
        np.testing.assert_array_equal(bags.instances[:, 0], expected[bags.kept["row"]])


@pytest.mark.parametrize("prices", [["1,250", "37"], ["1,250,000.5", "12"]])
def test_commas_may_separate_thousands(prices):
    with pytest.warns(UserWarning, match="'price' .* have commas; remove them if they separate thousands, load with"):
        bw.load(field().assign(price=prices * 24), bag="plot")


def test_a_csv_of_a_spreadsheet_with_decimal_commas(tmp_path):
    frame = field()
    frame.to_csv(tmp_path / "field.csv", sep=";", decimal=",", index=False)
    with pytest.raises(ValueError, match="separated by ';'.*or decimal=',' if its decimals are commas"):
        bw.load(tmp_path / "field.csv", bag="plot")
    bags, y = bw.load(tmp_path / "field.csv", bag="plot", target="yield", decimal=",")
    expected, known = bw.load(frame, bag="plot", target="yield")
    np.testing.assert_array_equal(bags.instances, expected.instances)
    np.testing.assert_array_equal(y, known)
    with pytest.raises(ValueError, match="decimal must be"):
        bw.load(frame, bag="plot", decimal=";")


@pytest.mark.parametrize("missing", ["refuse", "drop-instances"])
def test_every_instance_keeps_its_row_and_what_was_kept(missing):
    frame = field().assign(barcode=[f"c{i}" for i in range(48)])
    if missing == "drop-instances":
        frame.loc[[0, 7, 30], "red"] = np.nan
    with warnings.catch_warnings(action="ignore"):
        bags, y = bw.load(frame, bag="plot", target="yield", missing=missing, keep="barcode", ignore="yield")
    model = bw.method("aggregated").fit(bags, y)
    chosen = bags[[3, 0, 7]]
    table = bw.explain(model, chosen).table()
    naive = frame.groupby("plot", sort=False).cumcount()
    for k, row in enumerate(table["row"]):
        assert frame["red"][row] == chosen.instances[k, 0]
        assert table["barcode"][k] == frame["barcode"][row] and table["plot"][k] == frame["plot"][row]
        assert table["instance"][k] == naive[row]


def test_lists_keep_the_row_of_their_bag():
    frame = pl.DataFrame({"site": ["a", "b"], "red": [[1.0, 2.0], [3.0]], "name": ["A", "B"]})
    bags, _ = bw.load(frame, bag="site", keep=["name"])
    assert bags.kept["row"].tolist() == [0, 0, 1] and bags.kept["name"].tolist() == ["A", "A", "B"]


def test_names_that_tables_of_instances_have_are_not_kept():
    with pytest.raises(ValueError, match="a column 'weight' of their own; rename"):
        bw.load(field().assign(weight=1.0), bag="plot", keep="weight")
    with pytest.raises(ValueError, match="there is no column 'barcode'"):
        bw.load(field(), bag="plot", keep="barcode")


def test_check_counts_what_remains():
    frame = field()
    frame.loc[[0, 7, 30], "red"] = np.nan
    found = bw.check_table(frame, bag="plot", target="yield", missing="drop-instances")
    bags, _ = bw.load(frame.dropna(), bag="plot", target="yield")
    assert found.rows == 45 and found.sizes == (bags.sizes.min(), np.median(bags.sizes), bags.sizes.max())
    assert "3 of 48 rows, in 3 bags, have missing values and are dropped" in [one.text for one in found.findings]
