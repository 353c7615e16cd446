"""Contract checks for bag estimators, ours or yours: what `fit(bags, y)` and `predict(bags)` promise.

scikit-learn's own checks need a 2-D X. These are for estimators whose samples are bags.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from bagwise.bags import Bags, from_arrays

CHECKS: dict[str, Callable] = {}


def check_bag_estimator(estimator, *, skip: tuple[str, ...] = ()) -> None:
    """Run every contract check on an unfitted bag regressor; the first broken one raises AssertionError.

    Parameters
    ----------
    estimator : unfitted, with ``fit(bags, y)`` and ``predict(bags)``
    skip : names of checks to leave out (see `bag_estimator_checks`)

    Examples
    --------
    >>> import bagwise as bw
    >>> bw.testing.check_bag_estimator(bw.method("aggregated"))
    """
    for name, check in bag_estimator_checks():
        if name not in skip:
            check(clone(estimator))


def bag_estimator_checks() -> list[tuple[str, Callable]]:
    """(name, check) for every check: for ``pytest.mark.parametrize``."""
    return list(CHECKS.items())


def sample(n_bags: int = 24, *, n_features: int = 3, random_state: int = 0, **options) -> tuple[Bags, np.ndarray]:
    """A small learnable problem with ragged bags."""
    rng = np.random.default_rng(random_state)
    centres = rng.normal(size=(n_bags, n_features))
    arrays = [c + 0.3 * rng.normal(size=(rng.integers(1, 9), n_features)) for c in centres]
    return from_arrays(arrays, **options), 2.0 * centres[:, 0] - centres[:, 1] + 0.1 * rng.normal(size=n_bags)


def _check(function):
    CHECKS[function.__name__.removeprefix("check_")] = function
    return function


@_check
def check_parameters(estimator):
    """clone copies every parameter; fit changes none of them."""
    before = {name: repr(value) for name, value in estimator.get_params().items()}
    assert {name: repr(value) for name, value in clone(estimator).get_params().items()} == before, "clone differs"
    estimator.fit(*sample())
    assert {name: repr(value) for name, value in estimator.get_params().items()} == before, "fit changed a parameter"


@_check
def check_one_finite_number_per_bag(estimator):
    bags, y = sample()
    assert estimator.fit(bags, y) is estimator, "fit must return self"
    got = estimator.predict(bags)
    assert isinstance(got, np.ndarray) and got.shape == (len(bags),), "predict must give one number per bag"
    _finite(got)


@_check
def check_same_seed_same_answer(estimator):
    bags, y = sample()
    first, again = clone(estimator).fit(bags, y).predict(bags), clone(estimator).fit(bags, y).predict(bags)
    np.testing.assert_array_equal(first, again)
    estimator.fit(*sample(20, random_state=1)).fit(bags, y)  # what a first fit left behind must not matter
    np.testing.assert_array_equal(estimator.predict(bags), first)


@_check
def check_n_jobs_changes_nothing(estimator):
    names = [name for name in estimator.get_params() if name == "n_jobs" or name.endswith("__n_jobs")]
    bags, y = sample()
    one = clone(estimator).set_params(**dict.fromkeys(names, 1)).fit(bags, y).predict(bags)
    two = clone(estimator).set_params(**dict.fromkeys(names, 2)).fit(bags, y).predict(bags)
    np.testing.assert_array_equal(one, two)


@_check
def check_input_is_left_alone(estimator):
    bags, y = sample()
    before, targets = pickle.dumps(bags), y.copy()
    y.flags.writeable = False
    estimator.fit(bags, y).predict(bags)
    assert pickle.dumps(bags) == before, "the bags were written to"
    np.testing.assert_array_equal(y, targets)


@_check
def check_order_of_bags_permutes_the_output(estimator):
    bags, y = sample()
    order = np.random.default_rng(0).permutation(len(bags))
    estimator.fit(bags, y)
    _close(estimator.predict(bags[order]), estimator.predict(bags)[order], y)


@_check
def check_order_of_instances_never_matters(estimator):
    bags, y = sample()
    estimator.fit(bags, y)
    turned = from_arrays([bag[::-1] for bag in bags])
    _close(estimator.predict(turned), estimator.predict(bags), y)


@_check
def check_company_never_matters(estimator):
    """A bag's prediction is the same alone or among others, a far-off one included."""
    bags, y = sample()
    estimator.fit(bags, y)
    together = estimator.predict(bags)
    alone = np.concatenate([estimator.predict(bags[[i]]) for i in range(len(bags))])
    _close(alone, together, y)
    crowd = from_arrays([*bags, np.full((50, bags.n_features), 1e3)])
    _close(estimator.predict(crowd)[:-1], together, y)


@_check
def check_wrong_features_are_refused(estimator):
    bags, y = sample()
    estimator.fit(bags, y)
    for n_features in (2, 4):
        _refused(lambda n=n_features: estimator.predict(sample(n_features=n)[0]), "features")
    named, y = sample(feature_names=["a", "b", "c"])
    estimator.fit(named, y)
    _refused(lambda: estimator.predict(sample(feature_names=["a", "c", "b"])[0]), "another order")
    _refused(lambda: estimator.predict(sample(feature_names=["a", "b", "z"])[0]), "features differ")


@_check
def check_wrong_targets_are_refused(estimator):
    bags, y = sample()
    _refused(lambda: estimator.fit(bags, y[1:]), "y has 23 values for 24 bags")
    _refused(lambda: estimator.fit(bags, np.where(np.arange(24) == 3, np.nan, y)), "missing or infinite target")
    _refused(lambda: estimator.fit(bags[[0]], y[:1]), "one bag is not enough")


@_check
def check_unfitted_predict_is_refused(estimator):
    try:
        estimator.predict(sample()[0])
    except NotFittedError:
        return
    raise AssertionError("predict before fit must raise NotFittedError")


@_check
def check_pickles(estimator):
    bags, y = sample()
    expected = estimator.fit(bags, y).predict(bags)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(estimator)).predict(bags), expected)


@_check
def check_tiny_data(estimator):
    """Two bags of one instance each."""
    bags = from_arrays([np.array([[0.0, 1.0]]), np.array([[1.0, 0.0]])])
    _finite(estimator.fit(bags, [0.0, 1.0]).predict(bags))


@_check
def check_scales_of_the_target(estimator):
    bags, y = sample()
    plain = clone(estimator).fit(bags, y).predict(bags)
    _finite(plain)
    for scale in (1e-12, 1e12):
        got = clone(estimator).fit(bags, scale * y).predict(bags)
        _finite(got)
        assert np.ptp(got) < 1e3 * scale * np.ptp(y), f"predictions explode for targets of scale {scale}"


@_check
def check_scales_of_the_features(estimator):
    bags, y = sample()
    for scale in (1e-9, 1e9):
        _finite(
            clone(estimator).fit(bags.replace(scale * bags.instances), y).predict(bags.replace(scale * bags.instances))
        )


@_check
def check_constant_features_and_targets(estimator):
    bags, y = sample()
    stuck = bags.replace(np.column_stack([bags.instances[:, :2], np.full(bags.n_instances, 7.0)]))
    _finite(clone(estimator).fit(stuck, y).predict(stuck))
    nothing = bags.replace(np.ones_like(bags.instances))
    _finite(clone(estimator).fit(nothing, y).predict(nothing))
    same = clone(estimator).fit(bags, np.full(len(bags), 5.0)).predict(bags)
    np.testing.assert_allclose(same, 5.0, atol=1e-3)


@_check
def check_one_large_bag_among_small(estimator):
    rng = np.random.default_rng(0)
    bags = from_arrays([rng.normal(size=(n, 2)) for n in [3000] + [1] * 15])
    _finite(estimator.fit(bags, rng.normal(size=16)).predict(bags))


@_check
def check_number_types(estimator):
    bags, y = sample()
    single = bags.replace(bags.instances.astype(np.float32))
    _finite(clone(estimator).fit(single, y.astype(np.float32)).predict(single))
    whole = Bags(np.round(10 * bags.instances).astype(int), bags.offsets)
    _finite(clone(estimator).fit(whole, np.round(10 * y).astype(int)).predict(whole))
    listed = clone(estimator).fit([np.asfortranarray(bag) for bag in bags], list(y))
    np.testing.assert_allclose(listed.predict(list(bags)), clone(estimator).fit(bags, y).predict(bags), rtol=1e-6)


def _finite(values) -> None:
    assert np.isfinite(values).all(), "predictions are not finite"


def _close(got, expected, y) -> None:
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6 * np.std(y))


def _refused(call, words: str) -> None:
    try:
        call()
    except ValueError as error:
        assert words in str(error), f"expected an error with {words!r}, got {error}"
        return
    raise AssertionError(f"expected a ValueError with {words!r}")
