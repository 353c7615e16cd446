"""Public names of `bagwise`: signatures, types, and a quick import."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import bagwise as bw


@pytest.mark.parametrize("name", sorted(set(bw.__all__) - {"datasets"}))
def test_every_name_has_a_signature_and_a_docstring(name):
    value = getattr(bw, name)
    assert inspect.signature(value) and inspect.getdoc(value)


def test_the_import_loads_nothing_else():
    """No package of ours, no numpy, and not even `typing`."""
    code = "import sys; before = set(sys.modules); import bagwise; print(*sorted(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True,
                            env={"PYTHONPATH": str(Path(bw.__file__).parents[1])}).stdout.split()  # fmt: skip
    assert {name for name in loaded if name.startswith("bagwise")} == {"bagwise", "bagwise.first_use"}
    assert not {"numpy", "typing"} & set(loaded)


def test_type_checkers_use_our_annotations():
    assert (Path(bw.__file__).parent / "py.typed").exists()


@pytest.mark.slow
def test_mypy_sees_names_and_signatures(tmp_path):
    """mypy refuses a name that does not exist, which it accepts of a module with ``__getattr__`` and no stub."""
    api = pytest.importorskip("mypy.api")
    lines = ["import bagwise as bw", 'bags, y = bw.load("a.csv", bag="site")', "reveal_type(bags[2:5])", "bw.typo"]
    lines += ["bw.load(3, nonsense=1)", "reveal_type(bw.save_model)"]
    (tmp_path / "user.py").write_text("\n".join(lines))
    root = Path(__file__).parents[1]
    config = ["--config-file", str(root / "pyproject.toml"), "--cache-dir", str(tmp_path)]
    output = api.run([*config, "--python-executable", sys.executable, str(tmp_path / "user.py")])[0].splitlines()
    found = {int(line.split(":")[1]): line for line in output if ": error:" in line or "Revealed" in line}
    assert set(found) == {3, 4, 5, 6}
    assert "bagwise.bags.container.Bags" in found[3] and 'no attribute "typo"' in found[4]
    assert '"nonsense"' in found[5] and "path: pathlib" in found[6]
