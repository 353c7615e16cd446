"""What the README shows runs as pasted: here in little time, and slowly in a fresh environment with the wheel."""

import os
import re
import shlex
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from bagwise.cli import app

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(console|python)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def test_the_blocks_run_in_their_order_in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert [language for language, _ in BLOCKS] == ["console", "python", "console"]
    names: dict = {}
    for language, code in BLOCKS:
        # As pasted, but in little time.
        shorter = code.replace("time_budget=60", "time_budget=2").replace("--time-budget 60", "--time-budget 2")
        if language == "python":
            assert shorter != code
            exec(shorter, names)
        else:
            for command in shorter.splitlines():
                result = CliRunner().invoke(app, shlex.split(command)[1:])
                assert result.exit_code == 0, f"{command}: {result.output}"
    assert len(names["predictions"]) == len(names["new"]) == 20
    assert (names["lower"] < names["predictions"]).all() and (names["predictions"] < names["upper"]).all()
    assert np.isfinite(names["effects"]).all() and len(names["effects"]) == names["new"].n_instances
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix in (".csv", ".bagwise")) == [
        *("aerosol.bagwise", "model.bagwise", "new_pixels.csv", "pixels.csv", "predictions.csv")
    ]
    assert len(pd.read_csv(tmp_path / "predictions.csv")) == 20


@pytest.fixture(scope="module")
def fresh_python(tmp_path_factory):
    """The interpreter of a new environment that holds the built wheel and what it asks for, nothing else."""
    place = tmp_path_factory.mktemp("fresh")
    pip = [sys.executable, "-m", "pip"]
    if not subprocess.run([*pip, "--version"], capture_output=True, check=False).stdout:
        pytest.skip("there is no pip to build a wheel with")
    subprocess.run([*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", str(place), str(ROOT)], check=True)
    venv.create(place / "venv", with_pip=True)
    python = place / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    [wheel] = place.glob("bagwise-*.whl")
    constraints = str(ROOT / "constraints.txt")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--constraint", constraints, wheel], check=True)
    return python


@pytest.mark.slow
def test_the_blocks_run_as_pasted_with_the_wheel_in_a_fresh_environment(fresh_python, tmp_path):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    clean["PATH"] = f"{fresh_python.parent}{os.pathsep}{clean['PATH']}"
    for language, code in BLOCKS:
        command = [fresh_python, "-c", code] if language == "python" else ["bash", "-ec", code]
        done = subprocess.run(command, cwd=tmp_path, env=clean, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{code}\n{done.stdout}{done.stderr}"
    assert (tmp_path / "predictions.csv").exists() and (tmp_path / "aerosol.bagwise").exists()
    drawn = "from matplotlib.figure import Figure as F; import bagwise as bw; f = F()\n"
    drawn += "bw.plots.predicted_against_true(f.subplots(), [1, 2], [1, 3]); f.savefig('p.png')"
    subprocess.run([fresh_python, "-c", drawn], cwd=tmp_path, env=clean, check=True)
    report = "bagwise evaluate pixels.csv --bag bag --target target --method aggregated --repeats 1 --out runs"
    report += " && bagwise report runs --out run.html && bagwise datasets aerosol --out p.parquet"
    report += " && bagwise check p.parquet --bag bag --target target"
    subprocess.run(["bash", "-ec", report], cwd=tmp_path, env=clean, check=True)


def test_the_commands_are_targets_of_the_makefile():
    for target in set(re.findall(r"^make (\w+)", README, re.MULTILINE)):
        assert subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, check=False).returncode == 0


def test_links_lead_somewhere():
    for link in re.findall(r"\]\(([^)#:]+)\)", README):  # those of the docs: tests/docs/test_site.py
        assert (ROOT / link).exists(), f"README.md links to {link}"
