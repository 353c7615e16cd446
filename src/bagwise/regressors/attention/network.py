"""Networks over ragged bags: their shape, and the training of several of them on one data set.

On a CPU each network is trained on one core by compiled code (`attention_kernels`). On a GPU all networks are trained
together by torch (`gpu`). Predictions are made on the CPU.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from bagwise.execution.resources import choose_device, log_device, one_thread
from bagwise.first_use import lock, once
from bagwise.instances.networks.cpu import announced
from bagwise.instances.networks.estimator import WORTH
from bagwise.regressors.bayesian.evidence_ridge import TargetScale

POOLING = ("mean", "gated", "set")  # their positions are the codes of the kernels
ROWS = 2**15  # instances per batch; a larger bag is a batch of its own


@dataclass(frozen=True)
class Recipe:
    """Checked parameters of training, with the seed drawn; ``patience`` is in epochs."""

    epochs: int
    patience: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    precision: str
    seed: int
    device: str


@dataclass(frozen=True)
class Network:
    """Shape of a network that reads each instance, pools the bag and predicts.

    ``pooling="set"``: T times, a query q from an LSTM weighs the instances by their inner product with it, and reads
    r = Σ a m. Its input [q, r] holds its own state q, so the two matrices of an LSTM are one here.
    ``pooling="gated"``: one score wᵀ(tanh(V m) ⊙ σ(U m)) per instance.
    ``pooling="mean"``: a number h per instance, and their mean; nothing follows.
    """

    n_features: int
    n_moments: int
    read: tuple[int, ...]
    pooling: str
    looks: int
    head: tuple[int, ...]

    @property
    def layers(self) -> dict[str, tuple[int, int]]:
        """Inputs and outputs of each dense layer."""
        widths = (self.n_features, *self.read)
        units = widths[-1]
        layers = {f"read{i}": pair for i, pair in enumerate(zip(widths, widths[1:], strict=False))}
        if self.pooling == "set":
            layers["lstm"] = (2 * units, 4 * units)
        elif self.pooling == "gated":
            layers |= {"tanh": (units, units), "sigmoid": (units, units), "score": (units, 1)}
        widths = ((2 if self.pooling == "set" else 1) * units + self.n_moments, *self.head, 1)
        return layers | {f"head{i}": pair for i, pair in enumerate(zip(widths, widths[1:], strict=False))}

    @property
    def plan(self) -> np.ndarray:
        """Inputs, outputs and start in the flat vector of each layer, a row per layer."""
        sizes = np.array(list(self.layers.values()), dtype=np.int64)
        numbers = (sizes[:, 0] + 1) * sizes[:, 1]
        return np.column_stack([sizes, np.cumsum(numbers) - numbers])

    @property
    def shape(self) -> tuple[int, int, int]:
        """Way of pooling, reading layers and looks, as the kernels take them."""
        return POOLING.index(self.pooling), len(self.read), self.looks if self.pooling == "set" else 1

    def initial(self, random: np.random.Generator) -> np.ndarray:
        """Draw the initial parameters as one vector: uniform within 1/√inputs, and zeros in the last layer.

        With those zeros a network predicts the mean of the targets until it has learned something.
        """
        last = f"head{len(self.head)}"
        parts = []
        for name, (inputs, outputs) in self.layers.items():
            bound = 0.0 if name == last else 1.0 / np.sqrt(inputs)
            parts.append(random.uniform(-bound, bound, (inputs + 1) * outputs))
        return np.concatenate(parts)


@dataclass(frozen=True)
class Data:
    """Standardised bags: instances (rows, d), moments (bags, k), the share of each row in its bag, and offsets."""

    rows: np.ndarray
    moments: np.ndarray
    shares: np.ndarray
    offsets: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        return np.diff(self.offsets)

    def arrays(self, dtype) -> tuple[np.ndarray, ...]:
        """Return writable arrays in the dtype of the kernels; numba would compile again for any other type."""
        values = (np.require(part, dtype, "CW") for part in (self.rows, self.moments, self.shares))
        return *values, np.require(self.offsets, np.int64, "CW")


@dataclass(frozen=True)
class Task:
    """Targets and weights of the bags for each network, as arrays (bags, networks).

    ``targets`` are standardised. Networks learn from bags by the weights ``learn`` (mean one) and are stopped by the
    error on bags with the weights ``held`` (sum one); a bag of zero weight is not seen. ``blend`` (networks,) is the
    weight of the loss of bags beside that of instances, for ``pooling="mean"``; otherwise it is one.
    """

    targets: np.ndarray
    learn: np.ndarray
    held: np.ndarray
    blend: np.ndarray

    @classmethod
    def of(cls, y, weight, splits: list[Split], scales: list[TargetScale], blend: np.ndarray) -> Task:
        targets = np.stack([scale.standardised(y) for scale in scales], axis=1)
        learn = weight[:, None] * np.stack([split.learn for split in splits], axis=1)
        held = weight[:, None] * np.stack([split.held for split in splits], axis=1)
        held = held / held.sum(axis=0)
        error_of_mean = (held * targets**2).sum(axis=0)
        held = held / np.where(error_of_mean > 0, error_of_mean, 1.0)
        return cls(targets, learn / learn.mean(axis=0), held, blend)

    def __getitem__(self, networks) -> Task:
        parts = (self.targets[:, networks], self.learn[:, networks], self.held[:, networks])
        return Task(*parts, self.blend[networks])


@dataclass(frozen=True)
class Member:
    """Trained network: its parameters, the scale of its targets, and how it was stopped.

    ``error`` is the mean squared error on its held-out bags, relative to that of predicting the mean.
    """

    parameters: np.ndarray
    target: TargetScale
    error: float
    epochs: int


@dataclass(frozen=True)
class Split:
    """Masks of the bags that a network learns from and is stopped by."""

    learn: np.ndarray
    held: np.ndarray

    @classmethod
    def of(cls, allowed: np.ndarray, fold: np.ndarray, restart: int) -> Split:
        """Hold out one fold of the allowed bags, another for each restart: most networks learn from each bag."""
        folds = np.unique(fold[allowed])
        held = allowed & (fold == folds[restart % len(folds)])
        learn = allowed & ~held
        return cls(learn if learn.any() else held, held)  # a single group is used for learning and for stopping


def cuts(positions: np.ndarray, sizes: np.ndarray, n_bags: int) -> np.ndarray:
    """Return where batches begin, and the end: at most ``n_bags`` bags and `ROWS` instances, or one larger bag."""
    starts, rows = [0], 0
    for i, size in enumerate(sizes[positions].tolist()):
        if i > starts[-1] and (i - starts[-1] == n_bags or rows + size > ROWS):
            starts.append(i)
            rows = 0
        rows += size
    return np.array([*starts, len(positions)])


def train_members(
    network: Network, data: Data, y, weight, splits: list[Split], recipe: Recipe, n_jobs=None, blends=(1.0,)
) -> list[Member]:
    """Train a network for each blend and split, those of the first blend first.

    Networks of one split begin with the same weights. The numbers do not depend on ``n_jobs``.
    """
    n_starts = len(splits)
    splits = splits * len(blends)
    scales = [TargetScale.of(y, weight * (split.learn | split.held)) for split in splits]
    task = Task.of(y, weight, splits, scales, np.repeat(blends, n_starts))
    starts = np.stack([network.initial(np.random.default_rng([recipe.seed, i])) for i in range(n_starts)] * len(blends))
    work = 6.0 * starts.size * len(data.rows) * recipe.epochs
    device = choose_device(recipe.device, is_large=work >= WORTH)
    if device == "cpu":
        trained = _train_by_kernels(network, data, task, starts, recipe, n_jobs)
    else:
        with lock:
            from bagwise.regressors.attention import gpu
        log_device("training networks", device)
        trained = gpu.train(network, data, task, starts, replace(recipe, device=device))
    return [
        Member(vector.astype(np.float32), scale, float(error), int(epochs))
        for vector, error, epochs, scale in zip(*trained, scales, strict=True)
    ]


def _train_by_kernels(network, data: Data, task: Task, starts, recipe: Recipe, n_jobs) -> Iterable:
    """Return the best parameters of the networks, their held-out errors, and their epochs."""
    attention_kernels(True)  # compile or load before threads start
    used = np.flatnonzero(task.learn.any(axis=1))
    arrays = data.arrays(np.float32)
    with one_thread():
        trained = Parallel(n_jobs=effective_n_jobs(n_jobs), prefer="threads")(
            delayed(_train_alone)(network, arrays, used, task[i], start, recipe) for i, start in enumerate(starts)
        )
    return zip(*trained, strict=True)


def _train_alone(network: Network, arrays, used, task: Task, start, recipe: Recipe) -> tuple:
    """Return the best parameters of one network, their held-out error and their epoch.

    Adam with decoupled weight decay, until ``patience`` epochs have passed without improvement.
    """
    kernels, sizes, shape, plan = attention_kernels(True), np.diff(arrays[-1]), network.shape, network.plan
    targets, learn = task.targets.astype(np.float32), task.learn.astype(np.float32)
    held = np.flatnonzero(task.held)
    held_batches, predictions = cuts(held, sizes, len(held)), np.zeros(len(held), dtype=np.float32)

    def held_out_error() -> float:
        return float((task.held[held] * (predictions - task.targets[held]) ** 2).sum())

    vector = start.astype(np.float32)
    memory, random, steps = np.zeros((3, len(vector)), dtype=np.float32), np.random.default_rng(recipe.seed), 0
    best, error, at = vector.copy(), held_out_error(), 0  # the first weights predict zero
    for epoch in range(1, recipe.epochs + 1):
        order = random.permutation(used)
        batches = cuts(order, sizes, recipe.batch_size)
        data = np.concatenate([order, held]), np.concatenate([batches, len(order) + held_batches[1:]]), targets, learn
        state = np.float32(task.blend), vector, memory, recipe.learning_rate, recipe.weight_decay, steps
        kernels.train_epoch(arrays, shape, plan, *data, *state, predictions)
        steps, now = steps + len(batches) - 1, held_out_error()
        if now < error:
            best, error, at = vector.copy(), now, epoch
        if epoch - at >= recipe.patience:
            break
    return best, error, at


@once
def attention_kernels(training: bool = False):
    """Return the module of that name, with the kernels of prediction or of both compiled or read from disk."""
    import scipy.linalg  # noqa: F401  # whose BLAS the kernels call

    with announced():
        from bagwise.regressors.attention import attention_kernels

        attention_kernels.compile_kernels(training)
    return attention_kernels


def attend(network: Network, members: list[Member], data: Data) -> tuple[np.ndarray, np.ndarray]:
    """Return predictions of the bags and attention of the instances, averaged over members.

    In double precision, so that a bag's numbers do not depend on the other bags beyond rounding.
    """
    kernels, arrays, n_bags = attention_kernels(), data.arrays(np.float64), len(data.sizes)
    order = np.arange(n_bags)
    batches = cuts(order, data.sizes, n_bags)
    predictions, attention = np.zeros(n_bags), np.zeros(len(data.rows))
    outputs, weights = np.empty(n_bags), np.empty(len(data.rows))
    with one_thread():
        for member in members:
            target, parameters = member.target, member.parameters.astype(np.float64)
            kernels.predict(arrays, network.shape, network.plan, order, batches, parameters, outputs, weights)
            predictions += target.mean + target.scale * outputs
            attention += weights
    return predictions / len(members), attention / len(members)
