"""Data frames given where arrays are expected: their names are kept, compared and checked at predict."""

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import bagwise as bw
from bagwise import Bags, from_arrays

BUILD = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table, "narwhals": None}
BUILD["narwhals"] = lambda data: nw.from_native(pl.DataFrame(data))


@pytest.fixture(params=list(BUILD))
def build(request):
    return BUILD[request.param]


def tables(seed=0):
    rng = np.random.default_rng(seed)
    return [dict(zip("abc", rng.normal(size=(3, n)).tolist(), strict=True)) for n in (2, 4, 1, 3, 5, 2)]


def as_array(table):
    return np.array(list(table.values())).T


def test_a_list_of_frames_equals_the_list_of_arrays_with_their_names(build):
    bags = from_arrays([build(table) for table in tables()], ids=list("uvwxyz"))
    assert bags == from_arrays([as_array(table) for table in tables()], ids=list("uvwxyz"), feature_names="abc")


def test_flat_frames_and_covariates_keep_their_names(build):
    flat, beside = build(tables()[1]), build({"sza": [1, 2], "hot": [True, False]})
    expected = {"covariates": [[1, 1], [2, 0]], "covariate_names": ["sza", "hot"]}
    bags = Bags(flat, [0, 1, 4], covariates=beside)
    assert bags == Bags(as_array(tables()[1]), [0, 1, 4], feature_names="abc", **expected)
    assert Bags(flat, [0, 1, 4]).with_covariates(beside) == bags
    assert bags.without_covariates().replace(build({"p": [1.0, 2, 3, 4]})).feature_names == ("p",)


def test_precision_and_missing_values_of_a_frame():
    frame = pd.DataFrame({"x": np.array([1, 2], np.float32), "z": np.array([3, 4], np.float32)})
    assert Bags(frame, [0, 2]).dtype == np.float32
    holed = pd.DataFrame({"x": pd.array([1, None], dtype="Int64"), "z": [0.5, 1.5]})
    np.testing.assert_array_equal(Bags(holed, [0, 2], missing="keep").instances, [[1, 0.5], [np.nan, 1.5]])
    with pytest.raises(ValueError, match="bag 0 has missing feature values"):
        from_arrays([holed])


def test_bags_of_other_columns_are_refused(build):
    """The names were dropped, and the columns of every bag taken by position."""
    first, second = build({"u": [1.0], "v": [2.0]}), build({"v": [2.0], "u": [1.0]})
    with pytest.raises(
        ValueError, match="bag 'b' has other columns than .* .the order is: v, u; expected: u, v.; select"
    ):
        from_arrays([first, second], ids=["a", "b"])
    with pytest.raises(ValueError, match=r"bag 'b' has other columns than bag 'a' \(missing: u, v; new: w\)"):
        from_arrays([first, build({"w": [2.0]})], ids=["a", "b"])
    assert from_arrays([first, np.ones((1, 2))]).feature_names == ("u", "v")


def test_names_of_frames_are_checked_at_predict(build):
    """Columns c, b, a were predicted as if they were a, b, c."""
    model = bw.method("aggregated").fit([build(table) for table in tables()], np.arange(6.0))
    turned = [build(dict(reversed(table.items()))) for table in tables()]
    with pytest.raises(ValueError, match="the order is: c, b, a; expected: a, b, c.*select those columns of your"):
        model.predict(turned)
    with pytest.raises(ValueError, match=r"missing: c; new: d"):
        model.predict([build({"a": [1.0], "b": [1.0], "d": [1.0]})])
    right, arrays = ([make(table) for table in tables()] for make in (build, as_array))
    np.testing.assert_array_equal(model.predict(right), model.predict(arrays))


def test_names_given_beside_a_frame_must_be_its_own(build):
    frame = build({"u": [1.0], "v": [2.0]})
    assert from_arrays([frame], feature_names=["u", "v"]).feature_names == ("u", "v")
    with pytest.raises(ValueError, match="feature_names are v, u, but the columns .* are u, v; leave"):
        from_arrays([frame], feature_names=["v", "u"])
    with pytest.raises(ValueError, match="covariate_names are v, u, but the columns of the data frame are u, v"):
        Bags([[1.0]], [0, 1]).with_covariates(frame, ["v", "u"])


def test_columns_that_are_counted_have_no_names():
    counted = pd.DataFrame(np.ones((2, 2)))
    assert Bags(counted, [0, 2], covariates=pd.DataFrame([[1.0]])).feature_names is None
    with pytest.raises(ValueError, match="bag 1 has other columns than bag 0 .the order is: 1, 0; expected: 0, 1"):
        from_arrays([counted, counted[[1, 0]]])


def test_frames_that_are_no_numbers(build):
    frame = build({"u": [1.0], "site": ["s1"]})
    with pytest.raises(TypeError, match="bag 'a' must be numbers, but column 'site' is String; encode it, or leave it"):
        from_arrays([frame], ids=["a"])
    with pytest.raises(TypeError, match="instances must be numbers, but column 'site' is String"):
        Bags(frame, [0, 1])
    with pytest.raises(TypeError, match="covariates must be numbers, but column 'site' is String"):
        Bags([[1.0]], [0, 1], covariates=frame)
    with pytest.raises(ValueError, match="two columns have the same name, 'u'"):
        from_arrays([pd.DataFrame([[1, 2]], columns=["u", "u"])])
