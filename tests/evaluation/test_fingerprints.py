"""Fingerprints change with everything a result depends on, and with nothing else."""

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from importlib.metadata import distributions, version
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

import bagwise as bw
from bagwise.model_files import fingerprint
from bagwise.model_files.fingerprint import code_hash, describe, digest, of_data, of_library
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


DEFINITIONS = cache(fingerprint.definitions)  # a file that did not change is parsed once


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The library, to be changed."""
    monkeypatch.setattr(fingerprint, "definitions", DEFINITIONS)
    return shutil.copytree(Path(bw.__file__).parent, tmp_path / "bagwise", ignore=shutil.ignore_patterns("*.pyc"))


def append(file: Path, text: str) -> None:
    with file.open("a", encoding="utf-8") as changed:
        changed.write(text)


@pytest.mark.parametrize(
    "file",
    [
        "evaluation/metrics",
        *[
            pytest.param(one, marks=pytest.mark.slow)
            for one in ("evaluation/selection", "evaluation/plan", "evaluation/splits", "execution/resources")
        ],
    ],
)
def test_the_code_that_decides_numbers_is_in_the_key(home, file):
    before = code_hash(home)
    (home / "evaluation" / "progress.py").write_text("ONLY = 'shown'")
    append(home / f"{file}.py", "# a comment\n")
    assert code_hash(home) == before
    append(home / f"{file}.py", "CHANGED = 1\n")
    assert code_hash(home) != before


def test_a_constant_inside_a_method_is_in_the_key(home):
    keys = {code_hash(home)}
    for body in ("return 1", "'Said.'\n        return 1", "return 2"):
        append(home / "bags" / "container.py", f"\n\nclass More:\n    def one(self):\n        {body}\n")
        keys.add(code_hash(home))
    assert len(keys) == 4  # a definition that is there twice counts twice


def test_a_moved_module_keeps_the_keys(home):
    """Moved to another package under another name, or cut in two with imports and docstring anew."""
    before = code_hash(home)
    (home / "kernels" / "formulas.py").rename(home / "embeddings" / "kernel_formulas.py")
    (home / "embeddings" / "__init__.py").write_text('"""Other words."""\n\n__all__ = ["KernelMean"]\n')
    file = home / "bags" / "segments.py"
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    at = [i for i, line in enumerate(lines) if line.startswith("def ")][3]
    file.write_text("".join(lines[:at]), encoding="utf-8")
    append(
        home / "bags" / "more_segments.py", '"""The other half."""\n\nfrom numpy import add\n\n' + "".join(lines[at:])
    )
    assert code_hash(home) == before


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
