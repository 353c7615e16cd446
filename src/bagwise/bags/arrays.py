"""Bags from arrays a user holds in memory: a list of tables, a padded block, an awkward array."""

from __future__ import annotations

import numpy as np

from bagwise.bags.container import Bags


def from_arrays(arrays, *, ids=None, groups=None, feature_names=None, missing="refuse") -> Bags:
    """Bags from a list of 2-D arrays, one per bag (a 1-D array is a bag of scalars).

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bw.from_arrays([np.ones((3, 2)), np.zeros((1, 2))])
    Bags: 2 bags of 1 to 3 instances (4 in all), 2 features
    """
    arrays = [np.asarray(array) for array in arrays]
    if not arrays:
        raise ValueError("the list of bags is empty")
    names = list(range(len(arrays))) if ids is None else list(ids)
    if len(names) != len(arrays):
        raise ValueError(f"ids must have one entry per bag ({len(arrays)}), not {len(names)}")
    arrays = [array[:, None] if array.ndim == 1 else array for array in arrays]
    for name, array in zip(names, arrays, strict=True):
        if array.ndim != 2:
            raise ValueError(f"bag {name!r} is an array of {array.ndim} dimensions; every bag must be (instances, features)")
        if array.shape[1] != arrays[0].shape[1]:
            raise ValueError(
                f"bag {name!r} has {array.shape[1]} features, but bag {names[0]!r} has {arrays[0].shape[1]}"
            )
        if len(array) == 0:
            raise ValueError(
                f"bag {name!r} has no instances; every bag needs at least one: leave it out, with its target"
            )
    offsets = np.concatenate([[0], np.cumsum([len(array) for array in arrays])])
    return Bags(
        np.concatenate(arrays), offsets, ids, groups=groups, feature_names=feature_names, missing=missing
    )


def from_padded(array, sizes, *, ids=None, groups=None, feature_names=None, missing="refuse") -> Bags:
    """Bags from a padded array (bags, longest bag, features) and the number of real instances in each bag.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bw.from_padded(np.zeros((2, 5, 3)), sizes=[5, 2])
    Bags: 2 bags of 2 to 5 instances (7 in all), 3 features
    """
    array = np.asarray(array)
    if array.ndim != 3:
        raise ValueError(f"a padded array has 3 dimensions (bags, instances, features), not {array.ndim}")
    if sizes is None:
        raise ValueError("a padded array needs sizes: the number of real instances in each bag")
    sizes = np.asarray(sizes)
    if sizes.shape != (len(array),) or sizes.dtype.kind not in "iu":
        raise ValueError(f"sizes must be one integer per bag ({len(array)})")
    if sizes.min() < 0 or sizes.max() > array.shape[1]:
        raise ValueError(f"sizes must lie between 1 and the padded length {array.shape[1]}")
    real = np.arange(array.shape[1]) < sizes[:, None]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return Bags(array[real], offsets, ids, groups=groups, feature_names=feature_names, missing=missing)


def from_awkward(array, *, ids=None, groups=None, feature_names=None, missing="refuse") -> Bags:
    """Bags from an awkward array of type ``bags * var * features * number``."""
    try:
        import awkward
    except ImportError as error:
        raise ImportError("from_awkward needs the package awkward: pip install awkward") from error
    sizes = awkward.to_numpy(awkward.num(array, axis=1))
    flat = awkward.to_numpy(awkward.flatten(array, axis=1))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return Bags(flat, offsets, ids, groups=groups, feature_names=feature_names, missing=missing)
