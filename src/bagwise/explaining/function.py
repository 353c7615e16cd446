"""The learned function: what a head makes of an instance prediction, at values where instances lie."""

from __future__ import annotations

import numpy as np

from bagwise.bags import Bags, from_arrays

MOST = [0.002, 0.998]  # the share of the instances between the ends of the grid


def function_on_grid(head, predictions: Bags, *, points: int) -> tuple[np.ndarray, np.ndarray]:
    """h on a grid over instance predictions: what a bag of that one instance and of mean covariates is predicted.

    Parameters
    ----------
    head : fitted last step of a method such as instance-kme, ``model[-1]``
    predictions : Bags of one column, ``model[:-1].transform(bags)``
    points : int

    Returns
    -------
    grid, h : arrays (points,)

    Examples
    --------
    >>> import bagwise as bw
    >>> from bagwise.regressors import PoolPredictions
    >>> bags = bw.from_arrays([np.array([0.0, 1.0]), np.array([2.0])])
    >>> grid, h = function_on_grid(PoolPredictions().fit(bags, [0.5, 2.0]), bags, points=3)
    >>> bool((grid == h).all())
    True
    """
    grid = np.linspace(*np.quantile(predictions.instances[:, 0], MOST), points)
    alone = from_arrays(list(grid[:, None]))
    if predictions.covariates is not None:
        mean = np.tile(predictions.covariates.mean(axis=0), (points, 1))
        alone = alone.with_covariates(mean, predictions.covariate_names)
    return grid, head.predict(alone)
