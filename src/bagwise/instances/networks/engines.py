"""Where networks are trained: the CPU's engine, or a GPU's if one was asked for, or is there and worth it.

Training many networks at once on the CPU: one network per core, each on all rows but those of its fold.
"""

from __future__ import annotations

import warnings

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from bagwise.execution.devices import say, settled
from bagwise.first_use import lock
from bagwise.instances.networks.ensemble import COLUMNS, ROWS, frozen, kernels, layout
from bagwise.instances.networks.training_data import (
    Problem,
    Recipe,
    Trained,
    initial_parameters,
    inverse,
    refuse_divergence,
)


def train_networks(problem: Problem, recipe: Recipe, *, n_jobs=None) -> list[Trained]:
    """All networks of a problem.

    The arithmetic of a network is sequential and its random stream is its own, so ``n_jobs`` (how many threads, each
    training one network without the interpreter's lock) changes the time and nothing else. Nor does a backend of
    joblib's that somebody chose: processes, or the workers of a cluster.
    """
    kernels(problem.X.dtype)  # compiled or loaded here, before there are threads
    # effective_n_jobs: with None, joblib's context counts, also where it speaks of processes and we take threads
    run = Parallel(n_jobs=effective_n_jobs(n_jobs), prefer="threads")
    return run(delayed(_train)(problem, recipe, k, n_jobs) for k in range(problem.n_networks))


def _train(problem: Problem, recipe: Recipe, k: int, n_jobs) -> Trained:
    held = problem.held(k)
    networks = problem.ensemble(k, _train_one(problem, recipe, k), recipe, n_jobs)
    return Trained(networks, held, networks.predict_each(problem.X, held))


def _train_one(problem: Problem, recipe: Recipe, k: int) -> np.ndarray:
    """The parameters after each number of epochs asked for, shape (epochs, parameters)."""
    X, weight, rows = problem.X, problem.weight, problem.rows(k)
    compiled, rng = kernels(X.dtype), np.random.default_rng([problem.seed, k])
    plan = layout((X.shape[1], *recipe.hidden, 1))
    parameters = initial_parameters(plan, rng)
    memory = np.zeros((3, len(parameters)), dtype=np.float32)
    stream = rng.integers(2**64, size=1, dtype=np.uint64)
    batch = recipe.batch(len(rows))
    decay = recipe.weight_decay * float(weight[rows].mean())  # as if the weights of these rows had mean one
    scaling = (frozen(problem.x_shift[k]), frozen(inverse(problem.x_scale[k])))
    scaling += (problem.y_shift[k], float(inverse(problem.y_scale[[k]])[0]))
    data = (*map(frozen, (X, problem.y, weight, rows)), scaling)
    kept = []
    for epoch in range(recipe.epochs[-1]):
        compiled.shuffle(rows, stream)
        steps = epoch * -(-len(rows) // batch)
        model = (frozen(plan), parameters, memory)
        loss = compiled.train_epoch(*data, *model, batch, recipe.learning_rate, decay, steps)
        refuse_divergence(bool(np.isfinite(loss) and np.isfinite(parameters).all()), epoch, recipe)
        if epoch + 1 in recipe.epochs:
            kept.append(parameters.copy())
    return np.array(kept)


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
        import torch

        from bagwise.instances.networks import gpu as together

    say("training networks", place)
    try:
        return together.train_together(problems, recipe, place, precision, n_jobs)
    except torch.OutOfMemoryError:
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
