"""Networks on the CPU: parameters as plain arrays, the problems they learn, training and prediction.

All weights of a network lie in one flat vector, padded with zeros to whole processor vectors (`layout`). `Problem`
holds the rows, the folds and the scaling of each network, for all engines. `train_networks` trains one network per
core, each on all rows except those of its fold. `NetworkEnsemble` predicts.

Training and prediction are compiled by numba (`simd`), which is imported when a kernel is first needed (`kernels`).
"""

from __future__ import annotations

import logging
import math
import time
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from joblib import Parallel, cpu_count, delayed, effective_n_jobs
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_array

from bagwise.first_use import once

# Weights as arrays ----------------------------------------------------------------------------------------------------

# Columns of the table of layers: true sizes, padded sizes, and where things start in the flat vectors.
INPUTS, UNITS, ROWS, COLUMNS, WEIGHT_AT, BIAS_AT, SPACE_AT = range(7)
_PADDING = 16  # a multiple of LANES, the same on every machine: a saved network can be loaded on another


def layout(sizes) -> np.ndarray:
    """Return the positions of the layers in the flat vector of parameters, a row per layer; weights precede biases.

    The single output of the last layer is not padded. The padding of other layers stays zero in training, so loops
    need no remainder.
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
    """Return views of the weights (inputs, units) and biases (units,) of each layer, without the padding."""
    views = []
    for n, m, rows, columns, weight, bias, _ in plan:
        W = parameters[weight : weight + rows * columns].reshape(rows, columns)
        views.append((W[:n, :m], parameters[bias : bias + m]))
    return views


# The compiler ---------------------------------------------------------------------------------------------------------

LINE = 16  # numbers in a cache line
LEAST = 0.1  # minimum weight of a batch, per row, so that a batch of almost no weight does not make a full step


@once
def load_simd():
    """Return the module `simd`, whose import loads numba."""
    from bagwise.instances.networks import simd

    return simd


@once
def kernels(dtype: np.dtype):
    """Return the module `simd` with its kernels compiled for this dtype, or loaded from numba's cache on disk."""
    with announced():
        load_simd().compile_for(dtype)
    return load_simd()


logger = logging.getLogger("bagwise")
spent = {"compiling": 0.0}  # seconds so far, subtracted when a fit is timed


@once
def announce_compilation() -> None:
    """Log a message, once per process, before kernels are compiled."""
    cached = type(load_simd().train_epoch._cache).__name__ != "NullCache"
    frequency = "once" if cached else "in each process: set NUMBA_CACHE_DIR to a writable folder to compile once"
    logger.warning("bagwise: compiling the network kernels (10 to 60 s), %s ...", frequency)


@contextmanager
def announced():
    """Log a message if numba compiles something in this context, and add the time to ``spent``."""
    started = time.perf_counter()
    from numba.core import event

    class Announce(event.Listener):
        def on_start(self, _):
            announce_compilation()

        def on_end(self, _):
            pass

    try:
        with event.install_listener("numba:compile", Announce()):
            yield
    finally:
        spent["compiling"] += time.perf_counter() - started


def frozen(array) -> np.ndarray:
    """Return a read-only view, so that one compiled version serves all arrays, those on disk included."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


# Prediction -----------------------------------------------------------------------------------------------------------

_BLOCK = 4096  # rows predicted as one job


class NetworkEnsemble(RegressorMixin, BaseEstimator):
    r"""Average of trained networks of one shape, each with its own scaling.

    .. math:: f(x) = \frac{1}{S} \sum_s \mu_s + \sigma_s \, g_s\big((x - a_s) \odot b_s\big)

    `NetworkRegressor` makes it. All state is in the arguments of the constructor: a tuple and plain arrays.

    Parameters
    ----------
    sizes : tuple of int
        Features, units of each hidden layer, and 1.
    parameters : float32 array (networks, parameters)
        A flat vector per network, arranged and padded by `layout`.
    x_shift, x_factor : array (networks, features)
        The inputs are (x - x_shift) * x_factor.
    y_shift, y_scale : array (networks,)
        The prediction is y_shift + y_scale * output.
    n_jobs : int, optional
        Number of threads that predict blocks of rows. Results do not depend on it.

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
        """Select networks: ``ensemble[0]``, ``ensemble[2:5]``."""
        pick = np.atleast_1d(np.arange(len(self))[index])
        arrays = (self.parameters, self.x_shift, self.x_factor, self.y_shift, self.y_scale)
        return NetworkEnsemble(self.sizes, *(array[pick] for array in arrays), n_jobs=self.n_jobs)

    @classmethod
    def joined(cls, parts) -> NetworkEnsemble:
        """Join ensembles of the same shape."""
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
        """Return the average of the networks' predictions for each row."""
        X = check_array(X, dtype=[np.float64, np.float32], order="C")
        if X.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {X.shape[1]} features, but these networks were trained on {self.n_features_in_}")
        return self.predict_checked(X)

    def predict_checked(self, X: np.ndarray) -> np.ndarray:
        """Predict finite, contiguous rows with the right number of columns."""
        blocks = [np.arange(start, min(start + _BLOCK, len(X))) for start in range(0, len(X), _BLOCK)]
        n_jobs = min(effective_n_jobs(self.n_jobs), cpu_count(), len(blocks))  # not the cores of a cluster
        kernels(X.dtype)  # compile or load before threads start
        run = Parallel(n_jobs=n_jobs, require="sharedmem")
        return np.concatenate(run(delayed(self._mean)(X, rows) for rows in blocks))

    def _mean(self, X, rows):
        return self.predict_each(X, rows).mean(axis=1)

    def predict_each(self, X: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the prediction of each network for some rows of X, shape (rows, networks)."""
        scaling = (self.x_shift, self.x_factor, self.y_shift, self.y_scale)
        state = (X, rows, *scaling, layout(self.sizes), self.parameters)
        predictions = np.empty((len(rows), len(self)))
        kernels(X.dtype).predict_rows(*map(frozen, state), predictions)
        return predictions


# Training -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recipe:
    """Parameters of training, with increasing numbers of epochs; the networks after each of them are returned."""

    hidden: tuple[int, ...]
    epochs: tuple[int, ...]
    batch_size: int | None  # None: by the number of rows
    learning_rate: float
    weight_decay: float
    standardise: bool
    scale_target: bool
    seed: int

    def batch(self, n_rows: int) -> int:
        """Return the rows per step for a network that learns from ``n_rows``."""
        return min(self.batch_size or int(np.clip(n_rows // 64, 16, 200)), n_rows)


@dataclass(frozen=True)
class Trained:
    """A network after each requested number of epochs, the rows held out from it and their predictions."""

    networks: NetworkEnsemble
    rows: np.ndarray
    predictions: np.ndarray


@dataclass(frozen=True)
class Problem:
    """Data of several networks: network k < n_networks learns from the rows with fold != k and weight > 0.

    ``weight`` has mean one. ``x_shift``, ``x_scale`` (networks, features) and ``y_shift``, ``y_scale`` (networks,) are
    mean and deviation over each network's rows. Network k draws random numbers from the seed ``[seed, k]``, so it does
    not depend on the other networks.
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
            raise ValueError("all rows of weight above zero are in one fold, so no network can be trained without it")
        parts = dict(zip(folds.tolist(), np.split(used, starts[1:]), strict=True))
        x_moments = _moments(X, parts, n_networks, scale=recipe.standardise)
        y_moments = _moments(y[:, None], parts, n_networks, scale=recipe.scale_target)
        moments = (*x_moments, *(moment[:, 0] for moment in y_moments))
        return cls(X, y, weight, fold, n_networks, recipe.seed, *moments)

    def rows(self, k: int) -> np.ndarray:
        return np.flatnonzero((self.weight > 0) & (self.fold != k))

    def held(self, k: int) -> np.ndarray:
        return np.flatnonzero(self.fold == k)

    def ensemble(self, k: int, snapshots: np.ndarray, recipe: Recipe, n_jobs=None) -> NetworkEnsemble:
        """Return network k after each number of epochs, with the parameters in the rows of ``snapshots``."""
        shared = [np.tile(part, (len(snapshots), 1)) for part in (self.x_shift[k], inverse(self.x_scale[k]))]
        shared += [np.repeat(part, len(snapshots)) for part in (self.y_shift[k], self.y_scale[k])]
        return NetworkEnsemble((self.X.shape[1], *recipe.hidden, 1), snapshots, *shared, n_jobs=n_jobs)


def refuse_divergence(finite: bool, epoch: int, recipe: Recipe) -> None:
    if not finite:
        raise ValueError(
            f"training diverged in epoch {epoch + 1}: the loss is not finite; lower learning_rate, now "
            f"{recipe.learning_rate:g}" + ("" if recipe.scale_target else ", or train with scale_target=True")
        )


def initial_parameters(plan: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw weights and biases uniformly within sqrt(6 / (inputs + units)), as scikit-learn does."""
    parameters = np.zeros(plan[-1, BIAS_AT] + 1, dtype=np.float32)
    for W, b in layers(parameters, plan):
        bound = np.sqrt(6 / sum(W.shape))
        W[:] = rng.uniform(-bound, bound, W.shape)
        b[:] = rng.uniform(-bound, bound, b.shape)
    return parameters


def inverse(scale):
    """Return one over the scale, and 0 for a constant column, whose random weights must have no effect."""
    return np.divide(1, scale, out=np.zeros_like(scale), where=scale > 0)


def _moments(values, parts: dict[int, np.ndarray], n_networks: int, *, scale: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of each column over each network's training rows, (networks, columns).

    ``parts`` maps folds to rows.
    """
    if not scale:
        return np.zeros((n_networks, values.shape[1])), np.ones((n_networks, values.shape[1]))
    means, squares = np.empty((2, len(parts), values.shape[1]))
    for j, rows in enumerate(parts.values()):
        part = values[rows]
        is_constant = (part == part[0]).all(axis=0)  # the mean of equal numbers must not be off by rounding
        means[j] = np.where(is_constant, part[0], part.mean(axis=0, dtype=np.float64))
        squares[j] = ((part - means[j]) ** 2).sum(axis=0)
    folds, counts = np.array(list(parts)), np.array([len(rows) for rows in parts.values()])
    return moments_without(range(n_networks), folds, counts, means, squares)


def moments_without(held, folds, counts, means, squares) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and deviation of each column over all folds except one, for each fold in ``held``: (held, columns).

    ``counts``, ``means`` and ``squares`` are the number of rows of each fold, its means and its sums of squares about
    them. A constant column has standard deviation 0.
    """
    shift, scale = np.empty((2, len(held), means.shape[1]))
    for at, k in enumerate(held):
        training = folds != k
        share = counts[training, None] / counts[training].sum()
        shift[at] = (share * means[training]).sum(axis=0)
        between = share * (means[training] - shift[at]) ** 2
        scale[at] = np.sqrt(between.sum(axis=0) + squares[training].sum(axis=0) / counts[training].sum())
    scale[scale <= 32 * np.finfo(np.float64).eps * np.abs(shift)] = 0
    return shift, scale


@dataclass
class Learner:
    """Network in training; `begin` makes one.

    Attributes
    ----------
    plan : table of `layout`
    scaling : shift and factor of X, then of y
    batch : rows per step
    decay : the penalty times the mean weight of the training rows, as if their weights had mean one
    parameters, memory : the flat vector; gradient and moments of Adam
    stream : state of the random numbers that permute the rows
    steps : steps made so far
    """

    plan: np.ndarray
    scaling: tuple[np.ndarray, np.ndarray, float, float]
    batch: int
    decay: float
    parameters: np.ndarray
    memory: np.ndarray
    stream: np.ndarray
    steps: int = 0

    @classmethod
    def begin(cls, plan: np.ndarray, scaling, batch: int, decay: float, *, seed) -> Learner:
        """Return a network before its first step; the seed decides its first parameters and permutations."""
        rng = np.random.default_rng(seed)
        parameters = initial_parameters(plan, rng)
        memory = np.zeros((3, len(parameters)), dtype=np.float32)
        stream = rng.integers(2**64, size=1, dtype=np.uint64)
        return cls(plan, scaling, batch, decay, parameters, memory, stream)

    @property
    def size(self) -> int:
        return len(self.parameters)

    def prepared(self, X, y, weight, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return scaled inputs of some rows, and their targets and weights, in single precision.

        Rows are read many times in random order, which is faster when they are small and need no arithmetic.
        """
        inputs, targets = (_on_lines(len(rows), width) for width in (X.shape[1], 2))
        x_shift, x_factor, *y_scaling = self.scaling
        data = (*map(frozen, (X, y, weight, rows)), (frozen(x_shift), frozen(x_factor), *y_scaling))
        kernels(X.dtype).scale_rows(*data, inputs, targets)
        return frozen(inputs), frozen(targets)

    def learn(self, inputs, targets, order: np.ndarray, rate: float) -> bool:
        """Make one pass over `prepared` rows, permute ``order`` in place, and return whether all numbers are finite."""
        load_simd().shuffle(order, self.stream)
        data, state = (inputs, targets, frozen(order), frozen(self.plan)), (self.parameters, self.memory)
        loss = load_simd().train_epoch(*data, *state, self.batch, rate, self.decay, self.steps)
        self.steps += -(-len(order) // self.batch)
        return bool(np.isfinite(loss) and np.isfinite(self.parameters).all())


def _on_lines(*shape: int) -> np.ndarray:
    """Return an array of single precision aligned to cache lines, so that fewer rows span two of them."""
    buffer = np.empty(math.prod(shape) + LINE, dtype=np.float32)
    start = -buffer.ctypes.data // 4 % LINE
    return buffer[start : start + math.prod(shape)].reshape(shape)


def train_networks(problem: Problem, recipe: Recipe, *, n_jobs=None) -> list[Trained]:
    """Train all networks of a problem.

    Each of ``n_jobs`` threads trains one network, without the interpreter lock and on its own copy of the rows. A
    network has its own random stream, so ``n_jobs`` changes the time and not the numbers.
    """
    kernels(problem.X.dtype)  # compile or load before threads start
    # threads, even if the context of joblib sets processes
    run = Parallel(n_jobs=effective_n_jobs(n_jobs), prefer="threads")
    return run(delayed(_train)(problem, recipe, k, n_jobs) for k in range(problem.n_networks))


def _train(problem: Problem, recipe: Recipe, k: int, n_jobs) -> Trained:
    """Train network k and predict the rows held out from it."""
    weight, rows, held = problem.weight, problem.rows(k), problem.held(k)
    plan = layout((problem.X.shape[1], *recipe.hidden, 1))
    target = float(problem.y_shift[k]), float(inverse(problem.y_scale[[k]])[0])
    scaling = (problem.x_shift[k], inverse(problem.x_scale[k]), *target)
    decay = recipe.weight_decay * float(weight[rows].mean())
    learner = Learner.begin(plan, scaling, recipe.batch(len(rows)), decay, seed=[problem.seed, k])
    prepared, order, snapshots = learner.prepared(problem.X, problem.y, weight, rows), np.arange(len(rows)), []
    for epoch in range(recipe.epochs[-1]):
        finite = learner.learn(*prepared, order, recipe.learning_rate)
        refuse_divergence(finite, epoch, recipe)
        if epoch + 1 in recipe.epochs:
            snapshots.append(learner.parameters.copy())
    networks = problem.ensemble(k, np.array(snapshots), recipe, n_jobs)
    return Trained(networks, held, networks.predict_each(problem.X, held))
