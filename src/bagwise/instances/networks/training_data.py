"""What networks are trained on: rows, folds, each network's scaling and first weights; the same for every engine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bagwise.instances.networks.ensemble import BIAS_AT, NetworkEnsemble, layers

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
    """One over the scale; 0 for a constant column, which teaches nothing, so its random weights must not speak."""
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
