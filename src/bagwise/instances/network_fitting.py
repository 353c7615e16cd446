"""Training many networks at once: one network per core, each on all rows but those of its fold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from bagwise.instances.network_compiling import frozen, kernels
from bagwise.instances.network_ensemble import NetworkEnsemble
from bagwise.instances.network_layout import BIAS_AT, layers, layout


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


@dataclass(frozen=True)
class Trained:
    """One network after every number of epochs asked for, and what each of them says of the rows held out."""

    networks: NetworkEnsemble
    rows: np.ndarray
    predictions: np.ndarray


def train_networks(X, y, weight, fold, recipe: Recipe, *, n_networks: int, n_jobs=None) -> list[Trained]:
    """Network k, for k < n_networks, learns from the rows with fold != k and weight > 0.

    The arithmetic of a network is sequential and its random stream is its own, so ``n_jobs`` (how many threads, each
    training one network without the interpreter's lock) changes the time and nothing else.
    """
    kernels(X.dtype)  # compiled here, rather than by every thread
    weight = (weight / weight.mean()).astype(np.float32)
    filled = np.unique(fold[weight > 0])
    if len(filled) == 1 and filled[0] < n_networks:
        raise ValueError("nothing to learn from: all rows of weight above zero are in one fold")
    x_shift, x_scale = _moments(X, weight, fold, n_networks, wanted=recipe.standardise)
    y_shift, y_scale = _moments(y[:, None], weight, fold, n_networks, wanted=recipe.scale_target)

    def train(k: int) -> Trained:
        rows, held = np.flatnonzero((weight > 0) & (fold != k)), np.flatnonzero(fold == k)
        x_factor, y_factor = _inverse(x_scale[k]), _inverse(y_scale[k])
        kept = _train_one(X, y, weight, rows, (x_shift[k], x_factor, *y_shift[k], *y_factor), recipe, k)
        shared = [np.tile(part, (len(kept), 1)) for part in (x_shift[k], x_factor)]
        shared += [np.repeat(part, len(kept)) for part in (y_shift[k], y_scale[k])]
        networks = NetworkEnsemble((X.shape[1], *recipe.hidden, 1), kept, *shared, n_jobs=n_jobs)
        return Trained(networks, held, networks.predict_each(X, held))

    # effective_n_jobs: with None, joblib's context counts, also where it speaks of processes and we take threads
    run = Parallel(n_jobs=effective_n_jobs(n_jobs), require="sharedmem")
    return run(delayed(train)(k) for k in range(n_networks))


def _train_one(X, y, weight, rows, scaling, recipe: Recipe, k: int) -> np.ndarray:
    """The parameters after each number of epochs asked for, shape (epochs, parameters)."""
    compiled, rng = kernels(X.dtype), np.random.default_rng([recipe.seed, k])
    plan = layout((X.shape[1], *recipe.hidden, 1))
    parameters = initial_parameters(plan, rng)
    memory = np.zeros((3, len(parameters)), dtype=np.float32)
    stream = rng.integers(2**64, size=1, dtype=np.uint64)
    batch = min(recipe.batch_size or int(np.clip(len(rows) // 64, 16, 200)), len(rows))
    decay = recipe.weight_decay * float(weight[rows].mean())  # as if the weights of these rows had mean one
    x_shift, x_factor, y_shift, y_factor = scaling
    data = (*map(frozen, (X, y, weight, rows)), (frozen(x_shift), frozen(x_factor), y_shift, y_factor))
    kept = []
    for epoch in range(recipe.epochs[-1]):
        compiled.shuffle(rows, stream)
        steps = epoch * -(-len(rows) // batch)
        model = (frozen(plan), parameters, memory)
        loss = compiled.train_epoch(*data, *model, batch, recipe.learning_rate, decay, steps)
        if not (np.isfinite(loss) and np.isfinite(parameters).all()):
            raise ValueError(
                f"training diverged in epoch {epoch + 1}: the loss is not finite; lower learning_rate, now "
                f"{recipe.learning_rate:g}" + ("" if recipe.scale_target else ", or train with scale_target=True")
            )
        if epoch + 1 in recipe.epochs:
            kept.append(parameters.copy())
    return np.array(kept)


def initial_parameters(plan: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Weights and biases uniform within sqrt(6 / (inputs + units)), as scikit-learn draws them."""
    parameters = np.zeros(plan[-1, BIAS_AT] + 1, dtype=np.float32)
    for W, b in layers(parameters, plan):
        bound = np.sqrt(6 / sum(W.shape))
        W[:] = rng.uniform(-bound, bound, W.shape)
        b[:] = rng.uniform(-bound, bound, b.shape)
    return parameters


def _moments(values, weight, fold, n_networks: int, *, wanted: bool) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of every column over each network's training rows, (networks, columns).

    One pass: the moments of every fold are merged over all folds but one. A constant column has standard deviation 0.
    """
    shape = (n_networks, values.shape[1])
    if not wanted:
        return np.zeros(shape), np.ones(shape)
    used = np.flatnonzero(weight > 0)
    used = used[np.argsort(fold[used], kind="stable")]
    groups, starts, counts = np.unique(fold[used], return_index=True, return_counts=True)
    means, squares = np.empty((2, len(groups), values.shape[1]))
    for j, rows in enumerate(np.split(used, starts[1:])):
        part = values[rows]
        means[j] = part.mean(axis=0, dtype=np.float64)
        squares[j] = ((part - means[j]) ** 2).sum(axis=0)
    shift, scale = np.empty(shape), np.empty(shape)
    for k in range(n_networks):
        others = groups != k
        share = counts[others, None] / counts[others].sum()
        shift[k] = (share * means[others]).sum(axis=0)
        between = share * (means[others] - shift[k]) ** 2
        scale[k] = np.sqrt(between.sum(axis=0) + squares[others].sum(axis=0) / counts[others].sum())
    scale[scale <= 32 * np.finfo(np.float64).eps * np.abs(shift)] = 0
    return shift, scale


def _inverse(scale):
    """One over the scale; 0 for a constant column, which teaches nothing, so its random weights must not speak."""
    return np.divide(1, scale, out=np.zeros_like(scale), where=scale > 0)
