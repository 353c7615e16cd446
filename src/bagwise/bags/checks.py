"""The two checks at the door: what came becomes one `Bags` and finite targets, and is never checked again."""

from __future__ import annotations

import numpy as np

from bagwise.bags.arrays import from_arrays
from bagwise.bags.container import Bags
from bagwise.bags.naming import name_bags
from bagwise.bags.parts import bags_of


def check_bags(bags, *, fitted=None, allow_missing: bool = False) -> Bags:
    """Turn what a user passed into `Bags`, and compare its columns with those an estimator was fitted on.

    Parameters
    ----------
    bags : Bags, or a list of 2-D arrays (one per bag)
    fitted : estimator, optional
        A fitted estimator that called `remember_columns`; the same features are then required, in their order.
    allow_missing : bool
        Whether NaN (kept on loading) may pass.
    """
    if not isinstance(bags, Bags):
        bags = _coerce(bags)
    if bags.has_missing and not allow_missing:
        marked = bags_of(np.isnan(bags.instances).any(axis=1), bags.offsets)
        raise ValueError(
            f"{name_bags(bags.ids, marked)} missing feature values (NaN), which this method does not take; "
            "fill them in, or load with missing='drop-instances'"
        )
    if fitted is not None:
        _check_columns(bags, fitted)
    return bags


def check_targets(y, bags: Bags) -> np.ndarray:
    """One finite number per bag, as float64."""
    if y is None:
        raise ValueError("targets are missing: call fit(bags, y) with one number per bag")
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise ValueError(f"y must be one number per bag, not an array of shape {y.shape}")
    if len(y) != len(bags):
        hint = ", one per instance; give one per bag" if len(y) == bags.n_instances else ""
        raise ValueError(f"y has {len(y)} values for {len(bags)} bags{hint}")
    if y.dtype.kind not in "fiub":
        raise TypeError(f"y must be numbers, not {y.dtype}")
    y = y.astype(np.float64)
    unknown = ~np.isfinite(y)
    if unknown.any():
        raise ValueError(f"{name_bags(bags.ids, unknown)} a missing or infinite target; drop such bags before fitting")
    return y


def check_fit(bags, y, *, allow_missing: bool = False) -> tuple[Bags, np.ndarray]:
    """Both checks, and at least two bags: nothing can be learned from one."""
    bags = check_bags(bags, allow_missing=allow_missing)
    y = check_targets(y, bags)
    if len(bags) < 2:
        raise ValueError("one bag is not enough to learn from; fit needs at least two")
    return bags, y


def check_weights(sample_weight, bags: Bags) -> np.ndarray | None:
    """One non-negative finite weight per bag, or None."""
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (len(bags),):
        raise ValueError(f"sample_weight must have one entry per bag ({len(bags)}), not shape {weights.shape}")
    if not np.isfinite(weights).all() or (weights < 0).any() or not (weights > 0).any():
        raise ValueError("sample_weight must be finite and not negative, with at least one above zero")
    return weights


def remember_columns(estimator, bags: Bags) -> None:
    """Note on the estimator which features it is fitted on, as scikit-learn does."""
    estimator.n_features_in_ = bags.n_features
    if bags.feature_names is not None:
        estimator.feature_names_in_ = np.array(bags.feature_names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def _check_columns(bags: Bags, fitted) -> None:
    if not hasattr(fitted, "n_features_in_"):
        from sklearn.exceptions import NotFittedError  # here, for scikit-learn imports pandas: loading stays light

        raise NotFittedError(f"this {type(fitted).__name__} is not fitted yet; call fit(bags, y) first")
    known = getattr(fitted, "feature_names_in_", None)
    if known is not None and bags.feature_names is not None:
        _refuse_other_names(list(bags.feature_names), [str(name) for name in known])
    if bags.n_features != fitted.n_features_in_:
        raise ValueError(
            f"bags have {bags.n_features} features, but {type(fitted).__name__} was fitted on {fitted.n_features_in_}"
        )


def _refuse_other_names(names: list[str], known: list[str]) -> None:
    if names == known:
        return
    lost, added = set(known) - set(names), set(names) - set(known)
    lacks = [f"missing: {', '.join(sorted(lost)[:5])}"] if lost else []
    adds = [f"new: {', '.join(sorted(added)[:5])}"] if added else []
    what = f"differ from those at fit ({'; '.join(lacks + adds)})"
    if not (lost or added):
        what = f"are in another order than at fit ({', '.join(known[:3])}, ...)"
    raise ValueError(f"the features {what}; load with features=list(estimator.feature_names_in_) to have the same")


def _coerce(bags) -> Bags:
    if isinstance(bags, np.ndarray) and bags.ndim == 3:
        raise ValueError("a padded 3-D array does not say how long each bag is; use bagwise.from_padded(array, sizes)")
    if isinstance(bags, np.ndarray) and bags.ndim == 2:
        raise TypeError(
            "a 2-D array does not say which rows belong together; "
            "use bagwise.load(frame, bag=...) or bagwise.Bags(instances, offsets)"
        )
    if isinstance(bags, list | tuple) or (isinstance(bags, np.ndarray) and bags.dtype == object):
        return from_arrays(bags)
    raise TypeError(
        f"expected Bags, not {type(bags).__name__}; build them with bagwise.load(frame, bag=..., target=...)"
    )
