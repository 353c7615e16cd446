"""Saving a fitted model to one file, and opening it again."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import BinaryIO

from sklearn.exceptions import InconsistentVersionWarning, NotFittedError
from sklearn.utils.validation import check_is_fitted

from bagwise.first_use import lock
from bagwise.io.atomic_files import replace_file
from bagwise.model_files.archive import AGAIN, Refused, pack, refusing, unpack
from bagwise.model_files.fitted_trees import check_compiled
from bagwise.model_files.header import make_header, warn_of_other_versions
from bagwise.model_files.plan_nodes import PLAN, build, write
from bagwise.model_files.registry import NotAllowed
from bagwise.model_files.schema import examine


def dump(model) -> dict[str, bytes]:
    """The parts of a model, opened once to be sure that they open: trouble is found now, not when it is needed."""
    what = f"this {type(model).__name__} cannot be saved"
    try:
        parts = write(model)
        load(parts)
    except NotAllowed as error:
        raise ValueError(
            f"{what}: it holds {error.name}, which is not among the types a model file may name (those of bagwise, "
            "listed estimators of scikit-learn, numpy arrays); build the model from these, or keep that part yourself"
        ) from None
    except ImportError:
        raise
    except Exception as error:
        why = str(error).removesuffix(f"; {AGAIN}")
        raise ValueError(f"{what} ({why}); build it from parts of bagwise and scikit-learn") from error
    return parts


def load(parts: dict[str, bytes]):
    """The model of some parts, after every part has been examined; no code from the file is run."""
    with lock:  # the modules of its types are imported as they are met
        return _load(parts)


def _load(parts: dict[str, bytes]):
    schema = json.loads(parts[PLAN])
    if not isinstance(schema, dict):
        raise Refused(f"its plan is no plan of a model; {AGAIN}")
    names = examine(schema, parts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentVersionWarning)  # said once, for the whole file
        model = build(schema, parts)
    check_compiled(model, names)
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

    The file is a zip: a header in JSON (`read_header`), a plan of the model, and its arrays. It appears whole
    or not at all, and what was there before stays if anything goes wrong. A model that could not be opened again
    is refused here.

    Parameters
    ----------
    model : fitted estimator for bags
    path : where to; the ending ``.bagwise`` is a custom, not a rule
    method : name of the method in the catalogue, kept in the header
    target : name of the target, kept in the header
    training : what it was trained on, kept in the header; see `describe_training`

    Examples
    --------
    >>> import tempfile, bagwise as bw
    >>> from bagwise.model_files import describe_training, load_model, save_model
    >>> bags, y = bw.datasets.make_gaussian(40, instances=10)
    >>> model = bw.method("aggregated").fit(bags, y)
    >>> path = tempfile.mkdtemp() + "/model.bagwise"
    >>> save_model(model, path, method="aggregated", training=describe_training(bags, y))
    >>> bool((load_model(path).predict(bags) == model.predict(bags)).all())
    True
    """
    _refuse_unfitted(model)
    _refuse_place(Path(path))
    data = pack(make_header(model, method=method, target=target, training=training), dump(model))
    replace_file(path, lambda whole: whole.write_bytes(data))


def try_saving(model) -> None:
    """Refuse a model that could not be saved, before it is fitted: a long fit is not to be lost.

    Its parameters are put into a plan and read back. What a fit adds are arrays, and in trees of scikit-learn parts
    whose names differ between its versions; so a small tree is saved as well.

    Parameters
    ----------
    model : estimator for bags, fitted or not

    Examples
    --------
    >>> import bagwise as bw
    >>> from bagwise.model_files import try_saving
    >>> try_saving(bw.method("instance-kme"))
    """
    from sklearn.ensemble import HistGradientBoostingRegressor  # here, for opening a model does not need it

    dump(model)
    dump(HistGradientBoostingRegressor(max_iter=1).fit([[0.0], [1.0]], [0.0, 1.0]))


def load_model(path: Path | str):
    """The fitted model in a file that `save_model` has written.

    Only types from a fixed list are made, none by running code from the file; pickle is never read. A file that is
    changed, cut short, of a newer format or not ours is refused with a ValueError. If the versions of
    scikit-learn or bagwise differ from those that saved it, a UserWarning names both.

    Parameters
    ----------
    path : str or path

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
    warn_of_other_versions(header, path)
    return model


def read_header(path: Path | str) -> dict:
    """What a model file says about itself, its checksums compared, without making the model.

    Keys: ``format``, ``method``, ``estimator``, ``feature_names``, ``n_features``, ``target``, ``training``,
    ``versions``, ``created``, ``parts`` (the SHA-256 of each) and ``checksum``.
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


def _refuse_place(path: Path) -> None:
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file, such as {path / 'model.bagwise'}")
    if not path.resolve().parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.resolve().parent} to write {path.name} to; make it first")


def _refuse_unfitted(model) -> None:
    if not hasattr(model, "fit") or isinstance(model, type):
        raise TypeError(f"expected a fitted estimator, not {model!r:.80}")
    try:
        check_is_fitted(model)
    except NotFittedError:
        raise NotFittedError(
            f"this {type(model).__name__} is not fitted yet, so there is nothing to save; call fit(bags, y) first"
        ) from None
