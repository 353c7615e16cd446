"""Training many networks at once on the CPU: one network per core, each on all rows but those of its fold."""

from __future__ import annotations

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from bagwise.instances.network_compiling import frozen, kernels
from bagwise.instances.network_layout import layout
from bagwise.instances.network_problem import Problem, Recipe, Trained, initial_parameters, inverse, refuse_divergence


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
