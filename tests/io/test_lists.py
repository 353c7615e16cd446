"""Columns of lists in data frames: the same bags as from the long table."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from bagwise import from_arrays, load


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    return [rng.normal(size=(size, 2)).astype(np.float32) for size in (3, 1, 4)]


def arrow(arrays, *, fixed=False):
    """One row per bag: a list column per feature, and both features in one column of nested lists."""
    row = pa.list_(pa.float32(), 2) if fixed else pa.list_(pa.float32())
    return pa.table({
        "site": ["b", "a", "c"],
        "aod": [1.0, 2.0, 3.0],
        "x1": pa.array([array[:, 0].tolist() for array in arrays], pa.list_(pa.float32())),
        "x2": pa.array([array[:, 1].tolist() for array in arrays], pa.large_list(pa.float32())),
        "both": pa.array([array.tolist() for array in arrays], pa.list_(row)),
    })  # fmt: skip


FORMS = {
    "pyarrow": lambda table: table,
    "chunked": lambda table: pa.concat_tables([table.slice(0, 1), table.slice(1)]),
    "polars": pl.from_arrow,
    "pandas": lambda table: table.to_pandas(),
    "pandas-arrow": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
}


@pytest.fixture(params=list(FORMS))
def form(request):
    return FORMS[request.param]


@pytest.mark.parametrize("fixed", [False, True])
def test_lists_equal_the_list_of_arrays(arrays, form, fixed):
    frame = form(arrow(arrays, fixed=fixed))
    options = {"ids": ["b", "a", "c"]}
    bags, y = load(frame, bag="site", target="aod", features=["x1", "x2"])
    assert bags == from_arrays(arrays, feature_names=["x1", "x2"], **options)
    assert bags.dtype == np.float32 and y.tolist() == [1, 2, 3]
    bags, _ = load(frame, bag="site", features="both")
    assert bags == from_arrays(arrays, feature_names=["both_1", "both_2"], **options)
    bags, _ = load(frame, bag="site", target="aod")
    assert bags.feature_names == ("x1", "x2", "both_1", "both_2")


def test_plain_columns_are_repeated_over_the_bag(arrays, form):
    bags, _ = load(form(arrow(arrays)), bag="site", features=["aod", "x1"])
    assert bags.instances[:, 0].tolist() == [1, 1, 1, 2, 3, 3, 3, 3] and bags.dtype == np.float64


def test_fixed_size_lists_are_the_features_of_an_instance(arrays):
    flat = np.concatenate(arrays)
    table = pa.table({"site": list("bbbacccc"), "v": pa.array(flat.tolist(), pa.list_(pa.float32(), 2))})
    for frame in (table, pl.from_arrow(table), table.to_pandas(types_mapper=pd.ArrowDtype)):
        bags, _ = load(frame, bag="site")
        assert bags == from_arrays(arrays, ids=["b", "a", "c"], feature_names=["v_1", "v_2"])


def test_arrays_of_two_axes_in_pandas(arrays):
    frame = pd.DataFrame({"site": ["b", "a", "c"], "x": arrays})
    assert load(frame, bag="site")[0] == from_arrays(arrays, ids=["b", "a", "c"], feature_names=["x_1", "x_2"])


def one_list(cells, inner=None):
    inner = inner or pa.float64()
    return pa.table({"site": ["a", "b", "c"], "x": pa.array(cells, pa.list_(inner))})


@pytest.mark.filterwarnings("ignore:.*(left out|and were dropped)")
def test_missing_values_inside_lists(form):
    frame = form(one_list([[1.0, None], [2.0], [3.0]]))
    with pytest.raises(ValueError, match="bag 'a' has missing feature values"):
        load(frame, bag="site")
    assert load(frame, bag="site", missing="drop-instances")[0].instances.ravel().tolist() == [1, 2, 3]
    assert load(frame, bag="site", missing="keep")[0].sizes.tolist() == [2, 1, 1]
    with pytest.raises(ValueError, match="bag 'b' has no finite instance"):
        load(form(one_list([[1.0], [float("nan")], [3.0]])), bag="site", missing="drop-instances")


PLAIN = one_list([[1.0], [2.0, 3.0], [4.0]])
RAGGED = one_list([[[1.0, 2.0]], [[3.0, 4.0], [5.0]], [[6.0, 7.0]]], pa.list_(pa.float64()))


@pytest.mark.parametrize(
    ("table", "bag", "error", "match"),
    [
        (one_list([[1.0], None, None]), "site", ValueError, r"bag 'b' \(and 1 other\) has no list, or an empty one"),
        (one_list([[1.0], [], []]), "site", ValueError, "bag 'b' .* or an empty one, in column 'x'"),
        (PLAIN.append_column("z", pa.array([[1.0], [2.0], [4.0]])), "site", ValueError, "2 values in column 'x', 1 in"),
        (RAGGED, "site", ValueError, "bag 'b' has .*in column 'x'"),
        (PLAIN.set_column(0, "site", pa.array(["a", "b", "a"])), "site", ValueError, "bag 'a' has several rows.*fixed"),
        (RAGGED.append_column("x_1", pa.array([1.0, 2, 3])), "site", ValueError, "bag 'b' has .*in column 'x'"),
        (PLAIN.append_column("z", pa.array([1.0, 2.0, 3.0])), "x", TypeError, "bag ids must be text.* 'x' holds lists"),
    ],
)
def test_lists_that_make_no_bags_are_refused(form, table, bag, error, match):
    with pytest.raises(error, match=match):
        load(form(table), bag=bag)


def test_names_that_would_collide(arrays, form):
    table = arrow(arrays).rename_columns(["site", "both_1", "x1", "x2", "both"])
    with pytest.raises(ValueError, match="two features would be named 'both_1'; rename"):
        load(form(table), bag="site")


def test_lists_of_other_things_than_numbers():
    with pytest.raises(ValueError, match="no numeric feature column; the others are 'x'"):
        load(pd.DataFrame({"site": ["a", "b", "c"], "x": [[1.0], ["u"], [2.0]]}), bag="site")
