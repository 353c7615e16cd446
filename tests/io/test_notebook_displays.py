"""What a notebook shows: results as HTML, with names escaped, and texts line by line."""

import pandas as pd
import pytest

import bagwise as bw
from bagwise.io.table_output import MOST_ROWS
from bagwise.testing.contract_checks import sample

BAGS, Y = sample(40)
BAGS = BAGS._with(feature_names=("<b>", "b", "c"))


@pytest.fixture(scope="module")
def model():
    return bw.Intervals("aggregated", folds=4).fit(BAGS, Y)


def test_tables_are_shown_with_their_text(model):
    shown = bw.importance(model, BAGS, Y, repeats=1)._repr_html_()
    assert "&lt;b&gt;" in shown and "<b>" not in shown and "<td>" in shown
    novel = bw.novelty(model, BAGS, by_time=True)
    for result in (novel, novel.drift, bw.predict_subset(bw.method("aggregated").fit(BAGS, Y), BAGS, "b > -99")):
        shown = result._repr_html_()
        assert shown.count("<tr>") == MOST_ROWS + 1 and "more rows" in shown
    curve = bw.learning_curve(BAGS, Y, "aggregated", repeats=1, sizes=[8, 12, 16, 24])
    assert curve._repr_html_().count("<tr>") == 5 and curve.sentence().partition(":")[0] in curve._repr_html_()


def test_a_checked_table_is_shown_with_its_findings():
    frame = pd.DataFrame({"site": [1, 1, 2], "<i>": [1.0, None, 2.0], "aod": [0.1, 0.1, 0.3]})
    checked = bw.check_table(frame, bag="site", target="aod")
    assert "<strong>error: " in checked._repr_html_() and "<i>" not in checked._repr_html_()
    assert repr(checked).endswith("cannot be used.") and "3 rows make 2 bags" in repr(checked)


def test_a_summary_of_several_lines_is_shown_line_by_line(model):
    text = bw.importance(model, BAGS, Y, repeats=1).summary()
    assert "\n" in text and repr(text) == text and text._repr_html_().startswith("<pre>RMSE")
