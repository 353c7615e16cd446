"""The API reference, written anew at every build: one section per room, one page per public name.

A name that `bagwise` itself has stands under the room it lives in, as ``bagwise.name``.
"""

from __future__ import annotations

from importlib import import_module
from inspect import isclass, isroutine
from pathlib import Path

import bagwise

# In the order in which data walks through them (ARCHITECTURE.md), then what stands around.
ORDER = (
    *("bags", "io", "kernels", "instances", "embeddings", "regressors", "methods", "auto", "intervals", "explanations"),
    *("model_files", "out_of_core", "datasets", "evaluation", "execution", "reports", "testing"),
)
HEAD = """API
===

Everything public, room by room. What :mod:`bagwise` offers directly is written ``bw.name`` in these pages, after
``import bagwise as bw``.

.. toctree::
   :hidden:

"""


def rooms() -> list[str]:
    """Every room there is, those in ORDER first; the command line has a page of its own."""
    folder = Path(bagwise.__file__).parent
    there = sorted(path.parent.name for path in folder.glob("*/__init__.py") if path.parent.name != "cli")
    return [room for room in ORDER if room in there] + [room for room in there if room not in ORDER]


def names(room: str) -> list[str]:
    """Full names of the classes and functions that a room offers."""
    module = import_module(f"bagwise.{room}")
    offered = {name: getattr(module, name) for name in getattr(module, "__all__", [])}
    public = [name for name, value in offered.items() if isclass(value) or isroutine(value)]
    return [f"bagwise.{name}" if name in bagwise.__all__ else f"{module.__name__}.{name}" for name in public]


def about(room: str) -> str:
    """The first paragraph of a room's docstring."""
    return " ".join((import_module(f"bagwise.{room}").__doc__ or "").split("\n\n")[0].split())


def summary(room: str) -> str:
    """A room in the index: what it is, and the names in it."""
    linked = " ".join(f":py:obj:`~{name}`" for name in names(room))
    return f":ref:`{room}/ <room-{room}>`\n   {about(room)}\n\n   {linked}"


def page(room: str) -> str:
    """A room's own page: a line on every name."""
    lines = [f".. _room-{room}:", "", f"{room}/", "=" * (len(room) + 1), "", about(room), ""]
    lines += [".. autosummary::", "   :toctree: .", "   :nosignatures:"]
    return "\n".join([*lines, "", *(f"   {name}" for name in names(room)), ""])


def pages() -> dict[str, str]:
    """File -> text, for every room that offers something."""
    offering = [room for room in rooms() if names(room)]
    tree = "\n".join(f"   {room}" for room in offering)
    index = "\n\n".join([HEAD + tree, *(summary(room) for room in offering), ""])
    return {"index": index, **{room: page(room) for room in offering}}


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
