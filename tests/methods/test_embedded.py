"""Methods that embed bags, and the lasso; every promise of a bag estimator is checked in test_contracts.py."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import Lasso

import bagwise as bw
from bagwise.methods.distributions import KERNELS, kernel_grid
from bagwise.regressors import LassoPath

NAMES = ["input-kme", "phase", "sliced-wasserstein", "statistics", "miles"]
SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


def score(name, kind):
    bags, y = bw.datasets.make_problem(kind, 200)
    errors = bw.method(name).fit(bags[:100], y[:100]).predict(bags[100:]) - y[100:]
    return 1 - np.mean(errors**2) / y[100:].var()


@pytest.mark.parametrize(
    ("name", "kind", "least"),
    [
        ("input-kme", "mean", 0.9),
        ("input-kme", "shape", 0.7),
        ("input-kme", "noisy", 0.55),
        ("sliced-wasserstein", "mean", 0.85),
        ("phase", "mean", 0.7),
        ("statistics", "mean", 0.6),
        ("miles", "mean", 0.4),
        ("quantile", "noisy", 0.4),
    ],
)
def test_it_learns_what_it_is_for(name, kind, least):
    assert score(name, kind) > least


@pytest.mark.parametrize("name", NAMES)
def test_noise_gives_no_skill(name):
    bags, _ = bw.datasets.make_problem("mean", 120)
    y = np.random.default_rng(0).normal(size=120)
    predictions = bw.method(name).fit(bags[:60], y[:60]).predict(bags[60:])
    assert np.mean((predictions - y[60:]) ** 2) > 0.7 * y[60:].var()


def test_kernels_by_name():
    assert len(KERNELS) == 10
    assert len(kernel_grid(*KERNELS)) == 58  # six lengths each; three of Student's are the exponent 2, kept once
    for kernel in kernel_grid(*KERNELS, lengths=(1.0, 4.0)):
        assert kernel.positive_definite
    np.testing.assert_allclose(KERNELS["exponential"](3.0)([[0.0]], [[3.0]]), np.exp(-1.0))
    np.testing.assert_allclose(KERNELS["rational-quadratic"](3.0)([[0.0]], [[3.0]]), 0.5)


# The sparse head ------------------------------------------------------------------------------------------------


def lasso_problem(n=60, p=30):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(n, p)) * rng.uniform(0.1, 10, p) + rng.normal(size=p)
    return Z, 3.0 * Z[:, 0] / Z[:, 0].std() - 2.0 * Z[:, 1] / Z[:, 1].std() + 0.1 * rng.normal(size=n) + 100.0


def test_the_lasso_of_the_path_is_the_lasso():
    Z, y = lasso_problem()
    ours = LassoPath().fit(Z, y)
    standard = (Z - Z.mean(axis=0)) / Z.std(axis=0)
    theirs = Lasso(alpha=ours.penalty_ * y.std()).fit(standard, y)
    np.testing.assert_allclose(ours.predict(Z), theirs.predict(standard), atol=0.05)
    assert 2 <= np.count_nonzero(ours.coef_) <= 15


def test_the_lasso_does_not_see_order_scale_or_copies():
    Z, y = lasso_problem()
    first = LassoPath().fit(Z, y)
    order = np.random.default_rng(1).permutation(len(y))
    np.testing.assert_allclose(LassoPath().fit(Z[order], y[order]).coef_, first.coef_, atol=1e-6)
    np.testing.assert_allclose(LassoPath().fit(Z, 1e9 * y).coef_, 1e9 * first.coef_, rtol=1e-5)
    weights = np.where(np.arange(len(y)) < 30, 2.0, 1.0)
    doubled = LassoPath(2).fit(np.vstack([Z, Z[:30]]), np.append(y, y[:30]))  # its last penalty is reached by both
    np.testing.assert_allclose(LassoPath(2).fit(Z, y, sample_weight=weights).coef_, doubled.coef_, atol=0.02)


def test_groups_are_held_out_together():
    """Rows of noise in pairs with one target each: alone they are told from their twin, together they are not."""
    rng = np.random.default_rng(0)
    Z = np.repeat(rng.normal(size=(40, 60)), 2, axis=0) + 1e-3 * rng.normal(size=(80, 60))
    y = np.repeat(rng.normal(size=40), 2)
    alone, together = LassoPath().fit(Z, y), LassoPath().fit(Z, y, groups=np.repeat(np.arange(40), 2))
    assert alone.error_ < 0.75 * together.error_ and together.error_ > 0.8 * y.var()


def test_nothing_to_choose_from():
    assert np.isfinite(LassoPath().fit(np.ones((4, 2)), np.arange(4.0)).predict(np.ones((2, 2)))).all()
    np.testing.assert_allclose(LassoPath().fit(np.eye(4), np.full(4, 5.0)).predict(np.eye(4)), 5.0)


# Real data -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the shared data sets beside the repository")
@pytest.mark.parametrize(("name", "preset", "most"), [("input-kme", None, 0.175), ("statistics", "forest", 0.176)])
def test_peptides_on_the_official_folds(name, preset, most):
    pd = pytest.importorskip("pandas")
    frame = pd.read_parquet(SHARED / "mhc2-H-2-IAb.parquet").sort_values("bag", kind="stable")
    _, start = np.unique(frame["bag"].to_numpy(), return_index=True)
    bags = bw.Bags(frame.drop(columns=["bag", "target", "fold"]).to_numpy(float), np.append(start, len(frame)))
    y, fold = frame["target"].to_numpy()[start], frame["fold"].to_numpy()[start]
    errors = np.empty(len(y))
    for held_out in range(5):
        train, test = fold != held_out, fold == held_out
        errors[test] = bw.method(name, preset=preset).fit(bags[train], y[train]).predict(bags[test]) - y[test]
    assert np.sqrt(np.mean(errors**2)) < most
