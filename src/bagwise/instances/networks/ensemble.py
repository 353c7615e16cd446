"""Trained networks as plain arrays, and what they predict.

Where the weights of a network lie: all of them in one flat vector, padded to whole processor vectors.

The compiled kernels, when first needed: importing bagwise stays quick, and the one long wait is explained.
"""

from __future__ import annotations

import sys

import numpy as np
from joblib import Parallel, cpu_count, delayed, effective_n_jobs
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_array

from bagwise.first_use import once

# Columns of the table of layers: true sizes, padded sizes, and where things start in the flat vectors.
INPUTS, UNITS, ROWS, COLUMNS, WEIGHT_AT, BIAS_AT, SPACE_AT = range(7)
_PADDING = 16  # the same on every machine, so that a saved network can be loaded on another


def layout(sizes) -> np.ndarray:
    """Where every layer lies in the flat vector of parameters, a row per layer: all weights first, then all biases.

    The last layer has one output, which is not padded.
    """
    inputs, units = np.asarray(sizes[:-1]), np.asarray(sizes[1:])
    plan = np.zeros((len(inputs), 7), dtype=np.int64)
    plan[:, INPUTS], plan[:, UNITS] = inputs, units
    plan[:, ROWS], plan[:, COLUMNS] = _pad(inputs), _pad(units)
    plan[-1, COLUMNS] = 1
    weights = plan[:, ROWS] * plan[:, COLUMNS]
    plan[:, WEIGHT_AT] = np.cumsum(weights) - weights
    plan[:, BIAS_AT] = weights.sum() + np.cumsum(plan[:, COLUMNS]) - plan[:, COLUMNS]
    plan[:, SPACE_AT] = np.cumsum(plan[:, ROWS]) - plan[:, ROWS]
    return plan


def _pad(sizes: np.ndarray) -> np.ndarray:
    return -(-sizes // _PADDING) * _PADDING


def layers(parameters: np.ndarray, plan: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weights (inputs, units) and biases (units) of every layer: views of the flat vector, without the padding."""
    views = []
    for n, m, rows, columns, weight, bias, _ in plan:
        W = parameters[weight : weight + rows * columns].reshape(rows, columns)
        views.append((W[:n, :m], parameters[bias : bias + m]))
    return views


@once
def kernels(dtype: np.dtype):
    """The module `network_kernels`, compiled for data of this dtype or loaded from numba's cache on disk."""
    from numba.core import event

    from bagwise.instances.networks import numba_kernels

    class Announce(event.Listener):
        """Say once that compiling has begun; numba tells so only when its cache has nothing."""

        said = False

        def on_start(self, _):
            if not self.said:
                print("bagwise: compiling the network kernels, once (about 10 s) ...", file=sys.stderr, flush=True)
            self.said = True

        def on_end(self, _):
            pass

    with event.install_listener("numba:compile", Announce()):
        numba_kernels.compile_for(dtype)
    return numba_kernels


def frozen(array) -> np.ndarray:
    """A read-only view: one compiled version serves arrays that can be written, that cannot, and that are on disk."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


_BLOCK = 4096  # rows predicted as one job


class NetworkEnsemble(RegressorMixin, BaseEstimator):
    r"""The average of trained networks of one shape, each with its own scaling.

    .. math:: f(x) = \frac{1}{S} \sum_s \mu_s + \sigma_s \, g_s\big((x - a_s) \odot b_s\big)

    Made by `NetworkRegressor`, not by hand. All state is in the constructor's arguments: a tuple and plain arrays.

    Parameters
    ----------
    sizes : tuple of int
        Features, units of every hidden layer, and 1.
    parameters : float32 array (networks, parameters)
        A flat vector per network, arranged and padded by `layout`.
    x_shift, x_factor : array (networks, features)
    y_shift, y_scale : array (networks,)
    n_jobs : int, optional
        Blocks of rows predicted at once; the numbers do not depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.instances.networks.estimator import NetworkRegressor
    >>> X = np.linspace(-1, 1, 60)[:, None]
    >>> fits = NetworkRegressor(hidden=(8,), epochs=20).cross_fit(X, X[:, 0] ** 2, fold=np.arange(60) % 3)
    >>> ensemble = fits.predictor(0, "fold-mean")
    >>> ensemble
    NetworkEnsemble(3 networks, 1-8-1)
    >>> np.allclose(ensemble.predict(X), np.mean([ensemble[s].predict(X) for s in range(3)], axis=0))
    True
    """

    def __init__(self, sizes, parameters, x_shift, x_factor, y_shift, y_scale, *, n_jobs=None):
        self.sizes = sizes
        self.parameters = parameters
        self.x_shift = x_shift
        self.x_factor = x_factor
        self.y_shift = y_shift
        self.y_scale = y_scale
        self.n_jobs = n_jobs

    def __len__(self) -> int:
        return len(self.parameters)

    def __getitem__(self, index) -> NetworkEnsemble:
        """Some of the networks: ``ensemble[0]``, ``ensemble[2:5]``."""
        pick = np.atleast_1d(np.arange(len(self))[index])
        arrays = (self.parameters, self.x_shift, self.x_factor, self.y_shift, self.y_scale)
        return NetworkEnsemble(self.sizes, *(array[pick] for array in arrays), n_jobs=self.n_jobs)

    @classmethod
    def joined(cls, parts) -> NetworkEnsemble:
        """All networks of several ensembles of the same shape."""
        names = ("parameters", "x_shift", "x_factor", "y_shift", "y_scale")
        arrays = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
        return cls(parts[0].sizes, *arrays, n_jobs=parts[0].n_jobs)

    def __repr__(self) -> str:
        plural = "" if len(self) == 1 else "s"
        return f"NetworkEnsemble({len(self)} network{plural}, {'-'.join(map(str, self.sizes))})"

    def __sklearn_is_fitted__(self) -> bool:
        return True

    @property
    def n_features_in_(self) -> int:
        return self.sizes[0]

    def predict(self, X) -> np.ndarray:
        """The average of the networks' predictions, one number per row."""
        X = check_array(X, dtype=[np.float64, np.float32], order="C")
        if X.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {X.shape[1]} features, but these networks were trained on {self.n_features_in_}")
        return self.predict_checked(X)

    def predict_checked(self, X: np.ndarray) -> np.ndarray:
        """`predict` of finite, contiguous rows with the right number of columns."""
        blocks = [np.arange(start, min(start + _BLOCK, len(X))) for start in range(0, len(X), _BLOCK)]
        n_jobs = min(effective_n_jobs(self.n_jobs), cpu_count(), len(blocks))  # on a cluster, its cores are not ours
        kernels(X.dtype)  # compiled or loaded here, before there are threads
        run = Parallel(n_jobs=n_jobs, require="sharedmem")
        return np.concatenate(run(delayed(self._mean)(X, rows) for rows in blocks))

    def _mean(self, X, rows):
        return self.predict_each(X, rows).mean(axis=1)

    def predict_each(self, X: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The prediction of every network for some rows of X, shape (rows, networks)."""
        scaling = (self.x_shift, self.x_factor, self.y_shift, self.y_scale)
        state = (X, rows, *scaling, layout(self.sizes), self.parameters)
        predictions = np.empty((len(rows), len(self)))
        kernels(X.dtype).predict_rows(*map(frozen, state), predictions)
        return predictions
