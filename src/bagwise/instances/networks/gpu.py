"""Training of the networks of one or several cross-fits together on a GPU, as many at once as its memory allows.

Small networks with one or two hidden layers are trained by fused kernels where triton is installed (`triton_kernels`);
all others by batched matrix products of torch, on any of its devices.

In each epoch the rows of each network are permuted, and each position is computed independently, without sorting or
swaps. Positions 0, ..., n - 1 are written as pairs (l, r), position = l a + r with a about the root of n. A round adds
a hash of one half to the other, modulo its size (a Feistel network). This is invertible and so permutes the a b >= n
pairs. A position that is mapped to n or above is mapped again until it is below n, which permutes the n positions.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec

import numpy as np
import torch
from torch import Tensor

from bagwise.first_use import lock
from bagwise.instances.networks.cpu import (
    BIAS_AT,
    COLUMNS,
    LEAST,
    ROWS,
    WEIGHT_AT,
    Learner,
    Problem,
    Recipe,
    Trained,
    initial_parameters,
    inverse,
    layout,
    refuse_divergence,
)

ROUNDS = 6
_LOW = 0xFFFFFFFF  # unsigned 32-bit arithmetic in signed 64


def epoch_keys(rng: np.random.Generator, epochs: int) -> np.ndarray:
    """Draw the keys of a network's permutations, (epochs, rounds); a longer run begins with those of a shorter one."""
    return rng.integers(2**32, size=(epochs, ROUNDS), dtype=np.uint32)


def side(n: Tensor) -> Tensor:
    """Return a, the size of the right half: the root of n, rounded up."""
    return n.double().sqrt().ceil().long()


def shuffled(rows: Tensor, counts: Tensor, keys: Tensor) -> Tensor:
    """Permute the first ``counts[e]`` entries of each row of ``rows`` (networks, longest) by ``keys[e]``.

    Examples
    --------
    >>> import torch
    >>> rows = torch.tensor([[10, 11, 12, 13, 14], [20, 21, 22, 0, 0]])
    >>> order = shuffled(rows, torch.tensor([5, 3]), torch.arange(12).reshape(2, 6))
    >>> [sorted(order[0].tolist()), sorted(order[1, :3].tolist())]
    [[10, 11, 12, 13, 14], [20, 21, 22]]
    """
    n, keys = counts.long()[:, None], keys.long()
    place = torch.arange(rows.shape[1], device=rows.device).expand(rows.shape)
    place = torch.where(place < n, place, 0)
    place = _round_trip(place, n, keys)
    while (away := place >= n).any():
        place = torch.where(away, _round_trip(place, n, keys), place)
    return rows.gather(1, place)


def _round_trip(place: Tensor, n: Tensor, keys: Tensor) -> Tensor:
    a = side(n)
    b = (n + a - 1) // a
    high, low = place // a, place % a
    for i in range(0, ROUNDS, 2):
        high = (high + _hash(low ^ keys[:, i, None], b)) % b
        low = (low + _hash(high ^ keys[:, i + 1, None], a)) % a
    return high * a + low


def _hash(x: Tensor, size: Tensor) -> Tensor:
    """Return a hash of x below ``size``: the final mix of MurmurHash3, scaled."""
    x = ((x ^ (x >> 16)) * 0x85EBCA6B) & _LOW
    x = ((x ^ (x >> 13)) * 0xC2B2AE35) & _LOW
    return ((x ^ (x >> 16)) * size) >> 32


STEEP = 256.0  # columns that a network magnifies more than this are stored in double precision


@dataclass(frozen=True)
class Data:
    """Rows of several problems, one after the other, with columns standardised per problem.

    ``X`` has shape (rows, features padded as in `layout`), ``targets`` and ``weight`` (rows,); ``weight`` is None if
    all are one. ``starts`` are the first rows of the problems. ``centre`` and ``size`` are the shift and scale of the
    columns, with the target as the last column.
    """

    X: Tensor
    targets: Tensor
    weight: Tensor | None
    starts: np.ndarray
    centre: np.ndarray
    size: np.ndarray


@dataclass(frozen=True)
class Group:
    """Networks trained together; their parameters and the moments of Adam (networks, padded) change in place."""

    data: Data
    plan: np.ndarray
    rows: Tensor  # (networks, longest); the first ``counts`` of a line are the training rows of a network
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
    """Copy the rows of the problems to the device, and return them with the indices of the problems.

    Problems in single precision come first, then those that need double precision. A problem is stored as it would be
    alone.
    """
    parts = [_standardised(problem, recipe, device) for problem in problems]
    steep = [_steepest(problem, size) > STEEP for problem, (_, _, size) in zip(problems, parts, strict=True)]
    uploaded = []
    for dtype, is_steep in ((torch.float32, False), (torch.float64, True)):
        indices = [j for j in range(len(problems)) if steep[j] == is_steep]
        if indices:
            data = _joined([problems[j] for j in indices], [parts[j] for j in indices], dtype, device)
            uploaded.append((indices, data))
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
    """Return features and target as standardised columns, with shift and scale (0 and 1 without standardisation)."""
    X, y = (torch.tensor(a, device=device).double() for a in (problem.X, problem.y))
    rows = torch.cat([X, y[:, None]], dim=1)
    scaled = torch.tensor([recipe.standardise] * X.shape[1] + [recipe.scale_target], device=device)
    centre = torch.where(scaled, rows.mean(dim=0), 0.0)
    rows -= centre
    size = (rows**2).mean(dim=0).sqrt()
    size = torch.where(scaled & (size > 0), size, 1.0)
    return rows / size, centre.cpu().numpy(), size.cpu().numpy()


def _steepest(problem: Problem, size: np.ndarray) -> float:
    """Return the largest factor by which a network magnifies a column or the target."""
    return max(
        (inverse(problem.x_scale) * size[:-1]).max(initial=0.0), (inverse(problem.y_scale) * size[-1]).max(initial=0.0)
    )


def gather(problems: list[Problem], data: Data, members: list[tuple[int, int]], recipe: Recipe) -> Group:
    """Return the networks (problem, fold) in ``members`` as one group, with their initial weights."""
    device, dtype = data.X.device, data.X.dtype
    plan = layout((problems[0].X.shape[1], *recipe.hidden, 1))
    seeds = [(problems[j].seed, k) for j, k in members]
    drawn = {seed: _draw(plan, recipe, *seed) for seed in set(seeds)}  # the folds of a repeat share a seed
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
    """Draw the initial weights, the same as on the CPU, and the keys of the permutations."""
    rng = np.random.default_rng([seed, k])
    return initial_parameters(plan, rng), epoch_keys(rng, recipe.epochs[-1])


def _own_rows(problems, data: Data, members) -> tuple[Tensor, np.ndarray]:
    """Return the training rows of each network in order, padded with zeros, and their numbers."""
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
    """Return shift and factor of X and of y for each network, in the units of `Data`."""
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


@contextmanager
def products(precision: str):
    """Compute matrix products in float32 in this context, or (``"tf32"``) of numbers rounded to ten bits."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def layers(flat: Tensor, plan) -> list[tuple[Tensor, Tensor]]:
    """Return padded views of weights (networks, rows, columns) and biases (networks, 1, columns) of each layer."""
    views = []
    for layer in plan:
        n, m, weight, bias = (int(layer[column]) for column in (ROWS, COLUMNS, WEIGHT_AT, BIAS_AT))
        W = flat[:, weight : weight + n * m].unflatten(1, (n, m))
        views.append((W, flat[:, None, bias : bias + m]))
    return views


def forward(flat: Tensor, plan, x: Tensor) -> list[Tensor]:
    """Return the inputs of each layer, and the outputs (networks, rows, 1) as last entry."""
    values = [x]
    for i, (W, b) in enumerate(layers(flat, plan)):
        z = torch.baddbmm(b, values[-1], W)
        values.append(z.relu_() if i < len(plan) - 1 else z)
    return values


def scaled_rows(group: Group, rows: Tensor) -> Tensor:
    """Return the inputs (networks, rows, features), scaled for each network."""
    x = (group.data.X[rows] - group.x_shift[:, None]) * group.x_factor[:, None]
    return x.float()


class Batched:
    """Training by batched products, one step of all networks at a time; networks without rows left wait."""

    def __init__(self, group: Group, precision: str = "float32"):
        self.group, self.precision = group, precision
        self.gradient = torch.zeros_like(group.parameters)
        self.n_steps = -(-group.counts // group.batches)
        self.span = torch.arange(int(group.batches.max()), device=group.rows.device)

    def epoch(self, order: Tensor, sizes: Tensor, epoch: int) -> Tensor:
        """Make one pass over ``order`` and return the summed loss of each network; ``sizes[s]`` scales step s."""
        loss = torch.zeros(len(self.group), device=order.device)
        with products(self.precision), torch.no_grad():
            for step in range(int(self.n_steps.max())):
                at = (epoch * self.n_steps + step).clamp(max=len(sizes) - 1)  # the networks that wait are past the end
                loss += self._step(order, sizes[at], step)
        return loss

    def _step(self, order: Tensor, size: Tensor, step: int) -> Tensor:
        group = self.group
        place = step * group.batches[:, None] + self.span
        live = (self.span < group.batches[:, None]) & (place < group.counts[:, None])
        rows = order.gather(1, place.clamp(max=order.shape[1] - 1).long()).long()
        weight = live.float() if group.data.weight is None else live * group.data.weight[rows]
        values = forward(group.parameters, group.plan, scaled_rows(group, rows))
        target = (group.data.targets[rows] - group.y_shift[:, None]) * group.y_factor[:, None]
        miss = values.pop()[..., 0] - target.float()
        errors = weight * torch.where(live, miss, 0.0)
        self._backward(values, errors[..., None])
        share = 1 / torch.maximum(weight.sum(dim=1), LEAST * live.sum(dim=1).clamp(min=1))  # finite also while waiting
        waiting = step >= self.n_steps
        before = [part[waiting] for part in self._state()] if waiting.any() else None
        self._adam(share[:, None], size[:, None])
        if before is not None:
            for part, old in zip(self._state(), before, strict=True):
                part[waiting] = old
        return (errors * torch.where(live, miss, 0.0)).sum(dim=1)

    def _state(self) -> tuple[Tensor, ...]:
        return self.group.parameters, self.group.first, self.group.second

    def _backward(self, values: list[Tensor], delta: Tensor) -> None:
        """Compute the gradient of half the weighted sum of squares; ``values`` are the inputs of the layers."""
        weights, slopes = (layers(flat, self.group.plan) for flat in (self.group.parameters, self.gradient))
        for i in range(len(weights) - 1, -1, -1):
            slopes[i][0].copy_(torch.bmm(values[i].transpose(1, 2), delta))
            slopes[i][1].copy_(delta.sum(dim=1, keepdim=True))
            if i > 0:
                delta = torch.bmm(delta, weights[i][0].transpose(1, 2)).mul_(values[i] > 0)

    def _adam(self, share: Tensor, size: Tensor) -> None:
        parameters, first, second = self._state()
        biases = int(self.group.plan[0, BIAS_AT])  # weights come before biases, which are not penalised
        slope = self.gradient
        slope[:, :biases].addcmul_(parameters[:, :biases], self.group.decay[:, None])
        slope.mul_(share)
        first.mul_(0.9).add_(slope, alpha=0.1)
        second.mul_(0.999).addcmul_(slope, slope, value=0.001)
        parameters.sub_((first * size).div_(second.sqrt().add_(1e-8)))


def train_together(problems: list[Problem], recipe: Recipe, device: str, precision="float32", n_jobs=None):
    """Return the trained networks of each problem; all problems must have the same number of features.

    The initial weights, rows and permutations of a network do not depend on the networks trained in the same group;
    only the rounding of batched products may differ.
    """
    results: list[list[Trained]] = [[] for _ in problems]
    for indices, data in upload(problems, recipe, device):
        trained = iter(_in_groups([problems[j] for j in indices], data, recipe, precision, n_jobs))
        for j in indices:
            results[j] = [next(trained) for _ in range(problems[j].n_networks)]
    return results


def _in_groups(problems: list[Problem], data: Data, recipe: Recipe, precision: str, n_jobs) -> list[Trained]:
    """Train all networks of the problems together, or in smaller groups if the memory of the device is too small."""
    members = [(j, k) for j, problem in enumerate(problems) for k in range(problem.n_networks)]
    size, trained = len(members), []
    while len(trained) < len(members):
        try:
            trained += _train(problems, data, members[len(trained) :][:size], recipe, precision, n_jobs)
        except torch.OutOfMemoryError:
            if size == 1:
                raise
            size = min(size, len(members) - len(trained)) // 2 or 1
            torch.cuda.empty_cache()
    return trained


def engines(plan, device: str):
    """Return the engine for networks of this shape, and the function that permutes their rows."""
    if torch.device(device).type == "cuda" and find_spec("triton"):
        with lock:
            from bagwise.instances.networks import triton_kernels as fused
        return fused.Fused if fused.Fused.fits(plan) else Batched, fused.shuffled
    return Batched, shuffled


def _train(problems, data: Data, members, recipe: Recipe, precision: str, n_jobs) -> list[Trained]:
    group = gather(problems, data, members, recipe)
    snapshots = torch.stack(run_epochs(group, recipe, precision), dim=1)
    parameters = snapshots[:, :, : int(group.plan[-1, BIAS_AT]) + 1].contiguous().cpu().numpy()
    trained = []
    for (j, k), vectors in zip(members, parameters, strict=True):
        networks, rows = problems[j].ensemble(k, vectors, recipe, n_jobs), problems[j].held(k)
        trained.append(Trained(networks, rows, networks.predict_each(problems[j].X, rows)))
    return trained


def run_epochs(group: Group, recipe: Recipe, precision: str) -> list[Tensor]:
    """Train a group and return the parameters after each requested number of epochs."""
    Engine, shuffled = engines(group.plan, group.rows.device)
    engine, sizes, snapshots = Engine(group, precision), step_sizes(group, recipe), []
    for epoch in range(recipe.epochs[-1]):
        order = shuffled(group.rows, group.counts, group.keys[epoch])
        engine, loss = make_pass(engine, order, sizes, epoch)
        refuse_divergence(bool(torch.isfinite(loss.sum() + group.parameters.sum())), epoch, recipe)
        if epoch + 1 in recipe.epochs:
            snapshots.append(group.parameters.clone())
    return snapshots


def make_pass(engine, order: Tensor, sizes: Tensor, epoch: int) -> tuple:
    """Make one pass over the rows; return the engine, which is `Batched` if the kernel is too large, and the loss."""
    try:
        return engine, engine.epoch(order, sizes, epoch)
    except Exception as error:
        if type(error).__name__ != "OutOfResources":  # triton's: the kernel is too large for this GPU
            raise
        engine = Batched(engine.group, engine.precision)
        return engine, engine.epoch(order, sizes, epoch)


def step_sizes(group: Group, recipe: Recipe, first: int = 0) -> Tensor:
    """Return the step sizes of Adam with bias correction, computed in double precision, after ``first`` steps."""
    n_steps = int((-(-group.counts // group.batches)).max())
    steps = np.arange(first + 1, first + recipe.epochs[-1] * n_steps + 1)
    sizes = recipe.learning_rate * np.sqrt(1 - 0.999**steps) / (1 - 0.9**steps)
    return torch.from_numpy(sizes.astype(np.float32)).to(group.rows.device)


# Rows that come a buffer at a time ------------------------------------------------------------------------------------


def learn_buffers(learners: list[Learner], buffers: Iterable[tuple], recipe: Recipe, device: str, precision) -> bool:
    """Make one pass over rows that come a buffer at a time, and return whether all numbers are finite.

    A buffer is X, y, weight and fold; learner k, whose state is changed, learns from the rows with fold != k.
    """
    x_shift, x_factor = (np.stack([learner.scaling[i] for learner in learners]) for i in (0, 1))
    y_shift, y_factor = (np.array([learner.scaling[i] for learner in learners]) for i in (2, 3))
    scaling = x_shift, inverse(x_factor), y_shift, inverse(y_factor)
    drawn = [np.random.default_rng(int(learner.stream[0])) for learner in learners]
    finite, once = True, replace(recipe, epochs=(1,))
    for buffer in buffers:
        problem = Problem(*buffer, len(learners), recipe.seed, *scaling)
        if len(np.unique(problem.fold[problem.weight > 0])) < 2:  # a short last buffer: no rows for one of the networks
            continue
        ((_, data),) = upload([problem], once, device)
        group = _resumed(gather([problem], data, [(0, k) for k in range(len(learners))], once), learners)
        Engine, shuffled = engines(group.plan, device)
        keys = np.concatenate([epoch_keys(rng, 1) for rng in drawn]).astype(np.int64)
        order = shuffled(group.rows, group.counts, torch.from_numpy(keys).to(device))
        first = min(learner.steps for learner in learners)
        loss = make_pass(Engine(group, precision), order, step_sizes(group, once, first), 0)[1]
        finite &= bool(torch.isfinite(loss.sum() + group.parameters.sum()))
        state = [part.cpu().numpy() for part in (group.parameters, group.first, group.second)]
        for k, (learner, count) in enumerate(zip(learners, group.counts.tolist(), strict=True)):
            learner.parameters[:], learner.memory[1], learner.memory[2] = (part[k, : learner.size] for part in state)
            learner.steps += -(-count // learner.batch)
    for learner, rng in zip(learners, drawn, strict=True):
        learner.stream = rng.integers(2**64, size=1, dtype=np.uint64)
    return finite


def _resumed(group: Group, learners: list[Learner]) -> Group:
    """Return a group with the state, batches and penalties of learners."""
    state = np.zeros((3, *group.parameters.shape), dtype=np.float32)
    for k, learner in enumerate(learners):
        state[:, k, : learner.size] = learner.parameters, learner.memory[1], learner.memory[2]
    parameters, first, second = torch.from_numpy(state).to(group.rows.device)
    batches = torch.tensor([learner.batch for learner in learners]).to(group.batches).minimum(group.counts)
    decay = torch.tensor([learner.decay for learner in learners]).to(group.decay)
    return replace(group, parameters=parameters, first=first, second=second, batches=batches, decay=decay)
