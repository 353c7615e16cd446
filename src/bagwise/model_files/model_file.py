"""Save a fitted model to one file with a header on its method, training data and versions, and open it again."""

from __future__ import annotations

import json
import platform
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import numpy as np
import scipy
import sklearn
from sklearn.exceptions import InconsistentVersionWarning, NotFittedError
from sklearn.utils.validation import check_is_fitted

import bagwise
from bagwise.bags import Bags, check_bags, check_targets
from bagwise.first_use import lock
from bagwise.io.atomic_files import replace_file
from bagwise.model_files.archive import AGAIN, Refused, pack, refusing, unpack
from bagwise.model_files.names import NotAllowed
from bagwise.model_files.plan_nodes import PLAN, build, write
from bagwise.model_files.trees_and_networks import check_compiled

CHECKED_VERSIONS = ("bagwise", "scikit-learn")  # other versions may use fitted attributes differently


def describe_training(bags: Bags, y) -> dict:
    """Return a summary of training data for a header: counts, sizes of bags, range of the targets.

    Parameters
    ----------
    bags : Bags
    y : array of one target per bag, or a column per target

    Examples
    --------
    >>> import bagwise as bw
    >>> bags, y = bw.from_arrays([[[1.0], [2.0]], [[3.0]]]), [1.0, 2.0]
    >>> describe_training(bags, y)
    {'bags': 2, 'instances': 3, 'features': 1, 'instances_per_bag': {'min': 1.0, 'median': 1.5, 'max': 2.0},
     'target': {'min': 1.0, 'mean': 1.5, 'max': 2.0}}
    """
    bags = check_bags(bags, allow_missing=True, allow_weights=True, apart=True)
    has_several_targets = np.ndim(y) == 2 and np.shape(y)[1] > 1
    targets = np.asarray(y)[~np.isnan(np.asarray(y))] if has_several_targets else check_targets(y, bags)
    columns = {"bag": bags.id_name, "target": bags.target_name}
    columns = {role: name for role, name in columns.items() if name is not None}
    return describe_counts(bags.n_features, bags.sizes, targets) | ({"columns": columns} if columns else {})


def describe_counts(n_features: int, sizes: np.ndarray, y: np.ndarray) -> dict:
    """Return the same summary from the number of features and the size and target of each bag."""
    return {
        "bags": len(sizes),
        "instances": int(sizes.sum()),
        "features": n_features,
        "instances_per_bag": {"min": float(sizes.min()), "median": float(np.median(sizes)), "max": float(sizes.max())},
        "target": {"min": float(y.min()), "mean": float(y.mean()), "max": float(y.max())},
    }


def _make_header(model, method, target, training) -> dict:
    for name, value in (("method", method), ("target", target)):
        if not isinstance(value, str | None):
            raise TypeError(f"{name} must be text or None, not {type(value).__name__}")
    if not isinstance(training, dict | None):
        raise TypeError(
            f"training must be a dict, such as describe_training(bags, y) gives, not {type(training).__name__}"
        )
    try:
        training = json.loads(json.dumps(training, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"training must be numbers, text and lists that JSON can hold ({error}); use describe_training(bags, y)"
        ) from None
    names, width = getattr(model, "feature_names_in_", None), getattr(model, "n_features_in_", None)
    return {
        "method": method,
        "estimator": type(model).__name__,
        "feature_names": None if names is None else [str(name) for name in names],
        "n_features": None if width is None else int(width),
        "target": target,
        "training": training,
        "versions": versions(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def versions() -> dict[str, str]:
    """Return the versions of the imported packages; their installation records may be unreadable."""
    libraries = {"bagwise": bagwise, "numpy": np, "scipy": scipy, "scikit-learn": sklearn}
    return {"python": platform.python_version()} | {name: module.__version__ for name, module in libraries.items()}


def dump(model) -> dict[str, bytes]:
    """Return the parts of a model, after loading them once, so that problems are found when the model is saved."""
    problem = f"this {type(model).__name__} cannot be saved"
    try:
        parts = write(model)
        load(parts)
    except NotAllowed as error:
        raise ValueError(
            f"{problem}: it holds {error.name}, which is not among the types a model file may name (those of bagwise, "
            "listed estimators of scikit-learn, numpy arrays); build the model from these, or store that part yourself"
        ) from None
    except ImportError:
        raise
    except Exception as error:
        why = str(error).removesuffix(f"; {AGAIN}")
        raise ValueError(f"{problem} ({why}); build it from parts of bagwise and scikit-learn") from error
    return parts


def load(parts: dict[str, bytes]):
    """Return the model of the parts; no code from the file is run."""
    schema = json.loads(parts[PLAN])
    if not isinstance(schema, dict):
        raise Refused(f"its plan is not that of a model; {AGAIN}")
    with lock, warnings.catch_warnings():  # modules of its types are imported here
        warnings.simplefilter("ignore", InconsistentVersionWarning)  # one warning follows for the whole file
        model = build(schema, parts)
        check_compiled(model)
    if not callable(getattr(model, "predict", None)):
        raise Refused(f"it holds a {type(model).__name__}, which predicts nothing; save a fitted regressor")
    return model


def save_model(
    model,
    path: Path | str,
    *,
    method: str | None = None,
    target: str | None = None,
    training: dict | None = None,
) -> None:
    """Write a fitted model to one file that opens without running code.

    The file is a zip: a header in JSON (`read_header`), a plan of the model, and its arrays. The write is atomic: an
    old file is unchanged if it fails. A model that could not be loaded again raises an error.

    Parameters
    ----------
    model : fitted estimator for bags
    path : str or path
        The file to write; its name may have any ending, by convention ``.bagwise``.
    method, target : str, optional
        Names of the method and of the target, for the header.
    training : dict, optional
        Summary of the training data, for the header; see `describe_training`.

    Examples
    --------
    >>> import tempfile, bagwise as bw
    >>> from bagwise.model_files import load_model, save_model
    >>> bags, y = bw.datasets.make_gaussian(40, instances=10)
    >>> model = bw.method("aggregated").fit(bags, y)
    >>> path = tempfile.mkdtemp() + "/model.bagwise"
    >>> save_model(model, path, method="aggregated")
    >>> bool((load_model(path).predict(bags) == model.predict(bags)).all())
    True
    """
    if not hasattr(model, "fit") or isinstance(model, type):
        raise TypeError(f"expected a fitted estimator, not {model!r:.80}")
    try:
        check_is_fitted(model)
    except NotFittedError:
        raise NotFittedError(
            f"this {type(model).__name__} is not fitted yet, so there is nothing to save; call fit(bags, y) first"
        ) from None
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file, such as {path / 'model.bagwise'}")
    if not path.resolve().parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.resolve().parent} to write {path.name} to; make it first")
    data = pack(_make_header(model, method, target, training), dump(model))
    replace_file(path, lambda whole: whole.write_bytes(data))


def try_saving(model) -> None:
    """Refuse a model that could not be saved before it is fitted, so that no long fit is lost.

    Its parameters are written to a plan and read back. Fitted trees of scikit-learn contain parts whose names differ
    between versions, so a small fitted tree is saved as well.

    Parameters
    ----------
    model : estimator for bags, fitted or not

    Examples
    --------
    >>> import bagwise as bw
    >>> from bagwise.model_files import try_saving
    >>> try_saving(bw.method("instance-kme"))
    """
    from sklearn.ensemble import HistGradientBoostingRegressor  # not needed to open a model

    dump(model)
    dump(HistGradientBoostingRegressor(max_iter=1).fit([[0.0], [1.0]], [0.0, 1.0]))


def load_model(path: Path | str):
    """Open a file that `save_model` has written, and return the fitted model.

    Only types from a fixed list are created, and no code from the file is run; pickle is never read. If the versions of
    scikit-learn or bagwise differ from those that saved the file, a UserWarning names both. A file that is changed, cut
    short, of another format or not a model file raises a ValueError.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    fitted estimator for bags

    Examples
    --------
    >>> import pathlib, tempfile, bagwise as bw
    >>> bags, y = bw.datasets.make_gaussian(20, instances=5)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.bagwise"
    >>> bw.save_model(bw.method("aggregated").fit(bags, y), path)
    >>> bw.load_model(path).predict(bags).shape
    (20,)
    """
    with _opened(path) as stream, refusing(path):
        header, parts = unpack(stream)
        model = load(parts)
    here = versions()
    pairs = [(name, header["versions"].get(name), here[name]) for name in CHECKED_VERSIONS]
    if other := [f"{name} {then} (here it is {now})" for name, then, now in pairs if then != now]:
        warnings.warn(
            f"{path} was saved with {' and '.join(other)}; its predictions may differ. Compare some with predictions "
            "that you know, or install those versions",
            UserWarning,
            stacklevel=2,
        )
    return model


def read_header(path: Path | str) -> dict:
    """Return the header of a model file after comparing its checksum, without building the model.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    header : dict
        Keys: ``format``, ``method``, ``estimator``, ``feature_names``, ``n_features``, ``target``, ``training``,
        ``versions``, ``created`` and ``checksum`` (SHA-256 of the file).
    """
    with _opened(path) as stream, refusing(path):
        return unpack(stream)[0]


def _opened(path: Path | str) -> BinaryIO:
    try:
        return open(path, "rb")
    except FileNotFoundError:
        raise FileNotFoundError(
            f"there is no file {path}; give one that bagwise.save_model or `bagwise fit` wrote"
        ) from None
    except IsADirectoryError:
        raise IsADirectoryError(f"{path} is a folder; give the model file in it") from None
