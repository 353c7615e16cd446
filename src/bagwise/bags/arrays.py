"""Build bags from arrays in memory: a list of tables, a padded array, an awkward array."""

from __future__ import annotations

import numpy as np

from bagwise.bags.container import Bags
from bagwise.bags.frames import differences, unframe
from bagwise.bags.validation import as_names, label, unmask


def from_arrays(
    arrays,
    *,
    ids=None,
    groups=None,
    feature_names=None,
    missing="refuse",
    weights=None,
    covariates=None,
    covariate_names=None,
) -> Bags:
    """Build bags from a list of 2-D arrays or data frames, one per bag (a 1-D array is a bag of scalars).

    Data frames need the same columns in the same order; their names become the feature names.

    Parameters
    ----------
    arrays : list of arrays (instances, features), or of data frames
    ids, groups : one label per bag, optional
        Ids are 0, 1, 2, ... by default. Bags of one group stay together in every split.
    feature_names : list of str, optional
    missing : {"refuse", "impute", "keep"}
        Whether missing values (NaN) raise an error, are imputed by every estimator, or are kept.
    weights : list of arrays, optional
        The weights of each bag's instances.
    covariates : array (bags, covariates) or data frame, optional
        Numbers that describe the bag.
    covariate_names : list of str, optional

    Returns
    -------
    Bags

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bw.from_arrays([np.ones((3, 2)), np.zeros((1, 2))])
    Bags: 2 bags of 1 to 3 instances (4 in all), 2 features
    """
    arrays = list(arrays)
    if not arrays:
        raise ValueError("the list of bags is empty")
    ids = list(range(len(arrays))) if ids is None else list(ids)
    if len(ids) != len(arrays):
        raise ValueError(f"ids must have one entry per bag ({len(arrays)}), not {len(ids)}")
    bare = [unframe(array, f"bag {label(bag)}") for bag, array in zip(ids, arrays, strict=True)]
    columns = _same_columns(ids, [names for _, names in bare])
    arrays = [unmask(array) for array, _ in bare]
    arrays = [array[:, None] if array.ndim == 1 else array for array in arrays]
    for bag, array in zip(ids, arrays, strict=True):
        if array.ndim != 2:
            raise ValueError(
                f"bag {label(bag)} is an array of {array.ndim} dimensions; every bag must be (instances, features)"
            )
        if len(array) == 0:
            raise ValueError(
                f"bag {label(bag)} has no instances; every bag needs at least one: leave it out, with its target"
            )
        if array.shape[1] != arrays[0].shape[1]:
            raise ValueError(
                f"bag {label(bag)} has {array.shape[1]} features, "
                f"but bag {label(ids[0])} has {arrays[0].shape[1]}; all bags need the same"
            )
    if weights is not None:
        weights = [np.atleast_1d(unmask(of_bag)) for of_bag in weights]
        if len(weights) != len(arrays):
            raise ValueError(f"weights must have one list per bag ({len(arrays)}), not {len(weights)}")
        for bag, of_bag, array in zip(ids, weights, arrays, strict=True):
            if of_bag.shape != (len(array),):
                raise ValueError(f"bag {label(bag)} has {len(array)} instances, but weights of shape {of_bag.shape}")
        weights = np.concatenate(weights)
    return Bags(
        np.concatenate(arrays),
        np.concatenate([[0], np.cumsum([len(array) for array in arrays])]),
        ids,
        groups=groups,
        feature_names=as_names(feature_names, columns, arrays[0].shape[1]),
        missing=missing,
        weights=weights,
        covariates=covariates,
        covariate_names=covariate_names,
    )


def _same_columns(ids: list, columns: list) -> list | None:
    """Return the columns of the data frames, which must all be the same; None if there are no data frames."""
    framed = [(bag, names) for bag, names in zip(ids, columns, strict=True) if names is not None]
    for bag, names in framed:
        first, first_names = framed[0]
        if names != first_names:
            raise ValueError(
                f"bag {label(bag)} has other columns than bag {label(first)} ({differences(names, first_names)}); "
                "select the same columns, in the same order, of every data frame"
            )
    return framed[0][1] if framed else None


def as_bags(bags, *, missing: str = "refuse") -> Bags:
    """Convert a list of arrays or data frames, one per bag, as passed to ``fit`` or ``predict``, to `Bags`."""
    if isinstance(bags, np.ndarray) and bags.ndim == 3:
        raise ValueError("a padded 3-D array does not say how long each bag is; use bagwise.from_padded(array, sizes)")
    if isinstance(bags, np.ndarray) and bags.ndim == 2:
        raise TypeError(
            "a 2-D array does not say which rows belong together; "
            "use bagwise.load(frame, bag=...) or bagwise.Bags(instances, offsets)"
        )
    if isinstance(bags, list | tuple) or (isinstance(bags, np.ndarray) and bags.dtype == object):
        return from_arrays(bags, missing=missing)
    raise TypeError(
        f"expected Bags, not {type(bags).__name__}; build them with bagwise.load(frame, bag=..., target=...)"
    )


def from_padded(array, sizes, *, ids=None, groups=None, feature_names=None, missing="refuse") -> Bags:
    """Build bags from a padded array (bags, longest bag, features) and the number of instances in each bag.

    Parameters
    ----------
    array : array (bags, longest bag, features)
    sizes : array of int
        Number of instances of each bag; the padding rows after them are not read.
    ids, groups : one label per bag, optional
        Ids are 0, 1, 2, ... by default. Bags of one group stay together in every split.
    feature_names : list of str, optional
    missing : {"refuse", "impute", "keep"}
        Whether missing values (NaN) raise an error, are imputed by every estimator, or are kept.

    Returns
    -------
    Bags

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bw.from_padded(np.zeros((2, 5, 3)), sizes=[5, 2])
    Bags: 2 bags of 2 to 5 instances (7 in all), 3 features
    """
    flat, offsets = unpad(array, sizes)
    return Bags(flat, offsets, ids, groups=groups, feature_names=feature_names, missing=missing)


def unpad(array, sizes) -> tuple[np.ndarray, np.ndarray]:
    """Return the real rows of a padded array, bag after bag, and their offsets."""
    array = unmask(array)
    if array.ndim != 3:
        raise ValueError(f"a padded array has 3 dimensions (bags, instances, features), not {array.ndim}")
    if len(array) == 0:
        raise ValueError("the padded array holds no bags")
    if sizes is None:
        raise ValueError("a padded array needs sizes: the number of real instances in each bag")
    sizes = np.asarray(sizes)
    if sizes.shape != (len(array),) or sizes.dtype.kind not in "iu":
        raise ValueError(f"sizes must be one integer per bag ({len(array)})")
    if sizes.min() < 0 or sizes.max() > array.shape[1]:
        raise ValueError(f"sizes must lie between 1 and the padded length {array.shape[1]}")
    real = np.arange(array.shape[1]) < sizes[:, None]
    return array[real], np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


def from_awkward(array, *, ids=None, groups=None, feature_names=None, missing="refuse") -> Bags:
    """Build bags from an awkward array of ``bags * var * features * number``, or of records with a field per feature.

    Parameters
    ----------
    array : awkward array
    ids, groups : one label per bag, optional
        Ids are 0, 1, 2, ... by default. Bags of one group stay together in every split.
    feature_names : list of str, optional
    missing : {"refuse", "impute", "keep"}
        Whether missing values (NaN) raise an error, are imputed by every estimator, or are kept.

    Returns
    -------
    Bags

    Examples
    --------
    >>> import awkward, bagwise as bw
    >>> bw.from_awkward(awkward.Array([[{"x": 1.0, "y": 2.0}], [{"x": 3.0, "y": 4.0}, {"x": 5.0, "y": 6.0}]]))
    Bags: 2 bags of 1 to 2 instances (3 in all), 2 features
    """
    try:
        import awkward
    except ImportError as error:
        raise ImportError("from_awkward needs the package awkward: pip install awkward") from error
    if array.ndim < 2 or awkward.any(awkward.is_none(array, axis=0)):
        raise ValueError(f"every bag must be a list of instances; this array has the type {array.type}")
    sizes = awkward.to_numpy(awkward.num(array, axis=1))
    flat = awkward.flatten(array, axis=1)
    try:
        if flat.fields:
            feature_names = flat.fields if feature_names is None else feature_names
            flat = np.column_stack([unmask(awkward.to_numpy(flat[field])) for field in flat.fields])
        else:
            flat = awkward.to_numpy(flat)
    except ValueError as error:
        raise ValueError(
            f"every instance must have the same number of features; this array has the type {array.type}"
        ) from error
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return Bags(flat, offsets, ids, groups=groups, feature_names=feature_names, missing=missing)
