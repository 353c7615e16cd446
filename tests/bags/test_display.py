import statistics
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import Pipeline

import bagwise as bw
from bagwise.testing import zoo


@pytest.fixture(scope="module")
def data():
    return bw.datasets.make_gaussian(20, instances=3)


EVIL = "<script>alert('bag')</script>"


def texts(page):
    """Return the tags and the text of a well-formed page."""
    tree = ElementTree.fromstring(page)
    return {element.tag for element in tree.iter()}, "\n".join(tree.itertext())


@pytest.mark.parametrize("name", list(zoo(2)))
def test_the_sizes_of_the_bags_are_told(name):
    bags = zoo(2)[name]
    _, text = texts(bags._repr_html_())
    sizes = [len(bag) for bag in bags]
    assert repr(bags) in text
    assert f"instances in a bag: {min(sizes):,} to {max(sizes):,}, median {statistics.median(sizes):,g}" in text


def test_features_with_their_ranges():
    bags = bw.from_arrays([np.array([[1.0, -2.5], [3.0, 8.0]])], feature_names=["red", "blue"])
    assert "<td>red</td><td>1</td><td>3</td>" in bags._repr_html_()
    assert "<td>blue</td><td>-2.5</td><td>8</td>" in bags._repr_html_()
    wide = bw.from_arrays([np.zeros((2, 30))])
    assert "feature 11<" in wide._repr_html_() and "and 18 more" in wide._repr_html_()


def test_missing_values_whole_numbers_covariates_and_no_bags():
    shown = bw.Bags(np.array([[1.0, np.nan], [np.nan, np.nan]]), [0, 2], missing="keep")._repr_html_()
    assert "<td>1</td><td>1 (1 missing)</td>" in shown and "<td></td><td> (2 missing)</td>" in shown
    bags = bw.Bags(np.array([[1], [5]]), [0, 1, 2], covariates=[[0.5], [1.5]], covariate_names=["sun"])
    assert "<td>sun (of the bag)</td><td>0.5</td><td>1.5</td>" in bags._repr_html_()
    many = bw.Bags([[1.0]], [0, 1], covariates=np.ones((1, 30)))._repr_html_()
    assert "covariate 11 (of the bag)<" in many and "covariate 12" not in many
    none = bags[[]]
    assert repr(none) in texts(none._repr_html_())[1]


def test_nothing_from_the_data_is_markup():
    bags = bw.from_arrays(
        [np.zeros((1, 1)), np.ones((2, 1))], ids=[EVIL, 'a"b'], groups=[EVIL, "<i>"], feature_names=["<img src=x>"]
    )
    tags, text = texts(bags._repr_html_())
    assert not tags & {"script", "img", "i"}
    assert text.count(EVIL) == 2 and "<img src=x>" in text and 'a"b' in text


FITTED = ["aggregated", "instance-kme:ridge", "statistics:forest", "phase", "blr", "shrinkage", "aggregate-gp"]


@pytest.mark.parametrize("name", FITTED)
def test_a_fitted_method_prints_what_it_is_and_how_well_it_does(name, data):
    """A fitted instance-kme printed dozens of penalties."""
    bags, y = data
    model = bw.method(name)
    assert repr(clone(model)) == repr(model) and "fitted" not in repr(model)  # as scikit-learn writes it
    first, *others = repr(model.fit(bags, y)).splitlines()
    assert first == f"{type(model).__name__} of the method {name}, fitted on 20 bags with 1 feature"
    assert len(others) <= 2 and "fitted on" not in repr(clone(model))
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    if hasattr(last, "residuals_"):  # left-out residuals of the training bags
        assert others[0].startswith(f"Held-out RMSE {np.sqrt(np.mean(last.residuals_**2)):.4g} ")
    page = model._repr_html_()
    assert page.index(first) < page.index("sk-top-container") and type(last).__name__ in page
    assert model._repr_mimebundle_()["text/html"].startswith("<p><strong>")


def test_auto_and_intervals_print_their_held_out_error(data):
    bags, y = data
    auto = bw.auto.AutoRegressor(members=["aggregated", "statistics:linear"]).fit(bags, y)
    first, error, members = repr(auto).splitlines()
    assert first == "AutoRegressor, fitted on 20 bags with 1 feature"
    assert f"RMSE {auto.scores_['rmse']:.4g} ({auto.scores_['mean_rmse']:.4g} for the mean" in error
    assert members.startswith("Members: ") and "linear" in members or "aggregated" in members
    careful = bw.Intervals("aggregated", level=0.5).fit(bags, y)
    assert repr(careful).splitlines()[1:] == [
        f"Held-out RMSE {np.sqrt(np.mean(careful.residuals_**2)):.4g}",
        "Intervals of level 0.5 around the predictions of aggregated",
    ]


def test_an_explanation_shows_the_instances_that_matter_most(data):
    bags, y = data
    found = bw.explain(bw.method("aggregated").fit(bags, y), bags)
    page = found._repr_html_()
    assert repr(found) in page and page.count("<tr>") == 11 and "and 10 more" in page
    values = found.values[bags.offsets[1] : bags.offsets[2]]
    most = int(np.abs(values).argmax())
    assert f"<td>1</td><td>3</td><td>{found.predictions[1]:.4g}</td><td>{most}</td><td>{values[most]:.4g}</td>" in page


def test_a_scan_shows_its_columns():
    frame = pd.DataFrame({"site": ["b", "a"], "aod": [0.3, 0.1]} | {f"<b{j}>": [1.0, 2.0] for j in range(14)})
    table = bw.scan(frame, bag="site", target="aod")
    page = table._repr_html_()
    assert repr(table) in page and "<td>bag</td><td>site</td>" in page and "groups" not in page
    assert "&lt;b11&gt; and 2 more" in page and "<b" not in page
