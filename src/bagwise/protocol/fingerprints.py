"""Fingerprints: what a result depends on, as text or a short hash that is the same in every process."""

from __future__ import annotations

import inspect
import platform
from functools import lru_cache, partial
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path

import joblib
import numpy as np
import sklearn
from sklearn.base import BaseEstimator

import bagwise
from bagwise.bags import Bags

# Rooms whose code is known by a version; the source of any other estimator is part of its fingerprint.
_VERSIONED = ("bagwise", "sklearn")
# Rooms that numbers can depend on.
_NUMERIC_ROOMS = (
    "bags",
    "kernels",
    "instances",
    "embeddings",
    "heads",
    "regressors",
    "methods",
    "automatic",
    "intervals",
)


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
    """The versions of bagwise and scikit-learn, and a hash of our code: it may change before its version does."""
    return f"bagwise {bagwise.__version__}+{_code()}, scikit-learn {sklearn.__version__}"


@lru_cache(maxsize=1)
def _code() -> str:
    home = Path(bagwise.__file__).parent
    files = sorted(path for room in _NUMERIC_ROOMS for path in (home / room).rglob("*.py"))
    return digest(*[part for path in files for part in (path.name, path.read_text(encoding="utf-8"))])[:8]


def versions() -> dict[str, str]:
    """What the numbers were computed with, to be written down; results are found by `of_library` alone."""
    packages = {name: version(name) for name in ("bagwise", "scikit-learn", "numpy", "scipy")}
    return packages | {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}


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


def describe(value) -> str:
    """A value, an estimator above all, with every parameter, as text that is equal if and only if the value is.

    Examples
    --------
    >>> from sklearn.linear_model import Lasso
    >>> describe({"b": Lasso, "a": [1.0, None]})
    "{'a': [1.0, None], 'b': sklearn.linear_model._coordinate_descent.Lasso}"
    >>> describe(Lasso(alpha=2)) == describe(Lasso(alpha=3))
    False
    """
    if isinstance(value, BaseEstimator):
        parameters = sorted(value.get_params(deep=False).items())
        inside = ", ".join(f"{name}={describe(one)}" for name, one in parameters)
        return f"{_name(type(value))}({inside})"
    if isinstance(value, dict):
        inside = sorted((repr(key), describe(one)) for key, one in value.items())
        return "{" + ", ".join(f"{key}: {one}" for key, one in inside) + "}"
    if isinstance(value, list | tuple):
        left, right = "[]" if isinstance(value, list) else "()"
        return left + ", ".join(map(describe, value)) + right
    if isinstance(value, np.ndarray) and value.dtype != object:
        return f"array{value.shape}:{digest(value)}"
    if isinstance(value, partial):
        return f"partial({describe(value.func)}, {describe(value.args)}, {describe(value.keywords)})"
    if isinstance(value, type) or inspect.isroutine(value):
        return _name(value)
    if value is None or isinstance(value, str | int | float | np.generic):
        return repr(value)
    return f"{_name(type(value))}:{joblib.hash(value)}"  # its repr may hold an address


@lru_cache(maxsize=256)
def _name(value) -> str:
    """Where a class or function lives, with a hash of its source unless a version says what the source is."""
    module = getattr(value, "__module__", None) or ""
    name = f"{module}.{getattr(value, '__qualname__', type(value).__name__)}"
    if module.split(".")[0] in _VERSIONED:
        return name
    try:
        return f"{name}#{digest(inspect.getsource(value))[:8]}"
    except (OSError, TypeError):  # compiled, or typed in at a prompt
        return name
