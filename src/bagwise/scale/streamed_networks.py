"""Networks trained on rows that stream from disk, for the networks of all folds together.

An epoch reads the data a few times, each time another part of the rows, drawn at random, so that the rows of a bag are
spread over several buffers. Each time the partitions come in an order that is drawn, and the rows of a few of them,
read alternately, fill a buffer. Each network learns from the rows of the buffer outside its fold, in batches of its own
order. Memory is one buffer. The numbers of a network depend on the partitions and the seed alone, so the networks may
be trained together, or apart on several workers, each of which reads all partitions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from bagwise.execution import Processes, Serial
from bagwise.execution.resources import choose_device, log_device
from bagwise.first_use import lock
from bagwise.instances.networks.cpu import (
    Learner,
    NetworkEnsemble,
    Recipe,
    inverse,
    kernels,
    layout,
    moments_without,
    refuse_divergence,
)
from bagwise.instances.networks.estimator import NetworkRegressor
from bagwise.instances.out_of_fold import CrossFit, OutOfFold
from bagwise.scale.passes import Arrays
from bagwise.scale.training_data import TrainingData

BUFFER_BYTES, BUFFER_ROWS = 2**27, 2**21  # of features; and never more rows, of which a network holds an order
READINGS = 8  # of the data in an epoch, at most: rows of as many buffers are mixed in one
LONGER = 1.01  # than on average a part may be, since its rows are drawn
OPEN = 16  # partitions that are read alternately: the more, the more a buffer is like all rows
TURN = 4096  # rows that are read of one of them before the next has its turn
STATE = ("parameters", "memory", "stream", "steps")  # of a learner between two epochs
NONE = -1  # the fold of a network that learns from all rows


class Buffer(NamedTuple):
    """Rows that are held at once."""

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    fold: np.ndarray


@dataclass(frozen=True)
class RowStream:
    """The rows of all partitions, a buffer at a time, in an order that is drawn for every epoch."""

    parts: tuple
    bag_values: tuple[Arrays, ...]  # of each partition: fold, weight and target of its bags
    n_features: int
    dtype: np.dtype
    rows: int  # the most in a buffer
    readings: int  # of the data in an epoch; each row is taken once
    seed: int

    def buffers(self, epoch: int) -> Iterator[Buffer]:
        """Yield the rows of all partitions once; a buffer is valid until the next one is requested."""
        X, n = np.empty((self.rows, self.n_features), self.dtype), self.rows
        whole = Buffer(X, np.empty(n), np.empty(n, np.float32), np.empty(n, np.int64))
        for reading in range(self.readings):
            filled = 0
            for turn in self._turns(epoch, reading):
                start = 0
                while start < len(turn.X):
                    stop = min(len(turn.X), start + self.rows - filled)
                    for buffer, new in zip(whole, turn, strict=True):
                        buffer[filled : filled + stop - start] = new[start:stop]
                    filled, start = filled + stop - start, stop
                    if filled == self.rows:
                        yield whole
                        filled = 0
            if filled:
                yield Buffer(*(buffer[:filled] for buffer in whole))

    def _turns(self, epoch: int, reading: int) -> Iterator[Buffer]:
        """Yield a few rows of each of the open partitions in turn; where one ends, the next of the order is opened."""
        rng = np.random.default_rng([self.seed, epoch, reading])
        waiting = iter(rng.permutation(len(self.parts)).tolist())
        opened: deque[Iterator[Buffer]] = deque()
        while True:
            while len(opened) < OPEN and (number := next(waiting, None)) is not None:
                opened.append(self._rows(number, epoch, reading))
            if not opened:
                return
            rows = opened.popleft()
            if (turn := next(rows, None)) is not None:
                yield turn
                opened.append(rows)

    def _rows(self, number: int, epoch: int, reading: int) -> Iterator[Buffer]:
        """Yield the rows of one partition that are taken in a reading, a few at a time."""
        bags, values = self.parts[number].load(), self.bag_values[number]
        fold, weight, y = (bags.expand(np.array(values[name])) for name in ("fold", "weight", "y"))
        weight = weight if bags.weights is None else weight * bags.weights
        rng = np.random.default_rng([self.seed, epoch, number])  # the same in every reading
        for start in range(0, bags.n_instances, TURN):
            turn = slice(start, start + TURN)
            rows = np.flatnonzero(rng.integers(self.readings, size=len(y[turn])) == reading)
            yield Buffer(bags.instances[turn][rows], y[turn][rows], weight[turn][rows], fold[turn][rows])


def cut_epoch(n_rows: int, n_features: int, dtype: np.dtype) -> tuple[int, int]:
    """Return the most rows of a buffer, and how many times an epoch reads the data."""
    most = min(BUFFER_ROWS, max(TURN, BUFFER_BYTES // (n_features * dtype.itemsize)))
    if n_rows <= most:
        return n_rows, 1
    readings = min(READINGS, ceil(LONGER * n_rows / most))
    part = LONGER * n_rows / readings
    return ceil(part / ceil(part / most)), readings


@dataclass(frozen=True)
class FoldNetworks:
    """The network without each fold, after each number of epochs."""

    models: dict[int, NetworkEnsemble]

    def predict(self, X: np.ndarray, fold: np.ndarray) -> np.ndarray:
        """Predict each row by the network that never saw its fold: (rows, numbers of epochs)."""
        X, out = np.ascontiguousarray(X), np.empty((len(X), len(next(iter(self.models.values())))))
        for k in np.unique(fold).tolist():
            rows = np.flatnonzero(fold == k)
            out[rows] = self.models[k].predict_each(X, rows)
        return out


def fit_networks(
    regressor: NetworkRegressor, data: TrainingData, *, fold, weight, stage: OutOfFold
) -> tuple[FoldNetworks, CrossFit]:
    """Train the networks without each fold, after each number of epochs that is tried.

    With ``device="auto"`` they are trained on the CPU: a GPU waits for rows that are read from disk.
    """
    epochs, n_folds = tuple({"epochs": number} for number in regressor.recipe().epochs), int(fold.max()) + 1
    held = [*range(n_folds), *([NONE] if stage.predictor == "refit" else [])]
    networks = train(regressor, data, fold, weight, held, n_jobs=stage.n_jobs)

    def predictor(candidate: int, kind: str) -> NetworkEnsemble:
        if kind == "fold-mean":
            return NetworkEnsemble.joined([states[candidate] for states in networks])
        return networks[-1][candidate]  # that of the last fold, or of all rows

    return FoldNetworks(dict(enumerate(networks[:n_folds]))), CrossFit(np.empty(0), epochs, predictor)


# Training -----------------------------------------------------------------------------------------------------------


class Share(NamedTuple):
    """Networks that are trained side by side, and the fold that each never sees."""

    learners: list[Learner]
    held: list[int]
    n_rows: int

    @property
    def name(self) -> str:
        return f"the networks without folds {', '.join(map(str, self.held))}"


def train(regressor: NetworkRegressor, data: TrainingData, fold, weight, held: list[int], *, n_jobs=None):
    """Train a network without each fold in ``held``; each is an ensemble of its states after each number of epochs."""
    recipe, width, n_rows = regressor.recipe(), data.n_features, int(data.sizes.sum())
    dtype = data.parts[0].load().dtype
    bag_values = tuple(data.passes.each("network-targets", _bag_values, data.tasks(fold, weight, data.y)))
    learners, y_scale = _beginners(recipe, data, fold, weight, held)
    stream = RowStream(tuple(data.parts), bag_values, width, dtype, *cut_epoch(n_rows, width, dtype), recipe.seed)
    place = "cpu" if regressor.device == "auto" else choose_device(regressor.device, is_large=True)
    executor = data.passes.executor if place == "cpu" else Serial()  # in this process, on the GPU of this machine
    n_shares, states = min(len(held), _workers(executor, len(held))), []
    for epoch in range(recipe.epochs[-1]):
        several = np.array_split(np.arange(len(held)), n_shares)
        shares = [(Share([learners[e] for e in numbers], [held[e] for e in numbers], n_rows),) for numbers in several]
        shared = stream, epoch, recipe, n_jobs or regressor.n_jobs, place, regressor.precision
        trained = data.passes.each(f"epoch-by-{len(shares)}", _learn_epoch, shares, *shared, executor=executor)
        refuse_divergence(all(bool(arrays["finite"]) for arrays in trained), epoch, recipe)
        _keep_states(learners, trained)
        if epoch + 1 in recipe.epochs:
            states.append([learner.parameters.copy() for learner in learners])
    return [
        _ensemble(learner, scale, np.array(parameters), recipe, n_jobs)
        for learner, scale, parameters in zip(learners, y_scale, zip(*states, strict=True), strict=True)
    ]


def _bag_values(part, fold, weight, y) -> dict:
    return {"fold": fold, "weight": weight, "y": y}


def _beginners(recipe: Recipe, data: TrainingData, fold, weight, held: list[int]):
    """Return the networks before their first step, and the scale of the target of each."""
    labels, sizes, width = np.unique(fold), data.sizes, data.n_features
    columns = [data.select(fold == k).columns for k in labels]
    counts, y_mean = np.bincount(fold, sizes), np.bincount(fold, sizes * data.y) / np.bincount(fold, sizes)
    y_scatter = np.bincount(fold, sizes * (data.y - y_mean[fold]) ** 2)
    means = np.column_stack([[part.mean for part in columns], y_mean])
    squares = np.column_stack([[part.scatter for part in columns], y_scatter])
    weights = np.bincount(fold, weight * data.totals)
    shift, scale = moments_without(held, labels, counts, means, squares)
    scaled = np.array([recipe.standardise] * width + [recipe.scale_target])
    shift, scale = np.where(scaled, shift, 0.0), np.where(scaled, scale, 1.0)
    factor, learners = inverse(scale), []
    for e, k in enumerate(held):
        training = labels != k
        n_rows = int(counts[training].sum())
        scaling = shift[e, :-1].copy(), factor[e, :-1].copy(), float(shift[e, -1]), float(factor[e, -1])
        decay = recipe.weight_decay * float(weights[training].sum() / n_rows)
        seed = [recipe.seed, max(k, 0)]  # as in memory: that of all rows is the first of its kind
        plan = layout((width, *recipe.hidden, 1))
        learners.append(Learner.begin(plan, scaling, recipe.batch(n_rows), decay, seed=seed))
    return learners, scale[:, -1]


def _keep_states(learners: list[Learner], trained: list[Arrays]) -> None:
    """Copy the states after an epoch to the learners."""
    for name in STATE:
        values = np.concatenate([arrays[name] for arrays in trained])
        for learner, value in zip(learners, values, strict=True):
            setattr(learner, name, value.copy() if value.ndim else int(value))


def _workers(executor, n_networks: int) -> int:
    """Return the number of tasks that run at once; a cluster gets one per network, and distributes them itself."""
    if isinstance(executor, Serial):
        return 1
    return effective_n_jobs(executor.n_jobs) if isinstance(executor, Processes) else n_networks


def _learn_epoch(share: Share, stream: RowStream, epoch: int, recipe: Recipe, n_jobs, place: str, precision) -> dict:
    """Train networks for an epoch; the share is not changed, as a cluster may train it twice."""
    learners, finite = deepcopy(share.learners), True
    if place == "cpu":
        kernels(stream.dtype)  # compiled or loaded here, before threads start
        with Parallel(n_jobs=effective_n_jobs(n_jobs), require="sharedmem") as run:
            for buffer in stream.buffers(epoch):
                jobs = zip(learners, share.held, strict=True)
                finite &= all(run(delayed(_learn)(*job, buffer, recipe.learning_rate) for job in jobs))
    else:
        with lock:
            from bagwise.instances.networks import gpu
        log_device("training networks", place)
        finite = gpu.learn_buffers(learners, stream.buffers(epoch), recipe, place, precision)
    return {name: np.array([getattr(learner, name) for learner in learners]) for name in STATE} | {"finite": finite}


def _learn(learner: Learner, held: int, buffer: Buffer, rate: float) -> bool:
    rows = np.flatnonzero((buffer.fold != held) & (buffer.weight > 0))
    return learner.learn(*learner.prepared(buffer.X, buffer.y, buffer.weight, rows), np.arange(len(rows)), rate)


def _ensemble(learner: Learner, y_scale: float, states: np.ndarray, recipe: Recipe, n_jobs) -> NetworkEnsemble:
    """Return a network after each number of epochs, of which ``states`` holds the parameters."""
    x_shift, x_factor, y_shift, _ = learner.scaling
    scaling = [np.tile(part, (len(states), 1)) for part in (x_shift, x_factor)]
    scaling += [np.repeat(part, len(states)) for part in (y_shift, y_scale)]
    return NetworkEnsemble((len(x_shift), *recipe.hidden, 1), states, *scaling, n_jobs=n_jobs)
