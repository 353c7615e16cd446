import statistics
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.pipeline import Pipeline

import bagwise as bw
from bagwise.testing import zoo

EVIL = "<script>alert('bag')</script>"


class Balanced(HTMLParser):
    """Every tag that opens closes, in order; the tags and the text are kept."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.text = [], set(), ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize("name", list(zoo(2)))
def test_the_sizes_of_the_bags_are_told(name):
    bags = zoo(2)[name]
    page = Balanced(bags._repr_html_())
    sizes = [len(bag) for bag in bags]
    assert repr(bags) in page.text
    assert f"instances in a bag: {min(sizes):,} to {max(sizes):,}, median {statistics.median(sizes):,g}" in page.text


def test_features_with_their_ranges():
    bags = bw.from_arrays([np.array([[1.0, -2.5], [3.0, 8.0]])], feature_names=["red", "blue"])
    assert "<td>red</td><td>1</td><td>3</td>" in bags._repr_html_()
    assert "<td>blue</td><td>-2.5</td><td>8</td>" in bags._repr_html_()
    wide = bw.from_arrays([np.zeros((2, 30))])
    assert "feature 11<" in wide._repr_html_() and "and 18 more" in wide._repr_html_()


def test_missing_values_are_counted():
    rows = np.array([[1.0, np.nan], [np.nan, np.nan]])
    shown = bw.Bags(rows, [0, 2], missing="keep")._repr_html_()
    assert "<td>1</td><td>1 (1 missing)</td>" in shown and "<td></td><td> (2 missing)</td>" in shown


def test_whole_numbers_no_bags_and_covariates():
    bags = bw.Bags(np.array([[1], [5]]), [0, 1, 2], covariates=[[0.5], [1.5]], covariate_names=["sun"])
    assert "<td>sun (of the bag)</td><td>0.5</td><td>1.5</td>" in bags._repr_html_()
    none = bags[[]]
    assert repr(none) in Balanced(none._repr_html_()).text


def test_nothing_from_the_data_is_markup():
    bags = bw.from_arrays(
        [np.zeros((1, 1)), np.ones((2, 1))], ids=[EVIL, 'a"b'], groups=[EVIL, "<i>"], feature_names=["<img src=x>"]
    )
    page = Balanced(bags._repr_html_())
    assert not page.tags & {"script", "img", "i"}
    assert page.text.count(EVIL) == 2 and "<img src=x>" in page.text and 'a"b' in page.text


@pytest.mark.parametrize("name", bw.method_names())
def test_methods_show_in_a_notebook(name):
    """scikit-learn's own HTML, for every method as it comes."""
    model = bw.method(name)
    shown = model._repr_html_()
    inner = model.steps[-1][1] if isinstance(model, Pipeline) else model
    assert type(inner).__name__ in shown


def test_a_fitted_method_shows_in_a_notebook():
    bags, y = bw.datasets.make_gaussian(20, instances=3)
    model = bw.method("aggregated").fit(bags, y)
    assert "fitted" in model._repr_html_() and "EmbeddingRidge" in model._repr_html_()
