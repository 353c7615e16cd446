"""No line of the package turns input into code."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np

import bagwise as bw
from bagwise.io.table_output import write_table
from bagwise.testing.contract_checks import sample

PACKAGE = Path(bw.__file__).parent
SAFE = {"style": "our style sheet", "script": "our script"}


def test_no_array_is_unpickled_and_no_text_evaluated():
    """What ruff does not find; its rules S and TID251 find other calls that turn data into code (pyproject.toml)."""
    text = "".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    assert set(re.findall(r"(?:allow_pickle|weights_only)=(\w+)", text)) == {"False"}
    assert not re.search(r"\.(eval|query)\([^)]", text)  # of data frames


def test_what_templates_do_not_escape_is_known():
    text = "".join(path.read_text() for path in PACKAGE.rglob("templates/*.html"))
    assert set(re.findall(r"{{\s*(.*?)\s*\|\s*safe\s*}}", text)) == set(SAFE)
    assert "autoescape false" not in text


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
