"""Many networks on one device, ready to be trained together: data, rows, scaling and parameters as tensors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bagwise.instances.network_layout import ROWS, layout
from bagwise.instances.network_orders import epoch_keys
from bagwise.instances.network_problem import Problem, Recipe, initial_parameters, inverse

STEEP = 256.0  # a network that magnifies a column more than this is given it in double precision


@dataclass(frozen=True)
class Data:
    """The rows of several problems, one after the other, every column about 0 and of size 1 in its problem.

    ``X`` (rows, features padded as in `layout`), ``targets`` and ``weight`` (rows,), the latter None if all are one.
    ``starts`` are the first rows of the problems; ``centre`` and ``size`` what was taken off and divided by, the target
    being the last column.
    """

    X: Tensor
    targets: Tensor
    weight: Tensor | None
    starts: np.ndarray
    centre: np.ndarray
    size: np.ndarray


@dataclass(frozen=True)
class Group:
    """Networks trained together; ``parameters`` and the moments of Adam (networks, padded) change in place."""

    data: Data
    plan: np.ndarray
    rows: Tensor  # (networks, longest), of which the first ``counts`` are a network's own
    counts: Tensor
    batches: Tensor
    x_shift: Tensor
    x_factor: Tensor
    y_shift: Tensor
    y_factor: Tensor
    decay: Tensor
    keys: Tensor  # (epochs, networks, rounds)
    parameters: Tensor
    first: Tensor
    second: Tensor

    def __len__(self) -> int:
        return len(self.parameters)


def upload(problems: list[Problem], recipe: Recipe, device) -> list[tuple[list[int], Data]]:
    """The rows of the problems on the device, with the numbers of the problems.

    Those of single precision come first, then those where a network needs more: a problem is stored as it would be
    alone.
    """
    parts = [_standardised(problem, recipe, device) for problem in problems]
    steep = [_steepest(problem, size) > STEEP for problem, (_, _, size) in zip(problems, parts, strict=True)]
    uploaded = []
    for dtype, wanted in ((torch.float32, False), (torch.float64, True)):
        some = [j for j in range(len(problems)) if steep[j] == wanted]
        if some:
            uploaded.append((some, _joined([problems[j] for j in some], [parts[j] for j in some], dtype, device)))
    return uploaded


def _joined(problems: list[Problem], parts: list[tuple], dtype, device) -> Data:
    centre, size = (np.stack([part[i] for part in parts]) for i in (1, 2))
    starts = np.cumsum([0] + [len(problem.y) for problem in problems])
    features = problems[0].X.shape[1]
    X = torch.zeros((starts[-1], layout((features, 1))[0, ROWS]), dtype=dtype, device=device)
    targets = torch.empty(starts[-1], dtype=dtype, device=device)
    for start, (rows, *_) in zip(starts, parts, strict=False):
        X[start : start + len(rows), :features] = rows[:, :-1]
        targets[start : start + len(rows)] = rows[:, -1]
    plain = all((problem.weight == 1).all() for problem in problems)
    weight = None if plain else torch.from_numpy(np.concatenate([p.weight for p in problems])).to(device)
    return Data(X, targets, weight, starts, centre, size)


def _standardised(problem: Problem, recipe: Recipe, device) -> tuple[Tensor, np.ndarray, np.ndarray]:
    """Features and target as columns, and what was taken off and divided by (nothing, where scaling is not wanted)."""
    X, y = (torch.tensor(a, device=device).double() for a in (problem.X, problem.y))
    rows = torch.cat([X, y[:, None]], dim=1)
    scaled = torch.tensor([recipe.standardise] * X.shape[1] + [recipe.scale_target], device=device)
    centre = torch.where(scaled, rows.mean(dim=0), 0.0)
    rows -= centre
    size = (rows**2).mean(dim=0).sqrt()
    size = torch.where(scaled & (size > 0), size, 1.0)
    return rows / size, centre.cpu().numpy(), size.cpu().numpy()


def _steepest(problem: Problem, size: np.ndarray) -> float:
    """The most that a network magnifies a column, the target among them."""
    return max(
        (inverse(problem.x_scale) * size[:-1]).max(initial=0.0), (inverse(problem.y_scale) * size[-1]).max(initial=0.0)
    )


def gather(problems: list[Problem], data: Data, members: list[tuple[int, int]], recipe: Recipe) -> Group:
    """The networks (problem, fold) in ``members`` as one group, with their first weights."""
    device, dtype = data.X.device, data.X.dtype
    plan = layout((problems[0].X.shape[1], *recipe.hidden, 1))
    seeds = [(problems[j].seed, k) for j, k in members]
    drawn = {seed: _draw(plan, recipe, *seed) for seed in set(seeds)}  # the folds of a repeat share theirs
    draws = [drawn[seed] for seed in seeds]
    rows, counts = _own_rows(problems, data, members)
    batches = [recipe.batch(int(count)) for count in counts]
    plain = data.weight is None
    mean = [1.0 if plain else float(problems[j].weight[problems[j].rows(k)].mean()) for j, k in members]
    parameters = np.zeros((len(members), -(-len(draws[0][0]) // 16) * 16), dtype=np.float32)
    parameters[:, : len(draws[0][0])] = [draw[0] for draw in draws]
    start = torch.from_numpy(parameters).to(device)
    keys = np.stack([draw[1] for draw in draws], axis=1).astype(np.int64)
    return Group(
        data, plan, rows, torch.tensor(counts, dtype=torch.int32, device=device),
        torch.tensor(batches, dtype=torch.int32, device=device),
        *(torch.as_tensor(part, dtype=dtype, device=device) for part in _scaling(problems, data, members)),
        recipe.weight_decay * torch.tensor(mean, device=device),
        torch.from_numpy(keys).to(device), start, torch.zeros_like(start), torch.zeros_like(start),
    )  # fmt: skip


def _draw(plan, recipe: Recipe, seed: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """First weights, the same as on the CPU, and the keys of the permutations."""
    rng = np.random.default_rng([seed, k])
    return initial_parameters(plan, rng), epoch_keys(rng, recipe.epochs[-1])


def _own_rows(problems, data: Data, members) -> tuple[Tensor, np.ndarray]:
    """The rows of every network, in order, filled up with zeros; and how many there are."""
    parts = []
    for j in dict.fromkeys(j for j, _ in members):
        folds = torch.tensor([k for i, k in members if i == j], device=data.X.device)
        fold = torch.from_numpy(problems[j].fold.astype(np.int64)).to(data.X.device)
        used = torch.from_numpy(problems[j].weight > 0).to(data.X.device)
        mask = (fold[None] != folds[:, None]) & used[None]
        parts.append((mask, mask.sum(dim=1), int(data.starts[j])))
    counts = torch.cat([count for _, count, _ in parts])
    rows = torch.zeros((len(members), int(counts.max())), dtype=torch.int32, device=data.X.device)
    first = 0
    for mask, count, start in parts:
        network, row = mask.nonzero(as_tuple=True)
        place = torch.arange(len(row), device=row.device) - (count.cumsum(0) - count)[network]
        rows[first + network, place] = (row + start).int()
        first += len(mask)
    return rows, counts.cpu().numpy()


def _scaling(problems, data: Data, members) -> list[np.ndarray]:
    """Shift and factor of X and of y for every network, in the units of `Data`."""
    width, last = data.X.shape[1], data.centre.shape[1] - 1
    x_shift, x_factor = np.zeros((2, len(members), width))
    y_shift, y_factor = np.zeros((2, len(members)))
    for e, (j, k) in enumerate(members):
        problem, centre, size = problems[j], data.centre[j], data.size[j]
        x_shift[e, :last] = (problem.x_shift[k] - centre[:-1]) / size[:-1]
        x_factor[e, :last] = inverse(problem.x_scale[k]) * size[:-1]
        y_shift[e] = (problem.y_shift[k] - centre[-1]) / size[-1]
        y_factor[e] = inverse(problem.y_scale[[k]])[0] * size[-1]
    return [x_shift, x_factor, y_shift, y_factor]
