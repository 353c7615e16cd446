"""Checks at the edges: tiny and huge, constant, and arrays of every kind."""

from __future__ import annotations

import numpy as np
from sklearn.base import clone

from bagwise.bags import Bags, from_arrays
from bagwise.testing.trying import expect_bounded, expect_close, expect_finite, expect_same, sample

SCALES = (1e-12, 1e12)


def check_tiny_data(estimator):
    """Two bags of one instance each."""
    bags = from_arrays([np.array([[0.0, 1.0]]), np.array([[1.0, 0.0]])])
    expect_finite(estimator.fit(bags, [0.0, 1.0]).predict(bags), "two bags of one instance")


def check_scales_of_the_target(estimator):
    """Targets of 1e-12 and of 1e12."""
    bags, y = sample()
    for scale in SCALES:
        got = clone(estimator).fit(bags, scale * y).predict(bags)
        expect_bounded(got, scale * y, f"targets of scale {scale:g}")


def check_scales_of_the_features(estimator):
    """Features of 1e-12 and of 1e12, and both side by side."""
    bags, y = sample()
    for scale in (*SCALES, [1e-12, 1.0, 1e12]):
        scaled = bags.replace(bags.instances * scale)
        said = " and ".join(f"{one:g}" for one in np.atleast_1d(scale))
        expect_bounded(clone(estimator).fit(scaled, y).predict(scaled), y, f"features of scale {said}")


def check_constant_features_and_targets(estimator):
    """One feature without variation, none with it, and targets that are all the same."""
    bags, y = sample()
    stuck = bags.replace(np.column_stack([bags.instances[:, :2], np.full(bags.n_instances, 7.0)]))
    expect_finite(clone(estimator).fit(stuck, y).predict(stuck), "a constant feature")
    nothing = bags.replace(np.ones_like(bags.instances))
    expect_finite(clone(estimator).fit(nothing, y).predict(nothing), "features that are all constant")
    same = clone(estimator).fit(bags, np.full(len(bags), 5.0)).predict(bags)
    np.testing.assert_allclose(same, 5.0, atol=1e-3, err_msg="targets that are all 5 are not predicted as 5")


def check_one_large_bag_among_small(estimator):
    """3,000 instances in one bag, one in each of the others."""
    _one_among_singles(estimator, 3000)


def check_one_huge_bag_among_single_instances(estimator):
    """100,000 instances in one bag, one in each of the others; the most costly check by far."""
    _one_among_singles(estimator, 100_000)


def _one_among_singles(estimator, size: int) -> None:
    rng = np.random.default_rng(0)
    bags, y = from_arrays([rng.normal(size=(n, 2)) for n in [size] + [1] * 15]), rng.normal(size=16)
    expect_bounded(estimator.fit(bags, y).predict(bags), y, f"a bag of {size} instances among single ones")


def check_number_types(estimator):
    """Single precision, whole numbers, lists."""
    bags, y = sample()
    single = bags.replace(bags.instances.astype(np.float32))
    expect_finite(clone(estimator).fit(single, y.astype(np.float32)).predict(single), "float32")
    whole = Bags(np.round(10 * bags.instances).astype(int), bags.offsets)
    expect_finite(clone(estimator).fit(whole, np.round(10 * y).astype(int)).predict(whole), "whole numbers")
    listed = clone(estimator).fit([bag.tolist() for bag in bags], y.tolist()).predict([bag.tolist() for bag in bags])
    expect_close(listed, clone(estimator).fit(bags, y).predict(bags), y, "lists are not what arrays are")


def check_layouts_of_arrays(estimator):
    """Fortran order, strided, read backwards, read-only: the same numbers, so the same predictions, to the last bit."""
    bags, y = sample()
    expected = clone(estimator).fit(bags, y).predict(bags)
    for name, laid_out in LAYOUTS.items():
        arrays, targets = [laid_out(np.array(bag)) for bag in bags], laid_out(y[:, None])[:, 0]
        got = clone(estimator).fit(arrays, targets).predict(arrays)
        expect_same(got, expected, f"{name} arrays change the answer")


def _strided(array):
    return np.repeat(np.repeat(array, 2, axis=0), 3, axis=1)[::2, ::3]


def _backwards(array):
    return np.ascontiguousarray(array[::-1, ::-1])[::-1, ::-1]


def _read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


LAYOUTS = {"Fortran": np.asfortranarray, "strided": _strided, "backward": _backwards, "read-only": _read_only}
