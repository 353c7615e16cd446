"""Fingerprints of the data and of the library, the same in every process; `describing` has those of methods."""

from __future__ import annotations

import platform
from functools import cache
from hashlib import blake2b
from importlib.metadata import distributions
from pathlib import Path

import numpy as np

import bagwise
from bagwise.bags import Bags

# Where numbers come from: rooms, and single files of others.
_NUMERIC = (
    "bags",
    "kernels",
    "instances",
    "embeddings",
    "heads",
    "regressors",
    "methods",
    "automatic",
    "intervals",
    *[f"protocol/{name}.py" for name in ("ahead", "cells", "fitting", "metrics", "selection", "splits")],
    "devices.py",
    "first_use.py",
    "threads.py",
)
# Packages that numbers come from, as they are imported and as they are installed.
LIBRARY = {
    "bagwise": "bagwise",
    "sklearn": "scikit-learn",
    "numpy": "numpy",
    "scipy": "scipy",
    "numba": "numba",
    "torch": "torch",
}


def digest(*parts) -> str:
    """A short hash of texts and arrays, in their order."""
    total = blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, np.ndarray):
            kind, raw = f"{part.dtype.str}{part.shape}", np.ascontiguousarray(part).reshape(-1).view(np.uint8)
        else:
            kind, raw = "text", str(part).encode()
        total.update(f"{kind}:{len(raw)};".encode())
        total.update(raw)
    return total.hexdigest()


def of_library() -> str:
    """Versions of bagwise and of what it computes with, and a hash of our code, which may change before its version."""
    ours = f"bagwise {bagwise.__version__}+{_code()}"
    return ", ".join([ours, *[f"{name} {number}" for name, number in _below().items()]])


@cache
def _code() -> str:
    return code_hash(Path(bagwise.__file__).parent)


def code_hash(home: Path) -> str:
    """Of the code below this folder that numbers depend on."""
    places = [home / name for name in _NUMERIC]
    files = sorted(file for place in places for file in ([place] if place.suffix else place.rglob("*.py")))
    parts = [(file.relative_to(home).as_posix(), file.read_text(encoding="utf-8")) for file in files]
    return digest(*[part for pair in parts for part in pair])[:8]


@cache
def _below() -> dict[str, str]:
    """The versions of the packages that are installed."""
    found = {name: next(iter(distributions(name=name)), None) for name in LIBRARY.values() if name != "bagwise"}
    return {name: one.version for name, one in found.items() if one is not None}


def versions() -> dict[str, str]:
    """What the numbers were computed with, to be written down; results are found by `of_library` alone."""
    system = {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
    return {"bagwise": bagwise.__version__} | _below() | system


def of_data(bags: Bags, y: np.ndarray) -> str:
    """The hash of bags and targets: values, order, ids, groups, names, weights and covariates.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bags = bw.from_arrays([np.zeros((2, 1)), np.ones((1, 1))])
    >>> of_data(bags, np.array([1.0, 2.0])) == of_data(bags, np.array([1.0, 2.5]))
    False
    """
    labels = [_labels(bags.ids), "no groups" if bags.groups is None else _labels(bags.groups), bags.feature_names]
    beside = {"weights": bags.weights, "covariates": bags.covariates, "names": bags.covariate_names}
    carried = [part for name, value in beside.items() if value is not None for part in (name, value)]
    return digest(bags.instances, bags.offsets, y, *labels, *carried)


def _labels(values: np.ndarray):
    return repr(values.tolist()) if values.dtype.kind in "OM" else values
