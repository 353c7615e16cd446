"""A small model file, and changes to it with recomputed checksums, as an attacker would make."""

from __future__ import annotations

import io
import json
from functools import cache

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from bagwise.embeddings import Pool
from bagwise.model_files import load_model
from bagwise.model_files.archive import pack, unpack
from bagwise.model_files.model_file import dump, versions
from bagwise.regressors.pipeline import BagPipeline
from bagwise.testing.contract_checks import sample


def refused(data: bytes, words: str, tmp_path) -> None:
    """Check that a file with this content is refused in one line."""
    (tmp_path / "m").write_bytes(data)
    with pytest.raises(ValueError, match=words) as caught:
        load_model(tmp_path / "m")
    assert "\n" not in str(caught.value)


def small_model(head=None):
    bags, y = sample(feature_names=["a", "b", "c"])
    return BagPipeline([("rows", Pool()), ("head", Ridge() if head is None else head)]).fit(bags, y)


def file_of(model) -> bytes:
    """Return the content of a file of the model."""
    return pack({"versions": versions()}, dump(model))


@cache
def small_file() -> bytes:
    return file_of(small_model())


def resealed(data: bytes, change) -> bytes:
    """Return the file after ``change(plan, arrays)``, with a valid checksum."""
    header, parts = unpack(io.BytesIO(data))
    plan = json.loads(parts.pop("schema.json"))
    plan = change(plan, parts) or plan
    return pack(header, {"schema.json": json.dumps(plan).encode(), **parts})


def head_of(plan: dict) -> dict:
    """Return the state, name -> node, of the last step of the small model."""
    return steps_of(plan)[-1]["content"][1]["content"]["content"]


def put_into_head(plan: dict, state: dict) -> None:
    """Add attributes to the last step of the small model."""
    head_of(plan).update(state)


def steps_of(plan: dict) -> list:
    return plan["content"]["content"]["steps"]["content"]


def find(plan, name: str):
    """Return the node of a class in a plan, or None."""
    inner = list(plan.values()) if isinstance(plan, dict) else plan if isinstance(plan, list) else []
    if isinstance(plan, dict) and plan.get("__class__") == name:
        return plan
    return next((found for one in inner if (found := find(one, name)) is not None), None)


def node(loader: str, name: str, **rest) -> dict:
    module, _, kind = name.rpartition(".")
    return {"__class__": kind, "__module__": module, "__loader__": loader, **rest}


def state(attributes: dict) -> dict:
    """Return the node of a dictionary with string keys."""
    return node("DictNode", "builtins.dict", content=attributes)


def as_npy(array) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()
