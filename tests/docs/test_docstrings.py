"""Every estimator that is public, and everything under `bw.`, documents its parameters and shows an example.

The examples run as doctests of the package.
"""

import inspect
import re
import sys
from importlib import import_module
from operator import attrgetter
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator

import bagwise as bw

sys.path.append(str(Path(__file__).resolve().parents[2] / "docs" / "extensions"))
API = import_module("api_pages")
PACKAGES = sorted({path.parent.name for path in Path(bw.__file__).parent.glob("*/__init__.py")} - {"cli"})
SECTION = r"^{}\n-{{3,}}\n(.*?)(?=^\S[^\n]*\n-{{3,}}$|\Z)"


def documented() -> dict[str, object]:
    """Return public classes and functions by name."""
    found = {f"bw.{name}": getattr(bw, name) for name in bw.__all__}
    for package in PACKAGES:
        module = import_module(f"bagwise.{package}")
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if inspect.isclass(value) and issubclass(value, BaseEstimator):
                found.setdefault(f"bw.{name}" if name in bw.__all__ else f"{package}.{name}", value)
    return {name: value for name, value in found.items() if not inspect.ismodule(value)}


def section(docstring: str, name: str) -> str | None:
    found = re.search(SECTION.format(name), docstring, re.DOTALL | re.MULTILINE)
    return found and found[1]


def undocumented(value) -> list[str]:
    """Return the parameters of a function or constructor that its docstring does not list."""
    lines = (section(inspect.getdoc(value) or "", "Parameters") or "").splitlines()
    listed = [name.strip(" *") for line in lines if line[:1].strip() for name in line.partition(":")[0].split(",")]
    return [name for name in inspect.signature(value).parameters if name not in listed]


NAMES = documented()
# Made by functions of ours, and documented by what they hold.
RESULTS = ("bw.Explanation", "bw.Importance", "bw.Novelty", "bw.Results", "bw.SubsetPredictions")


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(RESULTS)))
def test_parameters_are_documented(name):
    assert undocumented(NAMES[name]) == []
    assert not re.search(r"\bas for `", inspect.getdoc(NAMES[name]) or "", re.IGNORECASE)  # each page by itself


@pytest.mark.parametrize("name", sorted(NAMES))
def test_an_example_is_shown(name):
    assert ">>> " in (section(inspect.getdoc(NAMES[name]) or "", "Examples") or "")


def reference() -> dict[str, object]:
    """Return the objects on the API pages by name."""
    return {name: attrgetter(name)(bw) for task in API.TASKS for name in API.names(task)}


def test_every_public_name_is_on_one_page_of_the_api_or_internal():
    listed = [*(name for task in API.TASKS for name in API.names(task)), *API.INTERNAL]
    assert sorted(listed) == sorted(API.offered())
    assert list(API.TASKS) == ["load", "fit", "evaluate", "explain", "save", "extend"]


@pytest.mark.parametrize("name", sorted(set(reference()) - set(NAMES)))
def test_every_function_of_the_api_documents_its_own_parameters(name):
    value = reference()[name]
    if inspect.isroutine(value):
        assert undocumented(value) == []
