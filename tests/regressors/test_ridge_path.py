import numpy as np
import pytest
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge

from bagwise import testing
from bagwise.regressors import RidgePath, ridge_path

pytestmark = pytest.mark.kernels

rng = np.random.default_rng(0)
Z, Z_new = rng.normal(size=(30, 5)), rng.normal(size=(7, 5))
y = Z @ [1.0, -2.0, 0.0, 0.5, 0.0] + 3.0 + rng.normal(size=30)
w = rng.uniform(0.2, 3.0, size=30)
GROUPS = np.repeat(np.arange(10), 3)
LARGE_GROUPS = np.arange(30) % 3  # each has more bags than there are columns


@pytest.mark.parametrize("weights", [None, w], ids=["equal", "weighted"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("penalty", [1e-6, 0.1, 30.0])
def test_equals_scikit_learns_ridge(weights, intercept, penalty):
    ours = RidgePath((penalty,), scaling="none", fit_intercept=intercept).fit(Z, y, sample_weight=weights)
    scaled = None if weights is None else weights / weights.mean()
    theirs = Ridge(alpha=penalty, fit_intercept=intercept).fit(Z, y, sample_weight=scaled)
    np.testing.assert_allclose(ours.predict(Z_new), theirs.predict(Z_new), rtol=1e-8)


@pytest.mark.parametrize("penalty", [1e-4, 0.1])
def test_gram_equals_scikit_learns_kernel_ridge(penalty):
    ours = RidgePath((penalty,), scaling="none", fit_intercept=False, kernel="precomputed").fit(Z @ Z.T, y)
    theirs = KernelRidge(alpha=penalty, kernel="precomputed").fit(Z @ Z.T, y)
    np.testing.assert_allclose(ours.predict(Z_new @ Z.T), theirs.predict(Z_new @ Z.T), rtol=1e-8)


@pytest.mark.parametrize("weights", [None, w], ids=["equal", "weighted"])
@pytest.mark.parametrize("intercept", [True, False])
def test_gram_equals_features(intercept, weights):
    features = RidgePath(fit_intercept=intercept).fit(Z, y, sample_weight=weights, groups=GROUPS)
    gram = RidgePath(fit_intercept=intercept, kernel="precomputed").fit(
        Z @ Z.T, y, sample_weight=weights, groups=GROUPS
    )
    np.testing.assert_allclose(gram.predict(Z_new @ Z.T), features.predict(Z_new), rtol=1e-6)
    np.testing.assert_allclose(gram.errors_[:12], features.errors_[:12], rtol=1e-6)


@pytest.mark.parametrize("kernel", ["linear", "precomputed"])
@pytest.mark.parametrize("scaling", ["n", "none"])
def test_the_path_is_a_fit_with_every_penalty(kernel, scaling):
    columns, new = (Z, Z_new) if kernel == "linear" else (Z @ Z.T, Z_new @ Z.T)
    penalties = (1e-16, 1e-3, 1.0)
    path = RidgePath(penalties, scaling=scaling, kernel=kernel).fit(columns, y, sample_weight=w)
    for found, penalty in zip(path.predict_path(new).T, penalties, strict=True):
        one = RidgePath((penalty,), scaling=scaling, kernel=kernel).fit(columns, y, sample_weight=w)
        np.testing.assert_array_equal(found, one.predict(new))


@pytest.mark.parametrize("kernel", ["linear", "precomputed"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("groups", [None, GROUPS, LARGE_GROUPS], ids=["bags", "groups", "large groups"])
@pytest.mark.parametrize("penalty", [1e-3, 1.0])
def test_left_out_residuals_equal_refits(kernel, intercept, groups, penalty):
    columns = Z if kernel == "linear" else Z @ Z.T

    def refit(train, test):
        if kernel == "linear":
            model = RidgePath((penalty,), scaling="none", fit_intercept=intercept).fit(Z[train], y[train])
            return y[test] - model.predict(Z[test])
        model = RidgePath((penalty,), scaling="none", fit_intercept=intercept, kernel=kernel)
        model.fit(columns[np.ix_(train, train)], y[train])
        return y[test] - model.predict(columns[np.ix_(test, train)])

    head = RidgePath((penalty,), scaling="none", fit_intercept=intercept, kernel=kernel).fit(columns, y, groups=groups)
    np.testing.assert_allclose(head.residuals_, testing.left_out_residuals(refit, 30, groups), rtol=1e-8, atol=1e-10)


def test_a_large_group_that_is_fitted_exactly_is_no_candidate():
    apart = np.column_stack([LARGE_GROUPS == 0, Z[:, 0]])  # without its own group this column is unknown
    head = RidgePath((1e-12, 1.0), scaling="none", fit_intercept=False).fit(apart, y, groups=LARGE_GROUPS)
    assert np.isinf(head.errors_[0]) and np.isfinite(head.errors_[1])


@pytest.mark.parametrize("kernel", ["linear", "precomputed", "indefinite"])
@pytest.mark.parametrize("groups", [GROUPS, LARGE_GROUPS], ids=["groups", "large groups"])
def test_groups_are_left_out_at_every_penalty_as_at_that_penalty_alone(kernel, groups):
    """Whether a fit interpolates a group is asked from the lightest penalty on, until one does not."""
    own = np.column_stack([groups == 0, Z])  # without its own group the first column is unknown
    K = own @ own.T if kernel != "indefinite" else own @ np.diag([1.0, 1, -1, 1, 1, -1]) @ own.T
    columns, kernel = (own, "linear") if kernel == "linear" else (K, "precomputed")
    options = {"scaling": "none", "fit_intercept": False, "kernel": kernel}
    penalties = [1e-2, 10.0, 1e-13, 0.3, 1e-14]
    alone = [RidgePath((one,), **options).fit(columns, y, groups=groups).errors_[0] for one in penalties]
    found = RidgePath(penalties, **options).fit(columns, y, groups=groups).errors_
    np.testing.assert_allclose(found, alone, rtol=1e-10)
    assert kernel == "precomputed" or np.isinf(found).tolist() == [False, False, True, False, True]


@pytest.mark.parametrize("weighted", [False, True])
def test_few_large_groups_are_left_out_by_a_fit_to_the_others(monkeypatch, weighted):
    """By a decomposition without each, and by the formula that needs none."""
    rows = np.random.default_rng(1).normal(size=(240, 4))
    K, target = np.exp(-((rows[:, None] - rows) ** 2).sum(axis=2) / 8), rows[:, 0] + np.sin(3 * rows[:, 1])
    groups, weight = np.arange(240) % 3, np.tile([1.0, 0.0, 2.5, 0.4], 60) if weighted else None
    head = RidgePath(np.logspace(-5, 1, 13), kernel="precomputed")
    found = clone(head).fit(K, target, sample_weight=weight, groups=groups)
    assert clone(head).judge(K, target, sample_weight=weight, groups=groups) == (found.penalty_, found.error_)
    monkeypatch.setattr(ridge_path, "FEW_GROUPS", 0)
    formula = clone(head).fit(K, target, sample_weight=weight, groups=groups)
    assert found.penalty_ == formula.penalty_
    assert clone(head).judge(K, target, sample_weight=weight, groups=groups) == (formula.penalty_, formula.error_)
    # The lightest penalty, 240 x 1e-5, is some 1e-5 of the largest eigenvalue: five of sixteen digits go.
    np.testing.assert_allclose(found.errors_, formula.errors_, rtol=1e-9)
    np.testing.assert_allclose(found.residuals_, formula.residuals_, atol=1e-9)


def test_a_group_that_has_all_the_weight_cannot_be_left_out():
    weight = (np.arange(240) % 3 == 0).astype(float)
    head = RidgePath(np.logspace(-5, 1, 13), kernel="precomputed")
    head.fit(np.eye(240), np.arange(240.0), sample_weight=weight, groups=np.arange(240) % 3)
    assert np.isinf(head.errors_).all() and head.penalty_ == 10.0


def test_weighted_left_out_residuals_equal_weighted_refits():
    total = w / w.mean()

    def refit(train, test):
        model = Ridge(alpha=0.7).fit(Z[train], y[train], sample_weight=total[train])
        return y[test] - model.predict(Z[test])

    head = RidgePath((0.7,), scaling="none").fit(Z, y, sample_weight=w)
    np.testing.assert_allclose(head.residuals_, testing.left_out_residuals(refit, 30), rtol=1e-8)


def test_penalty_is_the_best_of_the_grid_and_scaling_is_n():
    grid = (1e-3, 1e-2, 1e-1, 1.0)
    by_n = RidgePath(grid).fit(Z, y)
    plain = RidgePath(tuple(30 * p for p in grid), scaling="none").fit(Z, y)
    np.testing.assert_allclose(by_n.predict(Z_new), plain.predict(Z_new), rtol=1e-12)
    assert by_n.penalty_ == grid[int(np.argmin(by_n.errors_))]


@pytest.mark.parametrize("kernel", ["linear", "precomputed"])
def test_stable_from_1e_1_to_1e_16(kernel):
    """Nearly collinear columns: at every penalty of the paper's grid the fit stays bounded and the errors finite."""
    t = rng.uniform(0, 1, size=200)
    target = np.sin(4 * t) + 0.1 * rng.normal(size=200)
    gram = np.exp(-0.5 * np.subtract.outer(t, t) ** 2 / 10.0**2)
    V = np.vander(t / 10.0, 12, increasing=True)
    columns = V if kernel == "linear" else gram
    for penalty in 10.0 ** -np.arange(1.0, 17.0):
        head = RidgePath((penalty,), kernel=kernel).fit(columns, target)
        assert np.isfinite(head.error_) and head.error_ < 2 * target.var()
        assert np.abs(head.predict(columns)).max() < 3


def test_an_interpolating_fit_is_not_mistaken_for_a_good_one():
    """More columns than bags: the naive shortcut reports nearly zero; ours is the error of refits, or not chosen."""
    wide, target = rng.normal(size=(20, 60)), rng.normal(size=20)
    head = RidgePath().fit(wide, target)
    assert head.error_ > 0.5 * target.var()

    def refit(train, test):
        model = RidgePath((head.penalty_ * 20,), scaling="none").fit(wide[train], target[train])
        return target[test] - model.predict(wide[test])

    # A residual and one minus its leverage are about λ n / s² where the fit all but interpolates: so many digits go.
    lost = np.linalg.norm(wide - wide.mean(axis=0), 2) ** 2 / (20 * head.penalty_)
    assert lost < 1e10  # below, the comparison says something
    tolerance = 100 * np.finfo(float).eps * lost
    np.testing.assert_allclose(head.residuals_, testing.left_out_residuals(refit, 20), rtol=tolerance, atol=tolerance)


def test_constant_rows_and_constant_targets():
    head = RidgePath().fit(np.ones((6, 2)), np.arange(6.0))
    np.testing.assert_allclose(head.predict(np.ones((2, 2))), 2.5)
    np.testing.assert_allclose(RidgePath().fit(Z, np.full(30, 7.0)).predict(Z_new), 7.0)


@pytest.mark.parametrize(
    ("options", "data", "message"),
    [
        ({"scaling": "m"}, (Z, y), "scaling must be 'n' or 'none'"),
        ({"kernel": "rbf"}, (Z, y), "kernel must be 'linear' or 'precomputed'"),
        ({"kernel": "precomputed"}, (Z, y), "a Gram matrix is square"),
        ({"penalties": (0.0,)}, (Z, y), "penalties must be above zero"),
        ({}, (Z[:3], y), "inconsistent numbers of samples"),
        ({}, (np.where(Z > 2, np.nan, Z), y), "Input X contains NaN"),
    ],
)
def test_refusals(options, data, message):
    with pytest.raises(ValueError, match=message):
        RidgePath(**options).fit(*data)


def test_one_standard_error_takes_the_heaviest_penalty_that_is_not_clearly_worse():
    grid = tuple(10.0**e for e in np.arange(-6.0, 2.0, 0.5))
    best, careful = RidgePath(grid).fit(Z, y), RidgePath(grid, rule="one-se").fit(Z, y)
    assert careful.penalty_ > best.penalty_
    squares = {p: RidgePath((p,)).fit(Z, y).residuals_ ** 2 for p in grid}
    gaps = {p: s - squares[best.penalty_] for p, s in squares.items()}
    allowed = [p for p, gap in gaps.items() if gap.mean() <= gap.std() / np.sqrt(30)]
    assert careful.penalty_ == max(allowed)
    with pytest.raises(ValueError, match="rule must be 'best' or 'one-se'"):
        RidgePath(rule="two-se").fit(Z, y)


@pytest.mark.parametrize("kernel", ["linear", "precomputed"])
def test_a_weight_is_a_number_of_copies(kernel):
    counts = np.array([2, 0, 1, 3, 1] * 6)
    copies = np.repeat(np.arange(30), counts)  # copies of a bag are left out together
    rows, repeated = (Z, Z[copies]) if kernel == "linear" else (Z @ Z.T, Z[copies] @ Z[copies].T)
    weighted = RidgePath(kernel=kernel).fit(rows, y, sample_weight=5.0 * counts)
    copied = RidgePath(kernel=kernel).fit(repeated, y[copies], groups=copies)
    assert weighted.penalty_ == copied.penalty_
    np.testing.assert_allclose(weighted.errors_, copied.errors_, rtol=1e-8)
    np.testing.assert_allclose(weighted.residuals_[copies], copied.residuals_, rtol=1e-8, atol=1e-10)
    if kernel == "linear":
        np.testing.assert_allclose(weighted.coef_, copied.coef_, rtol=1e-8)


@pytest.mark.parametrize("scaling", ["n", "none"])
@pytest.mark.parametrize("rule", ["best", "one-se"])
def test_a_bag_of_weight_zero_is_left_out(scaling, rule):
    kept = np.arange(30) % 3 > 0
    head = RidgePath(scaling=scaling, rule=rule)
    weighted = head.fit(Z, np.where(kept, y, 1e9), sample_weight=np.where(kept, w, 0.0))
    left = RidgePath(scaling=scaling, rule=rule).fit(Z[kept], y[kept], sample_weight=w[kept])
    assert weighted.penalty_ == left.penalty_
    np.testing.assert_allclose(weighted.coef_, left.coef_, rtol=1e-9)
    np.testing.assert_allclose(weighted.residuals_[kept], left.residuals_, rtol=1e-9)
    np.testing.assert_allclose(weighted.residuals_[~kept], 1e9 - left.predict(Z)[~kept], rtol=1e-9)
