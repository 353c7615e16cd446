"""What packages export: loaded at first use, and the same for a type checker, for `import *` and for `dir`."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import bagwise

HOME = Path(bagwise.__file__).parent
PACKAGES = sorted(
    path.parent.name for path in HOME.glob("*/__init__.py") if "exported(" in path.read_text(encoding="utf-8")
)


def imported(package: str) -> dict[str, str]:
    """Name -> module of every import in the source of a package, those for type checkers among them."""
    source = (HOME / package / "__init__.py").read_text(encoding="utf-8")
    found = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    return {
        name.name: node.module for node in found for name in node.names if node.module.startswith(f"bagwise.{package}.")
    }


@pytest.mark.parametrize("package", PACKAGES)
def test_a_type_checker_sees_what_there_is(package):
    module, names = import_module(f"bagwise.{package}"), imported(package)
    assert sorted(names) == sorted(module.__all__)
    assert set(names) <= set(dir(module))
    for name, home in names.items():
        assert getattr(module, name) is getattr(import_module(home), name)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_takes_the_place_of_a_name(package):
    """Importing bagwise.x.name binds it in bagwise.x, where a name that waits for its first use would be hidden."""
    lazy = {name for name, home in imported(package).items() if name == home.rpartition(".")[2]}
    code = f"import bagwise.{package} as p; print([name for name in {sorted(lazy)} if name not in vars(p)])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"^module 'bagwise\.kernels' has no attribute 'Gausian'"):
        _ = bagwise.kernels.Gausian
