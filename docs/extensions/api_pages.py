"""The API reference, written anew at every build: one section per package, one page per public name.

A name that `bagwise` itself has stands under the package it is defined in, as ``bagwise.name``.
"""

from __future__ import annotations

from importlib import import_module
from inspect import isclass, isroutine
from pathlib import Path

import bagwise

# In the order in which data passes them (ARCHITECTURE.md), then those around a fitted method.
ORDER = (
    *("bags", "io", "kernels", "instances", "embeddings", "regressors", "methods", "auto", "intervals", "explanations"),
    *("model_files", "out_of_core", "datasets", "evaluation", "execution", "reports", "testing"),
)
HEAD = """API
===

Everything public, package by package. What :mod:`bagwise` offers directly is written ``bw.name`` in these pages, after
``import bagwise as bw``.

.. toctree::
   :hidden:

"""


def packages() -> list[str]:
    """Every package there is, those in ORDER first; the command line has a page of its own."""
    folder = Path(bagwise.__file__).parent
    there = sorted(path.parent.name for path in folder.glob("*/__init__.py") if path.parent.name != "cli")
    return [package for package in ORDER if package in there] + [package for package in there if package not in ORDER]


def names(package: str) -> list[str]:
    """Full names of the classes and functions that a package offers."""
    module = import_module(f"bagwise.{package}")
    offered = {name: getattr(module, name) for name in getattr(module, "__all__", [])}
    public = [name for name, value in offered.items() if isclass(value) or isroutine(value)]
    return [f"bagwise.{name}" if name in bagwise.__all__ else f"{module.__name__}.{name}" for name in public]


def about(package: str) -> str:
    """The first paragraph of a package's docstring."""
    return " ".join((import_module(f"bagwise.{package}").__doc__ or "").split("\n\n")[0].split())


def summary(package: str) -> str:
    """A package in the index: what it is, and the names in it."""
    linked = " ".join(f":py:obj:`~{name}`" for name in names(package))
    return f":ref:`{package}/ <package-{package}>`\n   {about(package)}\n\n   {linked}"


def page(package: str) -> str:
    """A package's own page: a line on every name."""
    lines = [f".. _package-{package}:", "", f"{package}/", "=" * (len(package) + 1), "", about(package), ""]
    lines += [".. autosummary::", "   :toctree: .", "   :nosignatures:"]
    return "\n".join([*lines, "", *(f"   {name}" for name in names(package)), ""])


def pages() -> dict[str, str]:
    """File -> text, for every package that offers something."""
    offering = [package for package in packages() if names(package)]
    tree = "\n".join(f"   {package}" for package in offering)
    index = "\n\n".join([HEAD + tree, *(summary(package) for package in offering), ""])
    return {"index": index, **{package: page(package) for package in offering}}


def write(app, config) -> None:
    folder = Path(app.srcdir) / "api"
    folder.mkdir(exist_ok=True)
    for name, text in pages().items():
        (folder / f"{name}.rst").write_text(text, encoding="utf-8")


def skip(app, what, name, member, skip, options):
    """The metadata requests that scikit-learn adds to every estimator are no part of ours."""
    return True if name.startswith("set_") and name.endswith("_request") else None


def setup(app) -> dict:
    app.connect("config-inited", write)  # before Sphinx looks which files there are
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
