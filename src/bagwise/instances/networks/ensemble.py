"""Networks as plain arrays: what they are trained on, their training on the CPU, and what they predict.

All weights of a network lie in one flat vector, padded to whole processor vectors (`layout`). `Problem` holds the rows,
the folds and each network's scaling, the same for every engine; `train_networks` trains one network per core, each on
all rows but those of its fold; `NetworkEnsemble` predicts. The compiled kernels are loaded when first needed: importing
bagwise stays quick, and the one long wait is explained.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass

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
    """The module `numba_kernels`, compiled for data of this dtype or loaded from numba's cache on disk."""
    with announced():
        from bagwise.instances.networks import numba_kernels

        numba_kernels.compile_for(dtype)
    return numba_kernels


@contextmanager
def announced():
    """Say once that compiling has begun; numba tells so only when its cache has nothing."""
    from numba.core import event

    class Announce(event.Listener):
        said = False

        def on_start(self, _):
            if not self.said:
                print("bagwise: compiling the network kernels, once (about 10 s) ...", file=sys.stderr, flush=True)
            self.said = True

        def on_end(self, _):
            pass

    with event.install_listener("numba:compile", Announce()):
        yield


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


LEAST = 0.1  # weight of a batch, per row: one of next to nothing must not be a step like any other


@dataclass(frozen=True)
class Recipe:
    """How a network is trained. Its weights are kept after each number of epochs in ``epochs``, which increases."""

    hidden: tuple[int, ...]
    epochs: tuple[int, ...]
    batch_size: int | None  # None: by the number of rows
    learning_rate: float
    weight_decay: float
    standardise: bool
    scale_target: bool
    seed: int

    def batch(self, n_rows: int) -> int:
        """Rows per step, of a network that learns from so many."""
        return min(self.batch_size or int(np.clip(n_rows // 64, 16, 200)), n_rows)


@dataclass(frozen=True)
class Trained:
    """One network after every number of epochs asked for, and what each of them says of the rows held out."""

    networks: NetworkEnsemble
    rows: np.ndarray
    predictions: np.ndarray


@dataclass(frozen=True)
class Problem:
    """Network k, for k < n_networks, learns from the rows with fold != k and weight > 0; `of` makes one.

    ``weight`` has mean one. ``x_shift``, ``x_scale`` (networks, features) and ``y_shift``, ``y_scale`` (networks,) are
    mean and deviation over each network's rows. Network k draws from ``[seed, k]``, whoever is trained beside it.
    """

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    fold: np.ndarray
    n_networks: int
    seed: int
    x_shift: np.ndarray
    x_scale: np.ndarray
    y_shift: np.ndarray
    y_scale: np.ndarray

    @classmethod
    def of(cls, X, y, weight, fold, recipe: Recipe, *, n_networks: int) -> Problem:
        weight = (weight / weight.mean()).astype(np.float32)
        used = np.flatnonzero(weight > 0)
        used = used[np.argsort(fold[used], kind="stable")]
        folds, starts = np.unique(fold[used], return_index=True)
        if len(folds) == 1 and folds[0] < n_networks:
            raise ValueError("nothing to learn from: all rows of weight above zero are in one fold")
        parts = dict(zip(folds.tolist(), np.split(used, starts[1:]), strict=True))
        x_moments = _moments(X, parts, n_networks, wanted=recipe.standardise)
        y_moments = _moments(y[:, None], parts, n_networks, wanted=recipe.scale_target)
        moments = (*x_moments, *(moment[:, 0] for moment in y_moments))
        return cls(X, y, weight, fold, n_networks, recipe.seed, *moments)

    def rows(self, k: int) -> np.ndarray:
        return np.flatnonzero((self.weight > 0) & (self.fold != k))

    def held(self, k: int) -> np.ndarray:
        return np.flatnonzero(self.fold == k)

    def ensemble(self, k: int, kept: np.ndarray, recipe: Recipe, n_jobs=None) -> NetworkEnsemble:
        """Network k after each number of epochs, of which ``kept`` holds the parameters."""
        shared = [np.tile(part, (len(kept), 1)) for part in (self.x_shift[k], inverse(self.x_scale[k]))]
        shared += [np.repeat(part, len(kept)) for part in (self.y_shift[k], self.y_scale[k])]
        return NetworkEnsemble((self.X.shape[1], *recipe.hidden, 1), kept, *shared, n_jobs=n_jobs)


def refuse_divergence(finite: bool, epoch: int, recipe: Recipe) -> None:
    if not finite:
        raise ValueError(
            f"training diverged in epoch {epoch + 1}: the loss is not finite; lower learning_rate, now "
            f"{recipe.learning_rate:g}" + ("" if recipe.scale_target else ", or train with scale_target=True")
        )


def initial_parameters(plan: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Weights and biases uniform within sqrt(6 / (inputs + units)), as scikit-learn draws them."""
    parameters = np.zeros(plan[-1, BIAS_AT] + 1, dtype=np.float32)
    for W, b in layers(parameters, plan):
        bound = np.sqrt(6 / sum(W.shape))
        W[:] = rng.uniform(-bound, bound, W.shape)
        b[:] = rng.uniform(-bound, bound, b.shape)
    return parameters


def inverse(scale):
    """One over the scale; 0 for a constant column, which teaches nothing, so its random weights must not count."""
    return np.divide(1, scale, out=np.zeros_like(scale), where=scale > 0)


def _moments(values, parts: dict[int, np.ndarray], n_networks: int, *, wanted: bool) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of every column over each network's training rows, (networks, columns).

    One pass: the moments of every fold (``parts``: fold -> rows) are merged over all folds but one. A constant column
    has standard deviation 0.
    """
    shape = (n_networks, values.shape[1])
    if not wanted:
        return np.zeros(shape), np.ones(shape)
    folds, counts = np.array(list(parts)), np.array([len(rows) for rows in parts.values()])
    means, squares = np.empty((2, len(folds), values.shape[1]))
    for j, rows in enumerate(parts.values()):
        part = values[rows]
        means[j] = part.mean(axis=0, dtype=np.float64)
        squares[j] = ((part - means[j]) ** 2).sum(axis=0)
    shift, scale = np.empty(shape), np.empty(shape)
    for k in range(n_networks):
        others = folds != k
        share = counts[others, None] / counts[others].sum()
        shift[k] = (share * means[others]).sum(axis=0)
        between = share * (means[others] - shift[k]) ** 2
        scale[k] = np.sqrt(between.sum(axis=0) + squares[others].sum(axis=0) / counts[others].sum())
    scale[scale <= 32 * np.finfo(np.float64).eps * np.abs(shift)] = 0
    return shift, scale


def train_networks(problem: Problem, recipe: Recipe, *, n_jobs=None) -> list[Trained]:
    """All networks of a problem.

    The arithmetic of a network is sequential and its random stream is its own, so ``n_jobs`` (how many threads, each
    training one network without the interpreter's lock) changes the time and nothing else. Nor does a backend of
    joblib's that somebody chose: processes, or the workers of a cluster.
    """
    kernels(problem.X.dtype)  # compiled or loaded here, before there are threads
    # effective_n_jobs: with None, joblib's context counts, also where it is about processes and we take threads
    run = Parallel(n_jobs=effective_n_jobs(n_jobs), prefer="threads")
    return run(delayed(_train)(problem, recipe, k, n_jobs) for k in range(problem.n_networks))


def _train(problem: Problem, recipe: Recipe, k: int, n_jobs) -> Trained:
    held = problem.held(k)
    networks = problem.ensemble(k, _train_one(problem, recipe, k), recipe, n_jobs)
    return Trained(networks, held, networks.predict_each(problem.X, held))


def _train_one(problem: Problem, recipe: Recipe, k: int) -> np.ndarray:
    """The parameters after each number of epochs asked for, shape (epochs, parameters)."""
    X, weight, rows = problem.X, problem.weight, problem.rows(k)
    compiled, rng = kernels(X.dtype), np.random.default_rng([problem.seed, k])
    plan = layout((X.shape[1], *recipe.hidden, 1))
    parameters = initial_parameters(plan, rng)
    memory = np.zeros((3, len(parameters)), dtype=np.float32)
    stream = rng.integers(2**64, size=1, dtype=np.uint64)
    batch = recipe.batch(len(rows))
    decay = recipe.weight_decay * float(weight[rows].mean())  # as if the weights of these rows had mean one
    scaling = (frozen(problem.x_shift[k]), frozen(inverse(problem.x_scale[k])))
    scaling += (problem.y_shift[k], float(inverse(problem.y_scale[[k]])[0]))
    data = (*map(frozen, (X, problem.y, weight, rows)), scaling)
    kept = []
    for epoch in range(recipe.epochs[-1]):
        compiled.shuffle(rows, stream)
        steps = epoch * -(-len(rows) // batch)
        model = (frozen(plan), parameters, memory)
        loss = compiled.train_epoch(*data, *model, batch, recipe.learning_rate, decay, steps)
        refuse_divergence(bool(np.isfinite(loss) and np.isfinite(parameters).all()), epoch, recipe)
        if epoch + 1 in recipe.epochs:
            kept.append(parameters.copy())
    return np.array(kept)
