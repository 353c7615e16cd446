"""How attention networks are trained: the parameters, checked, with seed and device settled."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real

from sklearn.utils import check_random_state


def _is_count(value) -> bool:
    return isinstance(value, Integral) and value > 0


def _are_counts(values) -> bool:
    return isinstance(values, tuple | list) and all(map(_is_count, values))


COUNT = (_is_count, "a whole number above zero")
RULES = {
    "read": (lambda v: _are_counts(v) and len(v) > 0, "a tuple of whole numbers above zero"),
    "head": (_are_counts, "a tuple of whole numbers above zero, or ()"),
    "pooling": (lambda v: v in ("set", "gated"), "'set' or 'gated'"),
    "moments": (lambda v: isinstance(v, Integral) and v >= 0, "a whole number, 0 for none"),
    **dict.fromkeys(("looks", "epochs", "patience", "batch_size", "restarts"), COUNT),
    "learning_rate": (lambda v: isinstance(v, Real) and 0 < v < float("inf"), "a number above zero"),
    "weight_decay": (lambda v: isinstance(v, Real) and 0 <= v < float("inf"), "a number, 0 for none"),
    "validation_fraction": (lambda v: isinstance(v, Real) and 0 < v <= 0.5, "above 0 and at most 0.5"),
    "precision": (lambda v: v in ("float32", "bfloat16"), "'float32' or 'bfloat16'"),
    "keep": (lambda v: isinstance(v, Real) and 0 <= v <= 1, "from 0 to 1"),
}


@dataclass(frozen=True)
class Recipe:
    """What training needs to know; epochs are passes over the bags, patience is in epochs."""

    epochs: int
    patience: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    precision: str
    seed: int
    device: str

    @classmethod
    def of(cls, estimator) -> Recipe:
        """Of an `AttentionRegressor`; every parameter of it is checked."""
        for name, (holds, words) in RULES.items():
            value = getattr(estimator, name)
            if not holds(value):
                raise ValueError(f"{name} must be {words}, not {value!r}")
        same = ("epochs", "patience", "batch_size", "learning_rate", "weight_decay", "precision")
        settings = {name: getattr(estimator, name) for name in same}
        return cls(**settings, seed=_seed(estimator.random_state), device=_device(estimator.device))


def _seed(random_state) -> int:
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def _device(device: str) -> str:
    import torch

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return str(torch.device(device))
