"""From a fitted model to parts (a plan and arrays) and back, by skops and without pickle."""

from __future__ import annotations

import io
import json
import warnings
from importlib import import_module
from zipfile import ZipFile

from sklearn.exceptions import InconsistentVersionWarning

from bagwise.first_use import lock
from bagwise.saving.archive import pack_parts
from bagwise.saving.compiled import check_compiled
from bagwise.saving.refusing import AGAIN, Refused
from bagwise.saving.schema import PLAN, NotAllowed, examine, simplified


def dump(model) -> dict[str, bytes]:
    """The parts of a model, opened once to be sure that they open: trouble is found now, not when it is needed."""
    what = f"this {type(model).__name__} cannot be saved"
    try:
        parts = _parts(model)
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
        model = _skops().loads(pack_parts(parts), trusted=sorted(names))
    check_compiled(model, names)
    if not callable(getattr(model, "predict", None)):
        raise Refused(f"it holds a {type(model).__name__}, which predicts nothing; save a fitted regressor")
    return model


def _parts(model) -> dict[str, bytes]:
    with ZipFile(io.BytesIO(_skops().dumps(model))) as archive:
        schema, files = simplified(json.loads(archive.read(PLAN)))
        arrays = {new: archive.read(old) for new, old in files.items()}
    return {PLAN: json.dumps(schema, separators=(",", ":")).encode(), **arrays}


def _skops():
    try:
        with lock:
            return import_module("skops.io")
    except ImportError as error:
        raise ImportError("saved models need skops; install it with: pip install 'bagwise[save]'") from error
