"""What the README shows runs."""

import re
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd

import bagwise as bw

ROOT = Path(__file__).resolve().parents[1]


def test_the_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, seed in (("pixels", 0), ("new_pixels", 1)):
        bags, y = bw.datasets.make_aerosol(40, instances=5, ragged=True, random_state=seed)
        frame = pd.DataFrame(bags.instances, columns=list(bags.feature_names))
        frame["site"] = [f"s{i}" for i in bags.expand(bags.ids)]
        if name == "pixels":
            frame["aod"] = bags.expand(y)
        frame.to_parquet(f"{name}.parquet")
    example = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL).group(1)
    names: dict = {}
    exec(example, names)
    assert len(names["predictions"]) == len(names["new"])
    sums = np.add.reduceat(names["parts"], names["new"].offsets[:-1])
    np.testing.assert_allclose(sums, names["predictions"], atol=1e-9)


def test_the_commands_are_targets_of_the_makefile():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for target in set(re.findall(r"^make (\w+)", text, re.MULTILINE)):
        assert subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, check=False).returncode == 0


def test_links_lead_somewhere():
    for page in [ROOT / "README.md", *ROOT.glob("docs/*.md")]:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"
