"""Training the networks of one or many cross-fits together on a device, in as few launches as its memory allows."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import torch
from torch import Tensor

from bagwise.instances import network_orders
from bagwise.instances.network_batched import Batched, forward, products, scaled_rows
from bagwise.instances.network_ensemble import NetworkEnsemble
from bagwise.instances.network_group import Data, Group, gather, upload
from bagwise.instances.network_layout import BIAS_AT, COLUMNS, ROWS, layout
from bagwise.instances.network_problem import Problem, Recipe, Trained, refuse_divergence

SHARE = 0.6  # of the free memory that one group of networks may take
LARGEST = 2**28  # numbers in an array of activations


def train_together(problems: list[Problem], recipe: Recipe, device: str, precision="float32", n_jobs=None):
    """For every problem the list of its trained networks; all problems have the same number of features.

    A network's first weights, rows and permutations do not depend on its company, so the problems could as well be
    trained one by one; only the rounding of batched products may differ.
    """
    data = upload(problems, recipe, device)
    members = [(j, k) for j, problem in enumerate(problems) for k in range(problem.n_networks)]
    size, trained, at = _at_once(problems, recipe, data), [], 0
    while at < len(members):
        try:
            trained += _train(problems, data, members[at : at + size], recipe, precision, n_jobs)
            at += size
        except torch.OutOfMemoryError:
            if size == 1:
                raise
            size = max(1, min(size, len(members) - at) // 2)
            torch.cuda.empty_cache()
    found = iter(trained)
    return [[next(found) for _ in range(problem.n_networks)] for problem in problems]


def engines(plan, device: str):
    """The engine for networks of this shape, and the function that permutes their rows."""
    if torch.device(device).type == "cuda" and find_spec("triton"):
        fused, streamed, orders = (
            import_module(f"bagwise.instances.network_{name}") for name in ("fused", "streamed", "orders_fused")
        )
        if fused.fits(plan):
            return fused.Fused, orders.shuffled
        return (streamed.Streamed if streamed.fits(plan) else Batched), orders.shuffled
    return Batched, network_orders.shuffled


def _at_once(problems, recipe: Recipe, data: Data) -> int:
    """How many networks the free memory holds: orders of rows, weights and moments, activations of a batch."""
    if data.X.device.type != "cuda":
        return 64
    longest = max(len(problem.y) for problem in problems)
    plan = layout((problems[0].X.shape[1], *recipe.hidden, 1))
    weights = int(plan[-1, BIAS_AT]) * (8 + len(recipe.epochs))
    batched = engines(plan, "cuda")[0] is Batched
    activations = 6 * recipe.batch(longest) * int(data.X.shape[1] + plan[:, COLUMNS].sum()) if batched else 0
    free = torch.cuda.mem_get_info(data.X.device)[0]
    return max(1, int(SHARE * free / (12 * longest + 4 * (weights + activations))))


def _train(problems, data: Data, members, recipe: Recipe, precision: str, n_jobs) -> list[Trained]:
    group = gather(problems, data, members, recipe)
    kept = run_epochs(group, recipe, precision)
    held = [problems[j].held(k) for j, k in members]
    outputs = [
        _held_outputs(group, parameters, held, data.starts[[j for j, _ in members]], precision) for parameters in kept
    ]
    parameters = torch.stack(kept, dim=1)[:, :, : int(group.plan[-1, BIAS_AT]) + 1].contiguous().cpu().numpy()
    trained = []
    for e, (j, k) in enumerate(members):
        said = np.stack([column[e, : len(held[e])] for column in outputs], axis=1).astype(np.float64)
        said = problems[j].y_shift[k] + problems[j].y_scale[k] * said
        trained.append(Trained(problems[j].ensemble(k, parameters[e], recipe, n_jobs), held[e], said))
    return trained


def run_epochs(group: Group, recipe: Recipe, precision: str) -> list[Tensor]:
    """Train; the parameters after each number of epochs asked for."""
    Engine, shuffled = engines(group.plan, group.rows.device)
    engine, sizes, kept = Engine(group, precision), step_sizes(group, recipe), []
    for epoch in range(recipe.epochs[-1]):
        order = shuffled(group.rows, group.counts, group.keys[epoch])
        try:
            loss = engine.epoch(order, sizes, epoch)
        except Exception as error:
            if type(error).__name__ != "OutOfResources":  # triton's: this card has no room for such a kernel
                raise
            engine = Batched(group, precision)
            loss = engine.epoch(order, sizes, epoch)
        refuse_divergence(bool(torch.isfinite(loss.sum() + group.parameters.sum())), epoch, recipe)
        if epoch + 1 in recipe.epochs:
            kept.append(group.parameters.clone())
    return kept


def step_sizes(group: Group, recipe: Recipe) -> Tensor:
    """Of every step of Adam, its length with the correction for moments that began at zero; in double, then rounded."""
    n_steps = int((-(-group.counts // group.batches)).max())
    steps = np.arange(1, recipe.epochs[-1] * n_steps + 1)
    sizes = recipe.learning_rate * np.sqrt(1 - 0.999**steps) / (1 - 0.9**steps)
    return torch.from_numpy(sizes.astype(np.float32)).to(group.rows.device)


@torch.no_grad()
def _held_outputs(group: Group, parameters: Tensor, held, starts, precision: str) -> np.ndarray:
    """What every network says of the rows held out from it, (networks, longest), in its own units."""
    rows = np.zeros((len(held), max(map(len, held), default=0)), dtype=np.int64)
    for e, (own, start) in enumerate(zip(held, starts, strict=True)):
        rows[e, : len(own)] = own + start
    said = np.empty(rows.shape, dtype=np.float32)
    widest = int(group.plan[:, COLUMNS].max()) + group.data.X.shape[1]
    step = max(1, LARGEST // max(1, rows.shape[1] * widest))
    with products(precision):
        for at in range(0, len(held), step):
            some = slice(at, at + step)
            part = replace(group, x_shift=group.x_shift[some], x_factor=group.x_factor[some])
            x = scaled_rows(part, torch.from_numpy(rows[some]).to(group.rows.device))
            said[some] = forward(parameters[some], group.plan, x)[-1][..., 0].cpu().numpy()
    return said


@torch.no_grad()
def predict_on(device: str, ensemble: NetworkEnsemble, X: np.ndarray) -> np.ndarray:
    """What ``ensemble.predict(X)`` gives, to rounding, computed on a device."""
    plan, D = layout(ensemble.sizes), ensemble.sizes[0]
    flat = torch.tensor(ensemble.parameters, device=device)
    parts = (
        ensemble.x_shift[:, None],
        ensemble.x_factor[:, None],
        ensemble.y_shift[:, None],
        ensemble.y_scale[:, None],
    )
    x_shift, x_factor, y_shift, y_scale = (torch.tensor(part, dtype=torch.float64, device=device) for part in parts)
    step = max(1, LARGEST // (len(ensemble) * int(plan[:, [ROWS, COLUMNS]].max())))
    said = []
    with products("float32"):
        for at in range(0, len(X), step):
            rows = (torch.tensor(X[at : at + step], device=device).double() - x_shift) * x_factor
            rows = torch.nn.functional.pad(rows.float(), (0, int(plan[0, ROWS]) - D))
            said.append((y_shift + y_scale * forward(flat, plan, rows)[-1][..., 0]).mean(dim=0))
    return torch.cat(said).cpu().numpy()
