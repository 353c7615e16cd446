"""Every estimator that is public, and everything under `bw.`, documents its parameters and shows an example.

The examples run as doctests of the package.
"""

import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator

import bagwise as bw

PACKAGES = sorted({path.parent.name for path in Path(bw.__file__).parent.glob("*/__init__.py")} - {"cli"})
SECTION = r"^{}\n-{{3,}}\n(.*?)(?=^\S[^\n]*\n-{{3,}}$|\Z)"


def documented() -> dict[str, object]:
    """Name -> class or function."""
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
    """The parameters of a function, or of the constructor of a class, that its docstring does not list."""
    lines = (section(inspect.getdoc(value) or "", "Parameters") or "").splitlines()
    listed = [name.strip(" *") for line in lines if line[:1].strip() for name in line.partition(":")[0].split(",")]
    return [name for name in inspect.signature(value).parameters if name not in listed]


NAMES = documented()
# Made by functions of ours, and documented by what they hold.
RESULTS = ("bw.Explanation", "bw.Importance", "bw.Novelty", "bw.Results", "bw.SubsetPredictions")


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(RESULTS)))
def test_parameters_are_documented(name):
    assert undocumented(NAMES[name]) == []


@pytest.mark.parametrize("name", sorted(NAMES))
def test_an_example_is_shown(name):
    assert ">>> " in (section(inspect.getdoc(NAMES[name]) or "", "Examples") or "")


def test_what_is_missing_would_be_noticed():
    def function(a, b, *, c):
        """One line.

        Parameters
        ----------
        a, b : int
            Not ``c``.

        Returns
        -------
        c : int
        """

    assert undocumented(function) == ["c"] and section(function.__doc__, "Examples") is None
