"""Tables and numbers as text, for terminals, files and pages."""

import io

import pytest

from bagwise.io import table_output as output


@pytest.mark.parametrize(
    "function, values, texts",
    [
        (output.shown, (0.073119, 1234.5, None, 2.5e-9, -1.0), ("0.0731", "1,234", "–", "2.50e-9", "−1.00")),
        (output.shown_p, (0.0412, 1e-9, 1.0, None), ("0.041", "< 0.001", "1", "–")),
        (output.percent, (0.914, None), ("91\xa0%", "–")),
        (output.duration, (0.0321, 12.3, 400, 7300, None), ("32 ms", "12 s", "6.7 min", "2.0 h", "–")),
        (output.without_controls, ("a\x1b[31mb\u202ec\n", "plain"), ("a\\x1b[31mb\\u202ec\n", "plain")),
    ],
)
def test_values_as_text(function, values, texts):
    assert tuple(map(function, values)) == texts


def test_numbers_of_a_column_have_the_same_decimals():
    assert output.aligned([0.0731, 0.08, 1.2, None]) == ["0.0731", "0.0800", "1.2000", "–"]
    assert output.shown(0.5, sign=True) == "+0.500"


def test_a_column_has_the_name_of_the_user_unless_it_is_taken():
    assert output.own_name("plot", "bag", ["prediction"]) == "plot"
    assert output.own_name("prediction", "target", ["plot", "prediction"]) == "target"


def test_a_terminal_leaves_out_the_last_columns_that_do_not_fit():
    columns = {"method": ["aggregated", "prime"], "rmse": [0.5, 12.25], "rank": [1.0, 2.0]}
    assert output.as_text(columns).splitlines()[1] == "aggregated  0.5    1"
    assert output.as_text(columns, width=20).splitlines()[0] == "method      rmse"


def test_rows_for_json_have_no_nan_and_cells_for_spreadsheets_no_formula():
    assert output.to_rows({"method": ["a"], "rmse": [float("nan")]}) == [{"method": "a", "rmse": None}]
    output.write_csv(file := io.StringIO(), {"=bag": ["=1+1", "B"], "y": [-0.5, None]}, spreadsheet_safe=True)
    assert file.getvalue().splitlines() == ["'=bag,y", "'=1+1,-0.5", "B,"]
