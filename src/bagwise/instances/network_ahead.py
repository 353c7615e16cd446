"""Networks of many cross-fits trained ahead, together, and found again when the cross-fit's turn comes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import joblib
from joblib import Parallel, delayed

from bagwise.devices import gpu
from bagwise.instances.network import NetworkRegressor
from bagwise.instances.network_devices import placed, train_problems
from bagwise.instances.network_problem import Problem, Recipe, Trained

THREADS = 8


class TrainedAhead(NetworkRegressor):
    """A `NetworkRegressor` that looks for its networks among those `train_ahead` made before it trains any.

    Networks are found by all that they depend on, so this one and its copies give what the regressor gives that it
    was made of (`of`), on any data and with any parameters; only the wait is shorter.
    """

    @classmethod
    def of(cls, regressor: NetworkRegressor, known: dict[str, list[Trained]]) -> TrainedAhead:
        made = cls(**regressor.get_params(deep=False))
        made.known = known
        return made

    def __sklearn_clone__(self) -> TrainedAhead:
        return self.of(super().__sklearn_clone__(), self.known)

    def _train(self, problems: list[Problem], recipe: Recipe, n_jobs):
        found = [self.known.get(_key(self, problem, recipe)) for problem in problems]
        return super()._train(problems, recipe, n_jobs) if None in found else found


def can_train_ahead(regressor) -> bool:
    """Whether it is made of networks, and a GPU was asked for, or is there."""
    if not isinstance(regressor, NetworkRegressor) or regressor.device == "cpu":
        return False
    return regressor.device != "auto" or gpu()


def train_ahead(asked: list[tuple[NetworkRegressor, tuple]]) -> list[tuple[str, list[Trained]] | None]:
    """For every (regressor, (X, y, fold, sample_weight)) the name and the networks of its cross-fit.

    All networks of one shape are trained together, whatever their seeds. None stands for those that belong on the CPU:
    that is settled for every cross-fit by itself, since its company must not change its numbers.
    """
    found: list = [None] * len(asked)
    alike = defaultdict(list)
    gpu()  # torch is imported here, before there are threads
    # By threads: a GPU should not wait long for sums and hashes.
    prepared = Parallel(n_jobs=THREADS, require="sharedmem")(delayed(_prepared)(*one) for one in asked)
    for at, (where, key, problem) in enumerate(prepared):
        if where[0] != "cpu":
            alike[where].append((at, key, problem))
    for (place, precision, _, recipe), members in alike.items():
        problems = [problem for _, _, problem in members]
        trained = train_problems(problems, recipe, device=place, precision=precision)
        for (at, key, _), networks in zip(members, trained, strict=True):
            found[at] = key, networks
    return found


def _prepared(regressor: NetworkRegressor, rows: tuple) -> tuple[tuple, str, Problem]:
    """Where and how, the same for all that can be trained together; the name; and what to train."""
    problem, recipe = regressor.problem(*rows)
    place = placed([problem], recipe, regressor.device)
    shape = (place, regressor.precision, problem.X.shape[1], replace(recipe, seed=0))
    return shape, _key(regressor, problem, recipe), problem


def _key(regressor: NetworkRegressor, problem: Problem, recipe: Recipe) -> str:
    """A hash of all that the networks of a problem depend on."""
    where = (regressor.device, regressor.precision)
    rows = (problem.X, problem.y, problem.weight, problem.fold, problem.n_networks)
    return joblib.hash((where, rows, recipe), hash_name="sha1", coerce_mmap=True)
