"""What the page on saved models shows runs."""

import re
from pathlib import Path

from bagwise.model_files.names import PACKAGES

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "saving.md").read_text(encoding="utf-8")


def test_the_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for example in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(example, {})
    assert capsys.readouterr().out.startswith("aggregated depth 40 ")


def test_the_page_names_every_package():
    listed = re.search(r"estimators of scikit-learn's (.*?);", PAGE, re.DOTALL).group(1)
    assert re.findall(r"`(\w+)`", listed) == sorted(PACKAGES)
