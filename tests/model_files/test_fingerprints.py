"""Fingerprints change with everything a result depends on, and with nothing else."""

import os
import re
import subprocess
import sys
from importlib.metadata import distributions, version
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

import bagwise as bw
from bagwise.model_files.fingerprint import describe, digest, of_data, of_library, source_hash
from bagwise.model_files.names import PLACES
from bagwise.testing.contract_checks import sample


def test_data():
    bags, y = sample(10)
    same = bw.Bags(bags.instances.copy(), bags.offsets, bags.ids)
    assert of_data(bags, y) == of_data(same, y.copy())
    others = [
        (bags[::-1], y),
        (bags, y + 1e-12),
        (bags.replace(bags.instances.astype(np.float32)), y),
        (bags.with_weights(np.arange(1.0, bags.n_instances + 1)), y),
        (bags.with_covariates(np.arange(10.0)), y),
        (bags.with_covariates(np.arange(10.0), ["p"]), y),
        (bags.replace(bags.instances, feature_names=["a", "b", "c"]), y),
        (bw.Bags(bags.instances, bags.offsets, [f"b{i}" for i in range(10)]), y),
        (bw.Bags(bags.instances, bags.offsets, groups=np.arange(10) % 3), y),
    ]
    assert len({of_data(bags, y), *(of_data(*other) for other in others)}) == len(others) + 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Ridge(1.0), Ridge(2.0)),
        (make_pipeline(Ridge(1.0)), make_pipeline(Ridge(2.0))),
        (Ridge(np.arange(5000.0)), Ridge(np.arange(5000.0)[::-1])),  # their reprs are both cut short
        (RandomForestRegressor(random_state=0), RandomForestRegressor(random_state=1)),
        (bw.method("aggregated"), make_pipeline(Ridge())),
        ([1, 2], (1, 2)),
    ],
)
def test_estimators_differ(one, other):
    assert describe(one) != describe(other)
    assert describe(one) == describe(one)


def test_each_change_to_the_source_is_in_the_key(tmp_path):
    (tmp_path / "bags").mkdir()
    (tmp_path / "bags" / "folds.py").write_text("FOLDS = 5\n")
    before = source_hash(tmp_path)
    (tmp_path / "report.css").write_text("body {}")
    assert source_hash(tmp_path) == before
    (tmp_path / "bags" / "folds.py").write_text("FOLDS = 10\n")
    changed = source_hash(tmp_path)
    (tmp_path / "bags" / "folds.py").rename(tmp_path / "folds.py")
    assert len({before, changed, source_hash(tmp_path)}) == 3
    assert of_library().startswith(f"bagwise {bw.__version__}+{source_hash(Path(bw.__file__).parent)}, ")


def test_our_classes_go_by_their_stable_names():
    """A module path in the text of a method would change its stored results with the layout."""
    for name in bw.method_names():
        for preset in bw.method_card(name).preset_names:
            named = set(re.findall(r"\bbagwise\.([\w.]+)", describe(bw.method(name, preset=preset))))
            assert named <= set(PLACES)
        assert set(re.findall(r"\bbagwise\.([\w.]+)", describe(bw.method_card(name).search_space))) <= set(PLACES)
    assert describe(bw.method("aggregated")).startswith("bagwise.BagPipeline(")


def test_the_versions_that_decide_numbers_are_in_the_key():
    installed = [name for name in ("numpy", "scipy", "scikit-learn", "numba", "torch") if any(distributions(name=name))]
    assert {"numpy", "scipy", "scikit-learn"} <= set(installed)
    assert all(f"{name} {version(name)}" in of_library() for name in installed)
    assert of_library().startswith(f"bagwise {bw.__version__}+")


@pytest.mark.slow
def test_the_same_in_another_process():
    code = (
        "import bagwise as bw; from bagwise.model_files.fingerprint import describe;"
        "from bagwise.model_files.fingerprint import of_data;"
        "from bagwise.testing.contract_checks import sample;"
        "print(of_data(*sample(10)), describe(bw.method('aggregated', random_state=3)))"
    )
    seeded = os.environ | {"PYTHONHASHSEED": "17"}
    out = subprocess.run([sys.executable, "-c", code], env=seeded, capture_output=True, text=True, check=True).stdout
    assert out.strip() == f"{of_data(*sample(10))} {describe(bw.method('aggregated', random_state=3))}"


def test_parts_do_not_run_together():
    assert digest("ab", "c") != digest("a", "bc")
    assert digest(np.array([1, 2])) != digest(np.array([1]), np.array([2]))
