"""Training the networks of one or many cross-fits together on a device, in as few launches as its memory allows."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from itertools import groupby

import numpy as np
import torch
from torch import Tensor

from bagwise.first_use import lock
from bagwise.instances import network_orders
from bagwise.instances.network_batched import Batched, forward, products, scaled_rows
from bagwise.instances.network_group import Data, Group, gather, upload
from bagwise.instances.network_layout import BIAS_AT, COLUMNS, layout
from bagwise.instances.network_problem import Problem, Recipe, Trained, refuse_divergence

SHARE = 0.6  # of the free memory that one group of networks may take
LARGEST = 2**28  # numbers in an array of activations


def train_together(problems: list[Problem], recipe: Recipe, device: str, precision="float32", n_jobs=None):
    """For every problem the list of its trained networks; all problems have the same number of features.

    A network's first weights, rows and permutations do not depend on its company, so the problems could as well be
    trained one by one; only the rounding of batched products may differ.
    """
    try:
        uploaded = upload(problems, recipe, device)
    except torch.OutOfMemoryError:
        if len(problems) == 1:
            raise
        torch.cuda.empty_cache()
        half = len(problems) // 2
        parts = problems[:half], problems[half:]
        return [found for part in parts for found in train_together(part, recipe, device, precision, n_jobs)]
    found: list[list[Trained]] = [[] for _ in problems]
    for some, data in uploaded:
        trained = iter(_in_groups([problems[j] for j in some], data, recipe, precision, n_jobs))
        for j in some:
            found[j] = [next(trained) for _ in range(problems[j].n_networks)]
    return found


def _in_groups(problems: list[Problem], data: Data, recipe: Recipe, precision: str, n_jobs) -> list[Trained]:
    """All networks of the problems, as many at a time as the device has room for."""
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
    return trained


def engines(plan, device: str):
    """The engine for networks of this shape, and the function that permutes their rows."""
    if torch.device(device).type == "cuda" and find_spec("triton"):
        with lock:
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
    kept = torch.stack(run_epochs(group, recipe, precision), dim=1)
    parameters = kept[:, :, : int(group.plan[-1, BIAS_AT]) + 1].contiguous().cpu().numpy()
    trained = []
    for j, own in groupby(range(len(members)), lambda e: members[e][0]):
        own = list(own)
        held = [problems[j].held(members[e][1]) for e in own]
        part = slice(own[0], own[-1] + 1)
        outputs = _held_outputs(group, kept[part], part, [rows + data.starts[j] for rows in held], precision)
        for e, rows, said in zip(own, held, outputs, strict=True):
            k = members[e][1]
            said = problems[j].y_shift[k] + problems[j].y_scale[k] * said[: len(rows)]
            trained.append(Trained(problems[j].ensemble(k, parameters[e], recipe, n_jobs), rows, said))
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
def _held_outputs(group: Group, kept: Tensor, part: slice, held: list[np.ndarray], precision: str) -> np.ndarray:
    """What the networks of one problem say of rows held out, (networks, longest, epochs kept), each in its own units.

    One problem at a time: products of other sizes may round differently, and its company must not be felt.
    """
    rows = np.zeros((len(held), max(map(len, held), default=0)), dtype=np.int64)
    for e, own in enumerate(held):
        rows[e, : len(own)] = own
    said = np.empty((*rows.shape, kept.shape[1]))
    step = max(1, LARGEST // max(1, rows.shape[1] * (int(group.plan[:, COLUMNS].max()) + group.data.X.shape[1])))
    with products(precision):
        for at in range(0, len(held), step):
            some = slice(part.start + at, min(part.start + at + step, part.stop))
            own = replace(group, x_shift=group.x_shift[some], x_factor=group.x_factor[some])
            x = scaled_rows(own, torch.from_numpy(rows[at : at + step]).to(group.rows.device))
            for i in range(kept.shape[1]):
                outputs = forward(kept[at : at + step, i], group.plan, x)[-1][..., 0]
                said[at : at + step, :, i] = outputs.cpu().numpy()
    return said
