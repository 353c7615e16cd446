"""Public names of packages: imported at first use, and listed in a stub for editors and type checkers."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

import bagwise

HOME = Path(bagwise.__file__).parent
STUBS = sorted(HOME.rglob("__init__.pyi"))
PACKAGES = {".".join(stub.parent.relative_to(HOME.parent).parts): stub for stub in STUBS}


@pytest.mark.parametrize("package", PACKAGES)
def test_names_of_the_stub_are_those_of_the_package(package):
    module, tree = import_module(package), ast.parse(PACKAGES[package].read_text(encoding="utf-8"))
    aliases = [alias for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert all(alias.name == alias.asname for alias in aliases)  # jedi ignores names of other imports in stubs
    names = {alias.name for alias in aliases}
    assert {name for name in dir(module) if not name.startswith("_")} == names
    assert set(module.__all__) <= names
    for node in tree.body:
        for alias in node.names if isinstance(node, ast.ImportFrom) else ():
            assert getattr(module, alias.name) is getattr(import_module(node.module), alias.name)


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match=r"^module 'bagwise\.embeddings' has no attribute 'KernelMeen'"):
        _ = bagwise.embeddings.KernelMeen
    with pytest.raises(AttributeError, match=r"^module 'bagwise' has no attribute 'lod'"):
        _ = bagwise.lod


def test_jedi_completes_public_names():
    jedi = pytest.importorskip("jedi")
    completions = jedi.Script("import bagwise as bw\nbw.").complete()
    assert set(bagwise.__all__) <= {completion.name for completion in completions}
