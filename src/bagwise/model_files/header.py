"""What a model file says about itself: who made it, from what, with which versions."""

from __future__ import annotations

import json
import platform
import warnings
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version

import numpy as np

from bagwise.bags import Bags, check_bags, check_targets

PACKAGES = ("bagwise", "numpy", "scipy", "scikit-learn")
MATTER = ("bagwise", "scikit-learn")  # another version of these may read fitted attributes in another way


def describe_training(bags: Bags, y) -> dict:
    """What a model was trained on, in numbers that fit into a header: counts, sizes of bags, range of the targets.

    Examples
    --------
    >>> import bagwise as bw
    >>> bags, y = bw.from_arrays([[[1.0], [2.0]], [[3.0]]]), [1.0, 2.0]
    >>> describe_training(bags, y)
    {'bags': 2, 'instances': 3, 'features': 1, 'instances_per_bag': {'min': 1.0, 'median': 1.5, 'max': 2.0},
     'target': {'min': 1.0, 'mean': 1.5, 'max': 2.0}}
    """
    bags = check_bags(bags, allow_missing=True, allow_weights=True, apart=True)
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] > 1:  # several targets, of which a bag may lack some
        return describe_counts(bags.n_features, bags.sizes, y[~np.isnan(y)])
    return describe_counts(bags.n_features, bags.sizes, check_targets(y, bags))


def describe_counts(n_features: int, sizes: np.ndarray, y: np.ndarray) -> dict:
    """The same, of bags that are not at hand: the number of features, the size and the target of every bag."""
    return {
        "bags": len(sizes),
        "instances": int(sizes.sum()),
        "features": n_features,
        "instances_per_bag": {"min": float(sizes.min()), "median": float(np.median(sizes)), "max": float(sizes.max())},
        "target": {"min": float(y.min()), "mean": float(y.mean()), "max": float(y.max())},
    }


def make_header(model, *, method: str | None, target: str | None, training: dict | None) -> dict:
    names = getattr(model, "feature_names_in_", None)
    return {
        "method": _text(method, "method"),
        "estimator": type(model).__name__,
        "feature_names": None if names is None else [str(name) for name in names],
        "n_features": _count(getattr(model, "n_features_in_", None)),
        "target": _text(target, "target"),
        "training": _plain(training),
        "versions": versions(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


@cache
def versions() -> dict[str, str]:
    """Asked of the installed packages once: their records may be out of reach when a model is saved later."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def warn_of_other_versions(header: dict, path) -> None:
    here = versions()
    pairs = [(name, header["versions"].get(name), here[name]) for name in MATTER]
    other = [f"{name} {then} (here it is {now})" for name, then, now in pairs if then != now]
    if other:
        warnings.warn(
            f"{path} was saved with {' and '.join(other)}; its predictions may differ: check some that you know, "
            "or install those versions",
            UserWarning,
            stacklevel=3,
        )


def _count(number) -> int | None:
    return None if number is None else int(number)


def _text(value, name: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise TypeError(f"{name} must be text or None, not {type(value).__name__}")


def _plain(training) -> dict | None:
    if training is not None and not isinstance(training, dict):
        raise TypeError(
            f"training must be a dict, such as describe_training(bags, y) gives, not {type(training).__name__}"
        )
    try:
        return json.loads(json.dumps(training, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"training must be numbers, text and lists that JSON can hold ({error}); use describe_training(bags, y)"
        ) from None
