"""Contract checks for bag estimators, awkward bags, and naive reference implementations.

`check_bag_estimator` runs one function per check; each raises an AssertionError that names the broken promise. The
checks cover parameters, seeds, errors, weights and copies, the invariances of a prediction, and extreme inputs. `zoo`
returns awkward bags. The references at the end are slow, short and written directly from the formula.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import has_fit_parameter

from bagwise.bags import Bags, from_arrays
from bagwise.bags.checks import compared


def sample(n_bags: int = 24, *, n_features: int = 3, random_state: int = 0, **options) -> tuple[Bags, np.ndarray]:
    """Return a small learnable problem with bags of different sizes."""
    rng = np.random.default_rng(random_state)
    centres = rng.normal(size=(n_bags, n_features))
    arrays = [c + 0.3 * rng.normal(size=(rng.integers(1, 9), n_features)) for c in centres]
    return from_arrays(arrays, **options), 2.0 * centres[:, 0] - centres[:, 1] + 0.1 * rng.normal(size=n_bags)


def expect_finite(values, when: str = "", *, y=None) -> None:
    """Assert that predictions are finite and, given the targets, range over less than 1,000 times as much."""
    assert np.isfinite(values).all(), f"predictions are not finite{when and f' for {when}'}"
    assert y is None or np.ptp(values) < 1e3 * np.ptp(y), f"predictions explode for {when}"


def expect_same(got, expected, broken: str) -> None:
    """Assert equality to the last bit."""
    np.testing.assert_array_equal(got, expected, err_msg=broken)


def expect_close(got, expected, y, broken: str, tolerance: float = 1e-6) -> None:
    """Assert equality up to rounding, for sums in a different order."""
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * np.std(y), err_msg=broken)


def expect_refusal(call, words: str) -> None:
    """Assert that the call raises a ValueError whose message contains ``words``."""
    try:
        call()
    except ValueError as error:
        assert words in str(error), f"expected an error with {words!r}, got {error}"
        return
    raise AssertionError(f"expected a ValueError with {words!r}")


def check_parameters(estimator):
    """Check that clone, get_params and set_params agree, and that fit changes no parameter."""

    def shown(estimator) -> dict[str, str]:
        # Cloned, because the steps of a pipeline are fitted in place and a fitted estimator has a different repr.
        return {name: repr(clone(value, safe=False)) for name, value in estimator.get_params().items()}

    before = shown(estimator)
    assert shown(clone(estimator)) == before, "clone differs"
    same = clone(estimator).set_params(**estimator.get_params(deep=False))
    assert shown(same) == before, "set_params(**get_params()) changes a parameter"
    expect_refusal(lambda: clone(estimator).set_params(no_such_parameter=1), "no_such_parameter")
    assert shown(estimator.fit(*sample())) == before, "fit changed a parameter"


def check_one_finite_number_per_bag(estimator):
    """Check that ``fit`` returns the estimator, and ``predict`` an array with one finite number per bag."""
    bags, y = sample()
    assert estimator.fit(bags, y) is estimator, "fit must return self"
    got = estimator.predict(bags)
    assert isinstance(got, np.ndarray) and got.shape == (len(bags),), "predict must give one number per bag"
    expect_finite(got)


def check_same_seed_same_answer(estimator):
    """Check that two fits, and a refit after other data, agree to the last bit."""
    bags, y = sample()
    first, again = clone(estimator).fit(bags, y).predict(bags), clone(estimator).fit(bags, y).predict(bags)
    expect_same(again, first, "two fits with the same seed differ")
    estimator.fit(*sample(20, random_state=1)).fit(bags, y)
    expect_same(estimator.predict(bags), first, "a second fit remembers the first")


def check_n_jobs_changes_nothing(estimator):
    """Check that one and two jobs give the same numbers to the last bit."""
    names = [name for name in estimator.get_params() if name == "n_jobs" or name.endswith("__n_jobs")]
    bags, y = sample()
    single, double = (clone(estimator).set_params(**dict.fromkeys(names, n)).fit(bags, y).predict(bags) for n in (1, 2))
    expect_same(double, single, "n_jobs changes the predictions")


def check_input_is_left_alone(estimator):
    """Check that ``fit`` and ``predict`` do not write to the bags, targets or arrays of the caller."""
    bags, y = sample()
    arrays = [np.array(bag) for bag in bags]
    before, targets = pickle.dumps((bags, arrays)), y.copy()
    estimator.fit(bags, y).predict(bags)
    estimator.fit(arrays, y).predict(arrays)
    assert pickle.dumps((bags, arrays)) == before, "the bags were written to"
    expect_same(y, targets, "the targets were written to")


def check_wrong_features_are_refused(estimator):
    """Check that ``predict`` refuses features whose number, names or order differ from those in ``fit``."""
    bags, y = sample()
    estimator.fit(bags, y)
    for n_features in (2, 4):
        expect_refusal(lambda n=n_features: estimator.predict(sample(n_features=n)[0]), "features")
    named, y = sample(feature_names=["a", "b", "c"])
    estimator.fit(named, y)
    expect_refusal(lambda: estimator.predict(sample(feature_names=["a", "c", "b"])[0]), "the order is")
    expect_refusal(lambda: estimator.predict(sample(feature_names=["a", "b", "z"])[0]), "features differ")


def check_wrong_targets_are_refused(estimator):
    """Check that ``fit`` refuses too few targets, a missing target, and a single bag."""
    bags, y = sample()
    expect_refusal(lambda: estimator.fit(bags, y[1:]), "y has 23 values for 24 bags")
    unknown = np.where(np.arange(24) == 3, np.nan, y)
    expect_refusal(lambda: estimator.fit(bags, unknown), "missing or infinite target")
    expect_refusal(lambda: estimator.fit(bags[[0]], y[:1]), "one bag is not enough")


def check_bag_weights(estimator):
    """Check that only ratios of weights count, that weight zero removes a target, and that bad weights are refused.

    Estimators whose ``fit`` has no ``sample_weight`` pass.
    """
    if not has_fit_parameter(estimator, "sample_weight"):
        return
    bags, y = sample()
    plain = clone(estimator).fit(bags, y).predict(bags)
    same = clone(estimator).fit(bags, y, sample_weight=np.full(24, 7.0)).predict(bags)
    expect_same(same, plain, "equal weights change the answer")
    weights = np.where(np.arange(24) % 4 == 0, 0.0, 1.0 + np.arange(24) % 3)
    weighted = clone(estimator).fit(bags, y, sample_weight=weights).predict(bags)
    assert not np.array_equal(weighted, plain), "the weights have no effect"
    spoilt = clone(estimator).fit(bags, np.where(weights > 0, y, 1e6), sample_weight=8.0 * weights).predict(bags)
    text = "predictions depend on the target of a bag of weight zero, or on the unit of weights"
    expect_close(spoilt, weighted, y, text, 1e-9)
    expect_refusal(lambda: estimator.fit(bags, y, sample_weight=np.ones(23)), "one entry per bag (24)")
    for bad in (-1.0, np.nan):
        wrong = np.where(np.arange(24) == 3, bad, 1.0)
        expect_refusal(lambda w=wrong: estimator.fit(bags, y, sample_weight=w), "bag 3 has a sample_weight")


def check_unfitted_predict_is_refused(estimator):
    """Check that ``predict`` before ``fit`` raises NotFittedError."""
    try:
        estimator.predict(sample()[0])
    except NotFittedError:
        return
    raise AssertionError("predict before fit must raise NotFittedError")


def check_pickles(estimator):
    """Check that a pickled copy predicts the same to the last bit."""
    bags, y = sample()
    expected = estimator.fit(bags, y).predict(bags)
    copy = pickle.loads(pickle.dumps(estimator))  # noqa: S301 (its own bytes)
    expect_same(copy.predict(bags), expected, "a pickled copy predicts otherwise")


def check_saves(estimator):
    """Check that a saved model predicts the same, or that saving refuses parts that a model file cannot hold."""
    from bagwise.model_files import load_model, save_model

    bags, y = sample()
    expected = estimator.fit(bags, y).predict(bags)
    with tempfile.TemporaryDirectory() as folder:
        try:
            save_model(estimator, f"{folder}/model.bagwise")
        except ValueError as error:
            assert not type(estimator).__module__.startswith("bagwise."), f"{error}"
            return
        got = load_model(f"{folder}/model.bagwise").predict(bags)
    expect_same(got, expected, "a saved model predicts otherwise")


def check_order_of_bags_permutes_the_output(estimator):
    """Check that a permutation of the bags permutes the predictions."""
    bags, y = sample()
    order = np.random.default_rng(0).permutation(len(bags))
    estimator.fit(bags, y)
    got = estimator.predict(bags[order])
    expect_close(got, estimator.predict(bags)[order], y, "a prediction depends on the place of its bag")


def check_order_of_instances_never_matters(estimator):
    """Check that reversing the instances of a bag does not change its prediction."""
    bags, y = sample()
    estimator.fit(bags, y)
    turned = from_arrays([bag[::-1] for bag in bags])
    expect_close(estimator.predict(turned), estimator.predict(bags), y, "the order of instances matters")


def check_company_never_matters(estimator):
    """Check that a prediction does not depend on the other bags in the call, an outlying one included."""
    bags, y = sample()
    estimator.fit(bags, y)
    together = estimator.predict(bags)
    alone = np.concatenate([estimator.predict(bags[[i]]) for i in range(len(bags))])
    expect_close(alone, together, y, "a prediction depends on the other bags in the call")
    crowd = compared(from_arrays([*bags, np.full((50, bags.n_features), 1e3)]))  # suppresses the range warning
    expect_close(estimator.predict(crowd)[:-1], together, y, "a prediction depends on a far-off bag in the call")


def check_repeated_instances_change_nothing(estimator):
    """Check that repeating every instance of a bag does not change its prediction.

    This holds if the prediction is a function of the bag's distribution. It need not hold if the number of instances
    matters: as a feature, through a prior that dominates small bags, or in a sum.
    """
    bags, y = sample()
    estimator.fit(bags, y)
    twice = from_arrays([np.repeat(bag, 2, axis=0) for bag in bags])
    expect_close(estimator.predict(twice), estimator.predict(bags), y, "repeating each instance changes the prediction")


SCALES = (1e-12, 1e12)


def check_tiny_data(estimator):
    """Check that a fit on two bags of one instance each gives finite predictions."""
    bags = from_arrays([np.array([[0.0, 1.0]]), np.array([[1.0, 0.0]])])
    expect_finite(estimator.fit(bags, [0.0, 1.0]).predict(bags), "two bags of one instance")


def check_scales_of_the_target(estimator):
    """Check that targets of scale 1e-12 and 1e12 give bounded predictions."""
    bags, y = sample()
    for scale in SCALES:
        got = clone(estimator).fit(bags, scale * y).predict(bags)
        expect_finite(got, f"targets of scale {scale:g}", y=scale * y)


def check_scales_of_the_features(estimator):
    """Check that features of scale 1e-12 and 1e12, and both together, give bounded predictions."""
    bags, y = sample()
    for scale in (*SCALES, [1e-12, 1.0, 1e12]):
        scaled = bags.replace(bags.instances * scale)
        shown = " and ".join(f"{factor:g}" for factor in np.atleast_1d(scale))
        expect_finite(clone(estimator).fit(scaled, y).predict(scaled), f"features of scale {shown}", y=y)


def check_constant_features_and_targets(estimator):
    """Check one constant feature, all features constant, and a constant target."""
    bags, y = sample()
    stuck = bags.replace(np.column_stack([bags.instances[:, :2], np.full(bags.n_instances, 7.0)]))
    expect_finite(clone(estimator).fit(stuck, y).predict(stuck), "a constant feature")
    nothing = bags.replace(np.ones_like(bags.instances))
    expect_finite(clone(estimator).fit(nothing, y).predict(nothing), "features that are all constant")
    same = clone(estimator).fit(bags, np.full(len(bags), 5.0)).predict(bags)
    np.testing.assert_allclose(same, 5.0, atol=1e-3, err_msg="targets that are all 5 are not predicted as 5")


def check_one_huge_bag_among_single_instances(estimator):
    """Check one bag of 100,000 instances among bags of one instance; the slowest check."""
    check_one_large_bag_among_small(estimator, 100_000)


def check_one_large_bag_among_small(estimator, size: int = 3000):
    """Check one bag of 3,000 instances among bags of one instance."""
    rng = np.random.default_rng(0)
    bags, y = from_arrays([rng.normal(size=(n, 2)) for n in [size] + [1] * 15]), rng.normal(size=16)
    expect_finite(estimator.fit(bags, y).predict(bags), f"a bag of {size} instances among single ones", y=y)


def check_number_types(estimator):
    """Check float32, integers and lists as input."""
    bags, y = sample()
    single = bags.replace(bags.instances.astype(np.float32))
    expect_finite(clone(estimator).fit(single, y.astype(np.float32)).predict(single), "float32")
    whole = Bags(np.round(10 * bags.instances).astype(int), bags.offsets)
    expect_finite(clone(estimator).fit(whole, np.round(10 * y).astype(int)).predict(whole), "whole numbers")
    listed = clone(estimator).fit([bag.tolist() for bag in bags], y.tolist()).predict([bag.tolist() for bag in bags])
    expect_close(listed, clone(estimator).fit(bags, y).predict(bags), y, "lists give other predictions than arrays")


def check_layouts_of_arrays(estimator):
    """Check that the memory layout of arrays does not change a prediction, to the last bit."""
    bags, y = sample()
    expected = clone(estimator).fit(bags, y).predict(bags)

    def read_only(array):
        array = array.copy()
        array.flags.writeable = False
        return array

    layouts = {
        "Fortran": np.asfortranarray,
        "strided": lambda array: np.repeat(np.repeat(array, 2, axis=0), 3, axis=1)[::2, ::3],
        "backward": lambda array: np.ascontiguousarray(array[::-1, ::-1])[::-1, ::-1],
        "read-only": read_only,
    }
    for name, laid_out in layouts.items():
        arrays, targets = [laid_out(np.array(bag)) for bag in bags], laid_out(y[:, None])[:, 0]
        got = clone(estimator).fit(arrays, targets).predict(arrays)
        expect_same(got, expected, f"{name} arrays change the answer")


CHECKS: dict[str, Callable] = {
    name.removeprefix("check_"): check for name, check in list(globals().items()) if name.startswith("check_")
}
# Laws that a correct estimator may break by design; they run only if named in ``laws``.
OPTIONAL = ("repeated_instances_change_nothing",)


def check_bag_estimator(estimator, *, laws: tuple[str, ...] = (), skip: tuple[str, ...] = ()) -> None:
    """Run the contract checks on an unfitted bag regressor; the first check that fails raises AssertionError.

    Parameters
    ----------
    estimator : unfitted estimator with ``fit(bags, y)`` and ``predict(bags)``
    laws : sequence of str, default ()
        Optional checks to run as well. There is one, ``"repeated_instances_change_nothing"``, which holds if a
        prediction is a function of the distribution of the bag.
    skip : sequence of str, default ()
        Checks to leave out (see `bag_estimator_checks`). The slowest is ``"one_huge_bag_among_single_instances"``, with
        a bag of 100,000 instances.

    Examples
    --------
    >>> import bagwise as bw
    >>> bw.testing.check_bag_estimator(bw.method("aggregated"), laws=["repeated_instances_change_nothing"])
    """
    for name, check in bag_estimator_checks(laws=laws, skip=skip):
        try:
            check(clone(estimator))
        except Exception as error:
            error.add_note(f"in the contract check {name!r}: {(check.__doc__ or '').splitlines()[0]}")
            raise


def bag_estimator_checks(*, laws: tuple[str, ...] = (), skip: tuple[str, ...] = ()) -> list[tuple[str, Callable]]:
    """Return the pairs (name, check), for ``pytest.mark.parametrize``.

    Parameters
    ----------
    laws, skip
        As in `check_bag_estimator`.

    Examples
    --------
    >>> [name for name, check in bag_estimator_checks() if "order" in name]
    ['order_of_bags_permutes_the_output', 'order_of_instances_never_matters']
    """
    _refuse_unknown(laws, OPTIONAL, "laws")
    _refuse_unknown(skip, CHECKS, "skip")
    left_out = {*skip, *OPTIONAL} - {*laws}
    return [(name, check) for name, check in CHECKS.items() if name not in left_out]


def parametrize_with_checks(estimators, *, laws: tuple[str, ...] = (), skip: tuple[str, ...] = ()):
    """Decorate a pytest test so that it runs once for each pair of ``estimator`` and ``check``.

    Parameters
    ----------
    estimators : list of unfitted estimators, or dict of str to estimator
        The keys of a dict are the names in the output of pytest.
    laws, skip
        As in `check_bag_estimator`.

    Examples
    --------
    In your test file:

    >>> import bagwise as bw
    >>> from bagwise.testing import parametrize_with_checks
    >>> @parametrize_with_checks({"ours": bw.method("aggregated")})
    ... def test_contract(estimator, check):
    ...     check(estimator)
    """
    import pytest

    if not isinstance(estimators, dict):
        texts = ["".join(repr(estimator).split()) for estimator in estimators]
        names = [text if len(text) <= 60 else type(estimators[k]).__name__ for k, text in enumerate(texts)]
    named = estimators.items() if isinstance(estimators, dict) else zip(names, estimators, strict=True)
    checks = bag_estimator_checks(laws=laws, skip=skip)
    cases = [
        pytest.param(clone(estimator), check, id=f"{label}-{name}")  # cloned, because a check fits its estimator
        for label, estimator in named
        for name, check in checks
    ]
    return pytest.mark.parametrize(("estimator", "check"), cases)


def _refuse_unknown(names, allowed, parameter: str) -> None:
    unknown = [names] if isinstance(names, str) else [name for name in names if name not in allowed]
    if unknown:
        raise ValueError(f"{parameter} must be a list of names from {', '.join(allowed)}; got {unknown[0]!r}")


def zoo(n_features: int = 1, *, scale: float = 1.0, random_state: int = 0) -> dict[str, Bags]:
    """Return awkward bags by name: sizes from 1 to 5,000, repeated and constant values, outliers."""
    rng = np.random.default_rng(random_state)

    def draw(*sizes):
        return [scale * rng.normal(size=(size, n_features)) for size in sizes]

    repeated = [np.repeat(bag[:1], 7, axis=0) for bag in draw(*[3] * 6)]
    few_values = [np.round(bag / scale) * scale for bag in draw(9, 1, 30, 4, 12, 2)]
    outlier = draw(5, 8, 3, 6)
    outlier[1][0] *= 1e4
    sets = {
        "equal": draw(*[6] * 8),
        "ragged": draw(1, 2, 3, 50, 7, 1, 12),
        "singles": draw(*[1] * 9),
        "one huge": draw(1, 5000, 2, 1, 3),
        "repeated values": repeated,
        "few distinct values": few_values,
        "constant": [np.full((size, n_features), 0.25 * scale) for size in (1, 4, 2)],
        "far outlier": outlier,
        "two bags": draw(1, 1),
    }
    return {name: from_arrays(arrays) for name, arrays in sets.items()}


# Naive references ---------------------------------------------------------------------------------------------------


def mean_gram(kernel, rows, columns=None) -> np.ndarray:
    """Compute K[i, j] = 1/(L_i L_j) Σ_l Σ_m k(x_il, x_jm) by double loops over bags and instances."""
    columns = rows if columns is None else columns
    gram = np.zeros((len(rows), len(columns)))
    for i, a in enumerate(rows):
        for j, b in enumerate(columns):
            gram[i, j] = np.mean([[kernel(x[None], z[None])[0, 0] for z in b] for x in a])
    return gram


def kernel_ridge(K, y, penalty, K_new) -> np.ndarray:
    """Compute y (K + penalty I)⁻¹ K_new, equation 7 of Uriot (2019)."""
    return K_new @ np.linalg.solve(K + penalty * np.eye(len(y)), y)


def left_out_residuals(fit_predict, n, groups=None) -> np.ndarray:
    """Return y_i minus its prediction by a refit without bag i or its group.

    ``fit_predict(train, test)`` must return the residuals of the bags ``test`` after a fit on the bags ``train``.
    """
    groups = np.arange(n) if groups is None else np.asarray(groups)
    residuals = np.empty(n)
    for group in np.unique(groups):
        test = np.flatnonzero(groups == group)
        residuals[test] = fit_predict(np.flatnonzero(groups != group), test)
    return residuals
