"""Weigh the instances of a bag by how a model predicts them: the best one, or all but those far from the median.

A weighting knows where to start (`starts`) and what to make of a model's predictions (`step`); the loop around it is
`Reweighting`. Weights sum to one inside every bag, and an objective is better when lower. `Mixture` is the third.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator

from bagwise.bags import Bags
from bagwise.bags.segments import segment_median, segment_min, segment_sum
from bagwise.regressors.gate import Gate
from bagwise.regressors.task import Task


@dataclass(frozen=True)
class Step:
    """What a weighting makes of predictions: how good they are, and the weights for the next fit."""

    objective: float
    weights: np.ndarray
    number: int = 1
    variance: float | None = None
    gate: Gate | None = None


class Primary(BaseEstimator):
    """One instance of every bag, the one best predicted, carries the target: min_f Σ_i min_l (y_i - f(x_il))².

    Hard EM: choose the best predicted instance of every bag (ties share), fit on those, and again; the objective can
    only fall. It has many local minima (the exact one is NP-hard), so the loop starts from instance-MIR and again from
    ``restarts`` random hyperplanes. Their number and distribution (standard normal slopes on standardised features) are
    our choice.
    """

    soft = False

    def __init__(self, *, restarts: int = 10):
        self.restarts = restarts

    def starts(self, task: Task, random: np.random.Generator):
        yield task.equal_weights()
        X = task.bags.instances
        deviation = X.std(axis=0)
        for _ in range(self.restarts):
            slopes = random.normal(size=X.shape[1]) / np.sqrt(X.shape[1])
            plane = ((X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)) @ slopes
            yield _best_predicted(task, task.errors(plane))

    def step(self, task: Task, predictions, weights, last) -> Step:
        errors = task.errors(predictions)
        objective = task.share @ segment_min(errors, task.bags.offsets)
        return Step(float(objective), _best_predicted(task, errors))


class Pruning(BaseEstimator):
    """Drop, round by round, the instances predicted farthest from the median prediction of their bag.

    The largest bag keeps n ← ⌊(1 - rate) n⌋ instances in each round, and every other bag the same fraction of its own,
    at least one: for bags of equal size this is the schedule of the source. Instances equally far go together, so of
    two neither is dropped. The objective is the mean squared error of the medians of what is kept; the loop ends, and
    goes one round back, when it no longer falls.

    The "balanced" version resamples every bag to the size of the largest, with replacement; we give every kept instance
    the weight 1/(number kept in its bag) instead, which is what the resampling does on average, without the noise.
    """

    soft = True

    def __init__(self, *, rate: float = 0.05):
        self.rate = rate

    def starts(self, task: Task, random: np.random.Generator):
        if not 0.0 < self.rate < 1.0:
            raise ValueError(f"rate must lie between 0 and 1, not {self.rate!r}")
        yield task.equal_weights()

    def step(self, task: Task, predictions, weights, last) -> Step:
        kept = weights > 0
        counts = segment_sum(kept.astype(np.int64), task.bags.offsets)
        medians = segment_median(predictions[kept], np.concatenate([[0], np.cumsum(counts)]))
        objective = task.share @ (task.y - medians) ** 2
        number = 1 if last is None else last.number + 1
        distance = np.where(kept, np.abs(predictions - task.bags.expand(medians)), np.inf)
        near = smallest(task.bags, distance, np.minimum(self._schedule(task.bags.sizes, number), counts))
        return Step(float(objective), near / task.bags.expand(segment_sum(near, task.bags.offsets)), number)

    def _schedule(self, sizes: np.ndarray, rounds: int) -> np.ndarray:
        largest = left = int(sizes.max())
        for _ in range(rounds):
            left = int(np.floor((1.0 - self.rate) * left))
        return np.maximum(1, sizes * left // largest)


def _best_predicted(task: Task, errors: np.ndarray) -> np.ndarray:
    best = (errors == task.bags.expand(segment_min(errors, task.bags.offsets))).astype(np.float64)
    return best / task.bags.expand(segment_sum(best, task.bags.offsets))


def smallest(bags: Bags, values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """1 for the ``counts`` smallest values of every bag and those that tie with the last of them, 0 for the rest."""
    ordered = values[np.lexsort((values, bags.expand(np.arange(len(bags)))))]
    limit = ordered[bags.offsets[:-1] + counts - 1]
    return (values <= bags.expand(limit + 1e-9 * np.abs(limit) + 1e-12)).astype(np.float64)
