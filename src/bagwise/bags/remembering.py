"""Which columns an estimator was fitted on, and whether new bags have the same."""

from __future__ import annotations

import numpy as np

from bagwise.bags.container import Bags
from bagwise.bags.frames import differences
from bagwise.bags.reach import remember_ranges


def remember_columns(estimator, bags: Bags) -> None:
    """Note on the estimator which features it is fitted on, as scikit-learn does, and the range of their values."""
    estimator.n_features_in_ = bags.n_features
    estimator.n_covariates_in_ = 0 if bags.covariates is None else bags.covariates.shape[1]
    _remember_names(estimator, "feature_names_in_", bags.feature_names)
    _remember_names(estimator, "covariate_names_in_", bags.covariate_names)
    remember_ranges(estimator, bags)


def _remember_names(estimator, attribute: str, names) -> None:
    if names is not None:
        setattr(estimator, attribute, np.array(names, dtype=object))
    elif hasattr(estimator, attribute):
        delattr(estimator, attribute)


def compare_columns(bags: Bags, fitted) -> None:
    """Refuse bags whose features or covariates are not those that the estimator remembers."""
    if not hasattr(fitted, "n_features_in_"):
        from sklearn.exceptions import NotFittedError  # here, for scikit-learn imports pandas: loading stays light

        raise NotFittedError(f"this {type(fitted).__name__} is not fitted yet; call fit(bags, y) first")
    known = getattr(fitted, "feature_names_in_", None)
    if known is not None and bags.feature_names is not None:
        _refuse_other_names(list(bags.feature_names), [str(name) for name in known])
    _check_covariates(bags, fitted)
    if bags.n_features != fitted.n_features_in_:
        raise ValueError(
            f"bags have {bags.n_features} features, but {type(fitted).__name__} was fitted on {fitted.n_features_in_}"
        )


def _check_covariates(bags: Bags, fitted) -> None:
    n, wanted = (0 if bags.covariates is None else bags.covariates.shape[1]), fitted.n_covariates_in_
    known = getattr(fitted, "covariate_names_in_", None)
    named = "" if known is None else f" ({', '.join(map(str, known[:5]))})"
    if n != wanted:
        raise ValueError(
            f"bags have {n} covariates, but {type(fitted).__name__} was fitted on {wanted}{named}; load with "
            "bag_features= the same columns, or use bags.with_covariates(values, names)"
        )
    if known is not None and bags.covariate_names is not None and list(bags.covariate_names) != [str(n) for n in known]:
        raise ValueError(
            f"the covariates are {', '.join(bags.covariate_names[:5])}, but {type(fitted).__name__} was fitted on "
            f"{', '.join(map(str, known[:5]))}, in that order"
        )


def _refuse_other_names(names: list[str], known: list[str]) -> None:
    if names == known:
        return
    other = differences(names, known)
    what = f"differ from those at fit ({other})"
    if not other:
        what = f"are in another order than at fit ({', '.join(known[:3])}, ...)"
    raise ValueError(
        f"the features {what}; load with features=list(estimator.feature_names_in_), or select those columns of your "
        "data frames, to have the same"
    )
