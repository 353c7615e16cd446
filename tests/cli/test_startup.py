"""What each verb imports: nothing that it does not use, in a fresh interpreter. Seconds: benchmarks/startup.py."""

import subprocess
import sys

import pytest
from tests.helpers.typed import done, sample_frame

PROGRAM = """
import sys
from bagwise.cli import app
try:
    app(sys.argv[1:])
except SystemExit as end:
    assert not end.code, end.code
print(*sys.modules, file=sys.stderr)
"""
# What no ridge model needs: other packages, and what would bring them.
HEAVY = {"torch", "dask", "distributed", "skops", "numba", "matplotlib", "polars", "pytest", "jinja2", "optuna"}
SCIENCE = HEAVY | {"sklearn", "pandas", "pyarrow", "scipy.stats"}
UNUSED = {
    "--help": SCIENCE | {"bagwise.bags", "bagwise.io", "bagwise.methods", "bagwise.evaluation"},
    "datasets": SCIENCE | {"bagwise.io", "bagwise.evaluation", "bagwise.methods"},
    "methods": SCIENCE | {"bagwise.evaluation", "bagwise.methods", "bagwise.io"},
    "check t.csv --bag bag --target y": SCIENCE - {"pyarrow", "pandas"} | {"bagwise.evaluation", "bagwise.methods"},
    "fit t.csv --bag bag --target y --method aggregated --out new.bagwise --n-jobs 2": HEAVY
    | {
        "bagwise.auto",
        "joblib.externals.loky.backend.popen_loky_posix",
    },  # nor are workers started
    "predict m.bagwise t.csv": HEAVY
    | {f"bagwise.{name}" for name in ("auto", "evaluation", "methods", "reports", "scale")}
    | {"bagwise.explanations.explanation", "bagwise.explanations.feature_importance", "sklearn.ensemble"}
    | {"sklearn.cluster", "sklearn.neighbors", "bagwise.regressors.attention"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    home = tmp_path_factory.mktemp("startup")
    sample_frame(60).rename(columns={"site": "bag", "aod": "y"}).to_csv(home / "t.csv", index=False)
    columns = ("--bag", "bag", "--target", "y")
    done("fit", home / "t.csv", *columns, "--method", "aggregated", "--out", home / "m.bagwise")
    return home


@pytest.mark.parametrize("words", UNUSED)
def test_a_verb_imports_only_what_it_uses(words, folder):
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words.split()], cwd=folder, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert UNUSED[words] & set(run.stderr.splitlines()[-1].split()) == set()
