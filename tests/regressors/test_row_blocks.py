"""Rows in files and memory maps are fitted as rows in memory, a block at a time."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bagwise.regressors import RidgePath
from bagwise.regressors.bayesian.evidence_ridge import Evidence
from bagwise.regressors.row_blocks import RowBlocks

RNG = np.random.default_rng(0)
N = 20_000
Z = RNG.normal(size=(N, 6)) * [1.0, 10.0, 1e-3, 1.0, 1.0, 0.0] + 3.0
Y = Z[:, :3] @ [1.0, 0.1, 50.0] + RNG.normal(size=N)
WEIGHT = RNG.choice([0.0, 1.0, 2.0], size=N)


@pytest.fixture
def blocks(tmp_path):
    """The rows in three files; the groups of fifty bags are whole in each."""
    paths = []
    for k, part in enumerate(np.split(Z, [50, 12_000])):
        np.save(tmp_path / f"{k}.npy", part)
        paths.append(tmp_path / f"{k}.npy")
    return RowBlocks.of(*paths, whole=True)


@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize("groups", [np.arange(N), np.arange(N) // 50], ids=["bags", "groups"])
@pytest.mark.parametrize("rule", ["best", "one-se"])
def test_ridge_in_blocks_is_ridge_in_memory(blocks, weight, groups, rule):
    head = RidgePath(rule=rule)
    found = head.fit(blocks, Y, sample_weight=weight, groups=groups)
    residuals, coef = found.residuals_, found.coef_
    expected = RidgePath(rule=rule).fit(Z, Y, sample_weight=weight, groups=groups)
    assert found.penalty_ == expected.penalty_
    assert_allclose(found.errors_, expected.errors_, rtol=1e-9)
    assert_allclose(residuals, expected.residuals_, rtol=1e-7, atol=1e-9)
    assert_allclose(coef, expected.coef_, rtol=1e-7, atol=1e-9)


def test_a_memory_map_is_read_in_blocks(tmp_path):
    rows = np.memmap(tmp_path / "rows", np.float64, "w+", shape=Z.shape)
    rows[:] = Z
    rows.flush()
    mapped = np.memmap(tmp_path / "rows", np.float64, "r", shape=Z.shape)
    groups = np.arange(N)
    assert_allclose(
        RidgePath().fit(mapped, Y, groups=groups).coef_,
        RidgePath().fit(Z, Y, groups=groups).coef_,
        rtol=1e-7,
        atol=1e-9,
    )


def test_changed_rows_are_those_of_the_changed_array(blocks):
    matrix, beside, some = RNG.normal(size=(4, 3)), RNG.normal(size=(N, 2)), RNG.uniform(size=N) < 0.3
    expected = np.hstack([Z[:, :4] @ matrix, beside])[some]
    changed = blocks.through(matrix).with_columns(beside)[some]
    assert changed.shape == expected.shape
    assert_allclose(np.vstack([rows for _, rows in changed.blocks()]), expected, rtol=1e-12)
    assert_allclose(changed.var(axis=0), expected.var(axis=0), rtol=1e-9)


def test_the_evidence_is_that_of_memory(blocks):
    found, expected = Evidence(blocks, Y, WEIGHT), Evidence(Z, Y, WEIGHT)
    assert_allclose(found.log_evidence(), expected.log_evidence(), rtol=1e-9)
    assert_allclose(found(Z[:20])[0], expected(Z[:20])[0], rtol=1e-8)
