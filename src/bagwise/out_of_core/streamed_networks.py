"""Networks trained on rows that stream from a scan, for the networks of all folds together.

An epoch reads the data a few times, each time another part of the rows, drawn at random: bags whose rows lie side by
side are thus spread over several buffers, and no buffer is of few bags. Each time the chunks come in an order that is
drawn, some of them are read side by side, and their rows fill a buffer. Every network learns from the rows of the
buffer that are not in its fold, in batches of an order that it draws itself; then the buffer is filled again. So what
is held is a buffer, whatever the size of the data, and a network's numbers depend on the chunks and the seed alone: the
networks may be trained together, or apart on several workers, each of which reads all chunks for those it has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from bagwise.execution import Processes, Serial
from bagwise.execution.resources import announce, kept_memory, settled
from bagwise.first_use import lock
from bagwise.instances import OutOfFold
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
from bagwise.instances.networks.estimator import PRECISIONS, NetworkRegressor, are_worth_a_gpu
from bagwise.instances.out_of_fold import CrossFit, one_of
from bagwise.out_of_core.chunks import Chunk
from bagwise.out_of_core.passes import BLOCK_ROWS, Passes, PassRunner, Piece, add
from bagwise.out_of_core.scan_heads import fit_ridge
from bagwise.out_of_core.shards import Shards
from bagwise.out_of_core.sums import Predicted, begin_out_of_fold, by_fold, embed_predictions, end_out_of_fold
from bagwise.out_of_core.survey import ColumnSums, Survey

BUFFER_BYTES, BUFFER_ROWS = 2**27, 2**21  # of features; and never more rows, of which a network holds an order
READINGS = 8  # of the data in an epoch, at most: rows of as many buffers are mixed in one
LONGER = 1.01  # than on average a part may be, since its rows are drawn
SIDE_BY_SIDE = 16  # chunks that are open at a time: the more, the more a buffer is like all rows
TURN = 4096  # rows that are read of one of them before the next has its turn
KNOWN = ("fold", "weight", "y")  # what shards keep of every bag
NONE = -1  # the fold of a network that learns from all rows


class Buffer(NamedTuple):
    """Rows that are held at once."""

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    fold: np.ndarray


@dataclass(frozen=True)
class RowStream:
    """The rows of all chunks, a buffer at a time, in an order that is drawn for every epoch.

    Attributes
    ----------
    pieces : the chunks
    shards : which keep fold, weight (of mean one over the rows) and target of every bag
    n_features, dtype : of the rows
    rows : int, the most rows of a buffer
    readings : int, how many times the data are read in an epoch; every row is taken once
    seed : int
    """

    pieces: tuple[Piece, ...]
    shards: Shards
    n_features: int
    dtype: np.dtype
    rows: int
    readings: int
    seed: int

    def buffers(self, epoch: int) -> Iterator[Buffer]:
        """The rows of all chunks once; a buffer holds until the next is asked for."""
        whole = Buffer(
            np.empty((self.rows, self.n_features), self.dtype),
            np.empty(self.rows),
            np.empty(self.rows, np.float32),
            np.empty(self.rows, np.int64),
        )
        for reading in range(self.readings):
            filled = 0
            for some in self._turns(epoch, reading):
                start = 0
                while start < len(some.X):
                    stop = min(len(some.X), start + self.rows - filled)
                    for own, new in zip(whole, some, strict=True):
                        own[filled : filled + stop - start] = new[start:stop]
                    filled, start = filled + stop - start, stop
                    if filled == self.rows:
                        yield whole
                        filled = 0
            if filled:
                yield Buffer(*(own[:filled] for own in whole))

    def _turns(self, epoch: int, reading: int) -> Iterator[Buffer]:
        """A few rows of each of the open chunks in turn; where one ends the next in the order of the reading begins."""
        rng = np.random.default_rng([self.seed, epoch, reading])
        waiting = iter(rng.permutation(len(self.pieces)).tolist())
        begun: deque[Iterator[Buffer]] = deque()
        while True:
            while len(begun) < SIDE_BY_SIDE and (number := next(waiting, None)) is not None:
                begun.append(self._rows(self.pieces[number], epoch, reading))
            if not begun:
                return
            rows = begun.popleft()
            if (some := next(rows, None)) is not None:
                yield some
                begun.append(rows)

    def _rows(self, piece: Piece, epoch: int, reading: int) -> Iterator[Buffer]:
        """Those of one chunk that are taken in a reading, a few at a time."""
        fold, weight, y = (self.shards.known(piece.number, name) for name in KNOWN)
        rng = np.random.default_rng([self.seed, epoch, piece.number])  # the same in every reading
        for block in piece.chunk.blocks(rows=TURN):
            taken = rng.integers(self.readings, size=len(block.X)) == reading
            bag = block.bag[taken]
            own = weight[bag] if block.weight is None else weight[bag] * block.weight[taken]
            yield Buffer(block.X[taken], y[bag], own, fold[bag])


def cut_epoch(n_rows: int, n_features: int, dtype: np.dtype) -> tuple[int, int]:
    """The most rows of a buffer, and how many times an epoch reads the data; buffers are of about the same length."""
    most = min(BUFFER_ROWS, max(TURN, BUFFER_BYTES // (n_features * dtype.itemsize)))
    if n_rows <= most:
        return n_rows, 1
    readings = min(READINGS, ceil(LONGER * n_rows / most))
    part = LONGER * n_rows / readings
    return ceil(part / ceil(part / most)), readings


@dataclass(frozen=True)
class FoldNetworks:
    """The network without each fold, after each number of epochs; picklable, and small whatever the number of rows."""

    models: dict[int, NetworkEnsemble]

    @property
    def n_candidates(self) -> int:
        return len(next(iter(self.models.values())))

    def predict(self, X: np.ndarray, fold: np.ndarray) -> np.ndarray:
        """Every row by the network that never saw its fold: (rows, numbers of epochs)."""
        X, out = np.ascontiguousarray(X), np.empty((len(X), self.n_candidates))
        for k, rows in by_fold(fold):
            out[rows] = self.models[k].predict_each(X, rows)
        return out

    def only(self, candidate: int) -> FoldNetworks:
        return FoldNetworks({k: networks[candidate] for k, networks in self.models.items()})


def fit_networks(stage: OutOfFold, passes: Passes, survey: Survey) -> tuple[OutOfFold, Predicted]:
    """The stage, its networks trained on the rows as they stream; and what a head needs to know of its predictions.

    The number of epochs is chosen as in memory: by the left-out error of the judge on what the networks predict out of
    fold after each number that is tried.
    """
    stage, regressor, n_folds = begin_out_of_fold(stage, passes, survey)
    one_of(regressor.precision, PRECISIONS, "precision")
    epochs = tuple({"epochs": number} for number in regressor.recipe().epochs)
    held = [*range(n_folds), *([NONE] if stage.predictor == "refit" else [])]
    networks = train(regressor, passes, survey, held, n_jobs=stage.n_jobs)

    def predictor(candidate: int, kind: str) -> NetworkEnsemble:
        if kind == "fold-mean":
            return NetworkEnsemble.joined([one[candidate] for one in networks])
        return networks[-1][candidate]  # the last fold's, or that of all rows

    def judge(predicted: Predicted) -> float:
        """The left-out error of a second stage."""
        embedded = embed_predictions(stage.judge, passes, survey, predicted)
        return fit_ridge(stage.judge, passes, survey, embedded, shared=True).error_

    models, result = FoldNetworks(dict(enumerate(networks[:n_folds]))), CrossFit(np.empty(0), epochs, predictor)
    return end_out_of_fold(stage, passes, survey, models, result, None if stage.judge is None else judge)


# Training -----------------------------------------------------------------------------------------------------------


class FoldRows(NamedTuple):
    """Of the rows of a fold: the sums of their columns, the last being the target, and their weight."""

    columns: ColumnSums
    weight: float


class Share(NamedTuple):
    """Networks that are trained side by side, and the fold that each never sees."""

    learners: list[Learner]
    held: list[int]

    def __str__(self) -> str:
        return f"the networks without folds {', '.join(map(str, self.held))}"


def train(regressor: NetworkRegressor, passes: Passes, survey: Survey, held: list[int], *, n_jobs=None):
    """For every fold in ``held`` a network trained without its rows, as an ensemble: after each number of epochs."""
    recipe, width, n_rows = regressor.recipe(), len(survey.names), survey.columns.n
    worth = are_worth_a_gpu(len(held), float(len(held)) * n_rows, width, recipe)
    place = settled(regressor.device, worth=worth)
    learners, y_scale = _beginners(recipe, width, passes.total(_fold_rows, known=KNOWN), held)
    cut = cut_epoch(n_rows, width, passes.scan.dtype)
    stream = RowStream(tuple(passes.chunks), passes.shards, width, passes.scan.dtype, *cut, recipe.seed)
    runner = passes.runner
    how: tuple[Any, ...] = (_train_share, n_jobs or regressor.n_jobs)
    if place != "cpu":  # the GPU is here, whoever runs the passes
        runner = PassRunner(Serial(), runner.work, runner.progress)
        how = (_train_on_device, place, regressor.precision)
    kept = []
    for epoch in range(recipe.epochs[-1]):
        learners = _pass(runner, learners, held, stream, epoch, recipe, how)
        if epoch + 1 in recipe.epochs:
            kept.append([learner.parameters.copy() for learner in learners])
    return [
        _ensemble(learner, scale, np.array(own), recipe, n_jobs)
        for learner, scale, own in zip(learners, y_scale, zip(*kept, strict=True), strict=True)
    ]


def _fold_rows(chunk: Chunk, fold, weight, y) -> dict[int, FoldRows]:
    """Of every fold that has rows here."""
    found: dict[int, FoldRows] = {}
    for block in chunk.blocks(rows=BLOCK_ROWS):
        own, columns = fold[block.bag], np.column_stack([block.X.astype(np.float64), y[block.bag]])
        share = weight[block.bag] if block.weight is None else weight[block.bag] * block.weight
        for k in np.unique(own).tolist():
            rows = own == k
            found = add(found, {k: FoldRows(ColumnSums.of(columns[rows]), float(share[rows].sum()))})
    return found


def _beginners(recipe: Recipe, width: int, folds: dict[int, FoldRows], held: list[int]):
    """The networks before their first step, and the scale of the target of each."""
    labels, parts = np.array(list(folds)), list(folds.values())
    counts, weight = np.array([part.columns.n for part in parts]), np.array([part.weight for part in parts])
    means, squares = (np.array([getattr(part.columns, name) for part in parts]) for name in ("mean", "scatter"))
    shift, scale = moments_without(held, labels, counts, means, squares)
    scaled = np.array([recipe.standardise] * width + [recipe.scale_target])
    shift, scale = np.where(scaled, shift, 0.0), np.where(scaled, scale, 1.0)
    factor, learners = inverse(scale), []
    for e, k in enumerate(held):
        others = labels != k
        n_rows = int(counts[others].sum())
        scaling = shift[e, :-1].copy(), factor[e, :-1].copy(), float(shift[e, -1]), float(factor[e, -1])
        decay = recipe.weight_decay * float(weight[others].sum() / n_rows)
        seed = [recipe.seed, max(k, 0)]  # as in memory: that of all rows is the first of its kind
        plan = layout((width, *recipe.hidden, 1))
        learners.append(Learner.begin(plan, scaling, recipe.batch(n_rows), decay, seed=seed))
    return learners, scale[:, -1]


def _pass(runner: PassRunner, learners: list[Learner], held: list[int], stream: RowStream, epoch: int, recipe, how):
    """The learners after one more pass over the data, shared out to as many as the executor has at work."""
    shares = [
        Share([learners[e] for e in some], [held[e] for e in some])
        for some in np.array_split(np.arange(len(held)), min(len(held), _workers(runner.executor, len(held))))
    ]
    function, *options = how
    found = list(runner.in_order(_call, shares, (function, stream, epoch, recipe.learning_rate, *options)))
    refuse_divergence(all(finite for _, finite in found), epoch, recipe)
    learned = [learner for some, _ in found for learner in some]
    if len(learned) != len(held):
        raise ValueError(
            f"the work folder holds {len(learned)} of {len(held)} networks after epoch {epoch + 1}, trained by another "
            "number of workers; take as many as before, or another folder"
        )
    return learned


def _call(share: Share, function, *shared):
    with kept_memory():
        return function(share, *shared)


def _workers(executor, n_networks: int) -> int:
    """How many tasks are done at once; a cluster has a task for every network, and places them itself."""
    if isinstance(executor, Serial):
        return 1
    return effective_n_jobs(executor.n_jobs) if isinstance(executor, Processes) else n_networks


def _train_share(share: Share, stream: RowStream, epoch: int, rate: float, n_jobs) -> tuple[list[Learner], bool]:
    """The learners after one more pass; those of the share stay as they are, for a cluster may train them twice."""
    kernels(stream.dtype)  # compiled or loaded here, before there are threads
    learners, finite = deepcopy(share.learners), True
    with Parallel(n_jobs=effective_n_jobs(n_jobs), require="sharedmem") as run:
        for buffer in stream.buffers(epoch):
            jobs = zip(learners, share.held, strict=True)
            finite &= all(run(delayed(_learn)(*one, buffer, rate) for one in jobs))
    return learners, finite


def _learn(learner: Learner, held: int, buffer: Buffer, rate: float) -> bool:
    rows = np.flatnonzero((buffer.fold != held) & (buffer.weight > 0))
    return learner.learn(*learner.prepared(buffer.X, buffer.y, buffer.weight, rows), np.arange(len(rows)), rate)


def _train_on_device(
    share: Share, stream: RowStream, epoch: int, rate: float, place: str, precision: str
) -> tuple[list[Learner], bool]:
    """The same on a GPU."""
    with lock:
        from bagwise.instances.networks import gpu
    announce("training networks", place)
    learners = deepcopy(share.learners)
    finite = gpu.learn_together(learners, share.held, stream.buffers(epoch), rate, place, precision)
    return learners, finite


def _ensemble(learner: Learner, y_scale: float, kept: np.ndarray, recipe: Recipe, n_jobs) -> NetworkEnsemble:
    """A network after each number of epochs, of which ``kept`` holds the parameters."""
    x_shift, x_factor, y_shift, _ = learner.scaling
    scaling = [np.tile(part, (len(kept), 1)) for part in (x_shift, x_factor)]
    scaling += [np.repeat(part, len(kept)) for part in (y_shift, y_scale)]
    return NetworkEnsemble((len(x_shift), *recipe.hidden, 1), kept, *scaling, n_jobs=n_jobs)
