"""Where networks are trained: the CPU's engine, or a GPU's if one was asked for, or is there and worth it."""

from __future__ import annotations

import warnings
from importlib import import_module

from bagwise.devices import say, settled
from bagwise.first_use import lock
from bagwise.instances.network_fitting import train_networks
from bagwise.instances.network_layout import COLUMNS, ROWS, layout
from bagwise.instances.network_problem import Problem, Recipe, Trained

PRECISIONS = ("float32", "tf32")
WORTH = 2e12  # operations below which a GPU is not worth waking: about half a minute of one core
MANY = 8  # networks; a GPU trains one alone no sooner than a core does


def train_problems(problems: list[Problem], recipe: Recipe, *, device="cpu", precision="float32", n_jobs=None):
    """For every problem the list of its networks, `Trained`, by the engine of the device."""
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be 'float32' or 'tf32', not {precision!r}")
    place = placed(problems, recipe, device)
    if place == "cpu":
        return _on_cpu(problems, recipe, n_jobs)
    with lock:
        together = import_module("bagwise.instances.network_together")
    say("training networks", place)
    try:
        return together.train_together(problems, recipe, place, precision, n_jobs)
    except import_module("torch").OutOfMemoryError:
        warnings.warn(
            f"the memory of {place} does not hold one of these networks and its data; training on the CPU instead",
            UserWarning,
            stacklevel=2,
        )
        return _on_cpu(problems, recipe, n_jobs)


def placed(problems: list[Problem], recipe: Recipe, device: str) -> str:
    """Where this work is done: ``"cpu"``, or the name of a GPU."""
    return settled(device, worth=_worth(problems, recipe))


def _worth(problems: list[Problem], recipe: Recipe) -> bool:
    return sum(problem.n_networks for problem in problems) >= MANY and operations(problems, recipe) >= WORTH


def operations(problems: list[Problem], recipe: Recipe) -> float:
    """Multiplications and additions of the whole training."""
    rows = sum(float(problem.n_networks) * len(problem.y) for problem in problems)
    plan = layout((problems[0].X.shape[1], *recipe.hidden, 1))
    return 6.0 * rows * recipe.epochs[-1] * float((plan[:, ROWS] * plan[:, COLUMNS]).sum())


def _on_cpu(problems, recipe: Recipe, n_jobs) -> list[list[Trained]]:
    return [train_networks(problem, recipe, n_jobs=n_jobs) for problem in problems]
