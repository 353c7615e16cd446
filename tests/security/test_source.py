"""No line of the package turns input into code, except the listed ones, each with its reason."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.reading_source import dangers

import bagwise as bw
from bagwise.io.table_output import write_table
from bagwise.testing.contract_checks import sample

PACKAGE = Path(bw.__file__).parent
ALLOWED = {
    ("evaluation/table1.py", "pickle.loads"): "the pickles of the paper's notebook, behind --trust-pickle only",
    ("testing/contract_checks.py", "pickle.loads"): "bytes that the check has pickled itself, one call before",
    (
        "model_files/names.py",
        "importlib.import_module",
    ): "modules on the list of that file, after the name was compared",
    ("model_files/plan_nodes.py", "importlib.import_module"): "the same, of a node that was checked before",
    ("first_use.py", "importlib.import_module"): "modules of ours, by the stubs of the packages",
    ("auto/time_budget.py", "importlib.import_module"): "modules of ours, by a table in that file",
    ("cli/__init__.py", "importlib.import_module"): "the modules of the command line",
    ("methods/__init__.py", "importlib.import_module"): "the modules of the catalogue",
    ("reports/html_reports.py", "markupsafe.Markup"): "text that is escaped first; only its backticks become markup",
    ("bags/frames.py", "importlib.import_module"): "pandas or polars, by their names in the same line",
    ("reports/figures.py", "markupsafe.Markup"): "what is inside is escaped first",
}
SAFE = {"style": "our style sheet", "script": "our script"}


def test_every_danger_in_the_package_is_known():
    found = {
        (path.relative_to(PACKAGE).as_posix(), what)
        for path in PACKAGE.rglob("*.py")
        for what in dangers(path.read_text(encoding="utf-8"))
    }
    assert found == set(ALLOWED)


def test_what_templates_do_not_escape_is_known():
    text = "".join(path.read_text() for path in PACKAGE.rglob("templates/*.html"))
    assert set(re.findall(r"{{\s*(.*?)\s*\|\s*safe\s*}}", text)) == set(SAFE)
    assert "autoescape false" not in text


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("eval(x)", "eval"),
        ("def f():\n    exec(x)", "exec"),
        ("import pickle\npickle.load(f)", "pickle.load"),
        ("import pickle as p\np.loads(x)", "pickle.loads"),
        ("from pickle import loads as read\nread(x)", "pickle.loads"),
        ("def f():\n    import joblib\n    return joblib.load(x)", "joblib.load"),
        ("import yaml\nyaml.load(x)", "yaml.load"),
        ("import os\nos.system(x)", "os.system"),
        ("import subprocess\nsubprocess.run(x, shell=True)", "shell=True"),
        ("import numpy as np\nnp.load(x, allow_pickle=trust)", "allow_pickle=trust"),
        ("import torch\ntorch.load(x)", "torch.load"),
        ("import pandas as pd\npd.read_pickle(x)", "pandas.read_pickle"),
        ("frame.query(text)", "frame.query"),
        ("from importlib import import_module\nimport_module(name)", "importlib.import_module"),
        ("Environment(autoescape=False)", "autoescape=False"),
    ],
)
def test_a_danger_is_found(source, what):
    assert dangers(source) == [what]


@pytest.mark.parametrize(
    "source",
    ["model.eval()", "np.load(x, allow_pickle=False)", "import json\njson.loads(x)", "import_module('torch')"],
)
def test_what_is_sound_is_left_alone(source):
    assert dangers(source) == []


READ_ALL = """
import sys
from pathlib import Path
import bagwise as bw

def read():
    for path in sorted(Path(sys.argv[1]).iterdir()):
        if path.suffix == ".bagwise":
            bw.load_model(path)
        else:
            bw.load(path, **({} if path.suffix == ".npz" else {"bag": 0 if path.suffix == ".mat" else "bag"}))

read()  # once, for what libraries do when they are imported is not ours
seen = []
sys.addaudithook(lambda event, _: seen.append(event))
read()
bad = ("pickle.", "marshal.", "os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.", "ctypes.", "socket.")
assert "open" in seen
print([event for event in seen if event.startswith(bad)])
"""


def test_reading_runs_nothing(tmp_path):
    """Audit events show no unpickling, program or connection while files of each kind are read.

    Files made to do harm: tests/model_files/test_hostile.py and tests/properties/test_any_file.py.
    """
    from scipy.io import savemat

    bags, y = sample()
    bw.save_model(bw.method("aggregated").fit(bags, y), tmp_path / "model.bagwise")
    bw.save_npz(tmp_path / "bags.npz", bags, y)
    savemat(tmp_path / "bags.mat", {"X": np.column_stack([bags.expand(np.arange(24)), bags.instances, bags.expand(y)])})
    columns = {"bag": bags.expand(np.arange(24)).tolist(), "red": bags.instances[:, 0].tolist()}
    for name in ("table.csv", "table.parquet"):
        write_table(tmp_path / name, columns)
    done = subprocess.run([sys.executable, "-c", READ_ALL, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
