"""The members of an attention ensemble: what each learns from, their training as few jobs, and their average."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from joblib import Parallel, delayed

from bagwise.regressors.attention_network import Network
from bagwise.regressors.attention_recipe import Recipe
from bagwise.regressors.attention_training import ROWS, Samples, Task, Trained, cut, one_order, train
from bagwise.regressors.predictive import TargetScale

LARGEST = 2**22  # numbers in the largest array of a training step: so many networks are trained at once


@dataclass(frozen=True)
class Member:
    """A trained network: parameters by name, the scale of its targets, and how it was stopped.

    ``error`` is the mean squared error on its held-out bags, relative to that of predicting the mean.
    """

    parameters: dict[str, np.ndarray]
    target: TargetScale
    error: float
    epochs: int


@dataclass(frozen=True)
class Split:
    """The bags, as a mask each, that a member learns from and is stopped by."""

    learn: np.ndarray
    held: np.ndarray

    @classmethod
    def of(cls, seen: np.ndarray, fold: np.ndarray, restart: int) -> Split:
        """Hold out one fold of the bags that may be seen; each restart another, so that most learn from any bag."""
        folds = np.unique(fold[seen])
        held = seen & (fold == folds[restart % len(folds)])
        learn = seen & ~held
        return cls(learn if learn.any() else held, held)  # all of one group: stopped by what it learns from


def train_members(network: Network, shown, offsets, y, weight, splits: list[Split], recipe: Recipe, n_jobs=None):
    """A `Member` for every split; ``shown`` are rows and moments. The numbers do not depend on ``n_jobs``."""
    scales = [TargetScale.of(y, weight * (split.learn | split.held)) for split in splits]
    task = _task(y, weight, splits, scales)
    starts = np.stack([network.initial(np.random.default_rng([recipe.seed, i])) for i in range(len(splits))])
    on_gpu = not recipe.device.startswith("cpu")
    largest = max(int(np.diff(offsets).max()), min(ROWS, int(recipe.batch_size * np.diff(offsets).mean())))
    at_once = max(1, (64 if on_gpu else 1) * LARGEST // (largest * max(network.read)))
    jobs = [slice(i, i + at_once) for i in range(0, len(splits), at_once)]
    parts = Parallel(n_jobs=1 if on_gpu else n_jobs)(
        delayed(_job)(network, shown, offsets, task[job], starts[job], recipe) for job in jobs
    )
    trained = [one for part in parts for one in zip(part.vectors, part.errors, part.epochs, strict=True)]
    return [
        Member(network.named(vector), scale, float(error), int(epochs))
        for (vector, error, epochs), scale in zip(trained, scales, strict=True)
    ]


def attend(network: Network, members: list[Member], shown, offsets) -> tuple[np.ndarray, np.ndarray]:
    """Predictions of the bags and attention of the instances, averaged over members.

    In double precision, a member at a time: a bag's numbers hardly know its company, and memory stays small.
    """
    samples = Samples(shown[0], offsets, shown[1], dtype=torch.float64)
    predictions, attention = np.zeros(len(offsets) - 1), np.zeros(offsets[-1])
    with one_order(), torch.no_grad():
        for positions in cut(np.arange(len(predictions)), samples.sizes, len(predictions)):
            batch = samples.batch(positions)
            rows = slice(offsets[positions[0]], offsets[positions[-1] + 1])
            for member, parameters in _as_tensors(members):
                outputs, weights = network(parameters, batch)
                predictions[positions] += member.target.mean + member.target.scale * outputs[:, 0].numpy()
                attention[rows] += weights[:, 0].numpy()
    return predictions / len(members), attention / len(members)


def _as_tensors(members: list[Member]) -> Iterator[tuple[Member, dict]]:
    for member in members:
        yield member, {name: torch.from_numpy(a).double()[None] for name, a in member.parameters.items()}


def _task(y, weight, splits: list[Split], scales: list[TargetScale]) -> Task:
    targets = np.stack([scale.standardised(y) for scale in scales], axis=1)
    learn, held = (weight[:, None] * np.stack([getattr(s, what) for s in splits], axis=1) for what in ("learn", "held"))
    held = held / held.sum(axis=0)
    by_the_mean = (held * targets**2).sum(axis=0)
    return Task(targets, learn / learn.mean(axis=0), held / np.where(by_the_mean > 0, by_the_mean, 1.0))


def _job(network, shown, offsets, task: Task, starts, recipe: Recipe) -> Trained:
    return train(network, Samples(shown[0], offsets, shown[1], device=recipe.device), task, starts, recipe)
