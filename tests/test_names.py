"""What `bagwise` itself offers: the same names to Python, to editors and to type checkers, and nothing else."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import bagwise as bw

SOURCE = Path(bw.__file__).read_text(encoding="utf-8")
PACKAGES = {path.parent.name for path in Path(bw.__file__).parent.glob("*/__init__.py")} - {"cli"}
RENAMED = {"save": "save_model", "open_model": "load_model", "inspect_table": "check_table", "card": "method_card"}


def static_imports() -> dict[str, str]:
    """Name -> module, as a type checker reads them."""
    checked = next(node for node in ast.parse(SOURCE).body if isinstance(node, ast.If))
    return {one.name: node.module for node in checked.body for one in node.names}


def test_type_checkers_are_told_the_names_that_python_finds():
    static = static_imports()
    assert set(static) == {*bw.__all__, *PACKAGES, "geo", "plots"}
    for name, module in static.items():
        value = getattr(bw, name)
        assert value is (getattr(sys.modules[module], name)), name


def test_the_names_are_sorted_and_those_that_are_shown():
    assert sorted(bw.__all__) == bw.__all__
    assert {name for name in dir(bw) if not name.startswith("_")} == {*bw.__all__, *PACKAGES, "geo", "plots"}


@pytest.mark.parametrize("name", sorted(set(bw.__all__) - {"datasets"}))
def test_every_name_has_a_signature_and_a_docstring(name):
    value = getattr(bw, name)
    assert inspect.signature(value) and inspect.getdoc(value)


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_an_old_name_warns_and_is_the_new_one(old, new):
    with pytest.warns(DeprecationWarning, match=rf"^bagwise\.{old} is now bagwise\.{new}; ") as caught:
        assert getattr(bw, old) is getattr(bw, new)
    assert caught[0].filename == __file__


def test_another_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'bagwise' has no attribute 'sav'"):
        bw.sav


def test_the_import_loads_nothing_else():
    """No package of ours, no numpy, and not even `typing`."""
    code = "import sys; before = set(sys.modules); import bagwise; print(*sorted(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True,
                            env={"PYTHONPATH": str(Path(bw.__file__).parents[1])}).stdout.split()  # fmt: skip
    ours = {name for name in loaded if name.startswith("bagwise")}
    assert ours == {"bagwise", "bagwise.first_use"}
    assert not {"numpy", "typing"} & set(loaded)


def test_type_checkers_use_our_annotations():
    assert (Path(bw.__file__).parent / "py.typed").exists()


@pytest.mark.slow
def test_mypy_sees_names_and_signatures(tmp_path):
    """And refuses a name that does not exist, which a module with ``__getattr__`` alone would let pass."""
    api = pytest.importorskip("mypy.api")
    lines = ["import bagwise as bw", 'bags, y = bw.load("a.csv", bag="site")', "reveal_type(bags[2:5])", "bw.typo"]
    lines += ["bw.load(3, nonsense=1)", "reveal_type(bw.save_model)"]
    (tmp_path / "user.py").write_text("\n".join(lines))
    root = Path(__file__).parents[1]
    config = ["--config-file", str(root / "pyproject.toml"), "--cache-dir", str(tmp_path)]
    said = api.run([*config, "--python-executable", sys.executable, str(tmp_path / "user.py")])[0].splitlines()
    told = {int(line.split(":")[1]): line for line in said if ": error:" in line or "Revealed" in line}
    assert set(told) == {3, 4, 5, 6}
    assert "bagwise.bags.container.Bags" in told[3] and 'no attribute "typo"' in told[4]
    assert '"nonsense"' in told[5] and "path: pathlib" in told[6]
