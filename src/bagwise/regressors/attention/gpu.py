"""Training of networks over bags on a GPU by torch: all networks at once, every parameter with an axis of networks.

The numbers are those of `attention_kernels`, up to rounding. Tests compare the two on torch's CPU.
"""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bagwise.execution.resources import SharedSetting
from bagwise.regressors.attention.network import ROWS, Data, Network, Recipe, Task, cuts

LARGEST = 2**28  # numbers in the largest array of a training step; more networks are trained one group after the other


@dataclass(frozen=True)
class Batch:
    """Some bags: instances (rows, d), the bag of each row, moments (bags, k), and the share of each row in its bag."""

    rows: Tensor
    bag: Tensor
    moments: Tensor
    share: Tensor

    def spread(self, values: Tensor) -> Tensor:
        """Repeat the entry of each bag for its rows."""
        return values.index_select(0, self.bag)

    def total(self, values: Tensor) -> Tensor:
        """Sum the rows of each bag."""
        return values.new_zeros(len(self.moments), *values.shape[1:]).index_add(0, self.bag, values)

    def mean(self, values: Tensor) -> Tensor:
        """Average the rows of each bag by their shares."""
        return self.total(self.share[:, None] * values)

    def softmax(self, scores: Tensor) -> Tensor:
        """Return exp(score), divided by its sum over the bag."""
        top = scores.new_full((len(self.moments), scores.shape[1]), -torch.inf)
        index = self.bag[:, None].expand_as(scores)
        top = top.scatter_reduce(0, index, scores.detach(), "amax")  # only against overflow: no derivative
        weights = (scores - self.spread(top)).exp()
        return weights / self.spread(self.total(weights))


def forward(network: Network, vectors: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return predictions (bags, networks) and attention (rows, networks), averaged over looks.

    With ``pooling="mean"`` the numbers h (rows, networks) take the place of the attention.
    """
    sizes = network.layers.values()
    # split, not slices: its derivative is one concatenation.
    parts = iter(vectors.split([n for inputs, outputs in sizes for n in (inputs * outputs, outputs)], dim=1))
    parameters = {name: (next(parts).unflatten(1, size), next(parts)) for name, size in network.layers.items()}
    read = batch.rows
    for i in range(len(network.read)):
        read = _dense(parameters, f"read{i}", read).relu()
    if network.pooling == "mean":
        values = _dense(parameters, "head0", read)[..., 0]
        return batch.mean(values), values
    if network.pooling == "set":
        pooled, attention = _set(network.looks, parameters, batch, read)
    else:
        gate = _dense(parameters, "tanh", read).tanh() * _dense(parameters, "sigmoid", read).sigmoid()
        attention = batch.softmax(_dense(parameters, "score", gate)[..., 0])
        pooled = batch.total(attention[..., None] * read)
    if network.n_moments:
        pooled = torch.cat([pooled, batch.moments[:, None].expand(-1, len(vectors), -1)], dim=2)
    for i in range(len(network.head)):
        pooled = _dense(parameters, f"head{i}", pooled).relu()
    return _dense(parameters, f"head{len(network.head)}", pooled)[..., 0], attention


def _set(looks: int, parameters, batch: Batch, read: Tensor) -> tuple[Tensor, Tensor]:
    gates = parameters["lstm"][1].expand(len(batch.moments), -1, -1)  # the first input and state are zero
    cell, attention = read.new_zeros(()), []
    for _ in range(looks):
        into, keep, out, new = gates.chunk(4, dim=2)
        cell = into.sigmoid() * new.tanh() + keep.sigmoid() * cell
        query = out.sigmoid() * cell.tanh()
        weights = batch.softmax((read * batch.spread(query)).sum(dim=2))
        state = torch.cat([query, batch.total(weights[..., None] * read)], dim=2)
        attention.append(weights)
        if len(attention) < looks:
            gates = _dense(parameters, "lstm", state)
    return state, torch.stack(attention).mean(dim=0)


def _dense(parameters, name: str, values: Tensor) -> Tensor:
    """Apply a layer to values (rows, networks, inputs), or (rows, inputs) that are the same for all networks."""
    weight, bias = parameters[name]
    if values.ndim == 2:
        networks, inputs, outputs = weight.shape
        joined = weight.transpose(0, 1).reshape(inputs, networks * outputs)
        return (values @ joined).unflatten(1, (networks, outputs)) + bias
    return torch.einsum("nmi,mio->nmo", values, weight) + bias


class Samples:
    """Bags on a device, from which batches are taken."""

    def __init__(self, data: Data, device: str, dtype=torch.float32):
        parts = (data.rows, data.moments, data.shares)
        self.rows, self.moments, self.shares = (torch.as_tensor(part, dtype=dtype, device=device) for part in parts)
        self.offsets, self.sizes = data.offsets, data.sizes

    def batch(self, positions: np.ndarray) -> Batch:
        sizes = self.sizes[positions]
        shifts = self.offsets[positions] - np.concatenate([[0], np.cumsum(sizes)[:-1]])
        rows = np.repeat(shifts, sizes) + np.arange(sizes.sum())
        bag = np.repeat(np.arange(len(positions)), sizes)
        rows, bag, positions = (torch.from_numpy(a).to(self.rows.device) for a in (rows, bag, positions))
        return Batch(self.rows[rows], bag, self.moments[positions], self.shares[rows])


def loss(network: Network, vectors: Tensor, batch: Batch, targets, learn, blend) -> Tensor:
    """Return the weighted loss of a batch, summed over networks.

    A blend λ of the losses of bags and of instances is λ (ŷ - y)² + (1 - λ) Σ_l s_l (h_l - y)², which equals
    (ŷ - y)² + (1 - λ) Σ_l s_l (h_l - ŷ)² because ŷ = Σ_l s_l h_l.
    """
    predictions, values = forward(network, vectors, batch)
    squares = (predictions - targets) ** 2
    if network.pooling == "mean":
        squares = squares + (1.0 - blend) * batch.mean((values - batch.spread(predictions)) ** 2)
    return (learn * squares).mean(dim=0).sum()


@contextmanager
def _deterministic_kernels():
    strict = torch.are_deterministic_algorithms_enabled()
    lenient = torch.is_deterministic_algorithms_warn_only_enabled()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # cuBLAS may vary between runs, but not on a single stream
        torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(strict, warn_only=lenient)


_deterministic = SharedSetting(_deterministic_kernels)


def train(network: Network, data: Data, task: Task, starts: np.ndarray, recipe: Recipe) -> list[np.ndarray]:
    """Return the best parameters of the networks, their held-out errors, and their epochs.

    As many networks are trained at once as memory allows.
    """
    samples = Samples(data, recipe.device)
    rows = max(int(data.sizes.max()), min(ROWS, int(recipe.batch_size * data.sizes.mean())))
    at_once = max(1, LARGEST // (rows * max(network.read, default=1)))
    used = np.flatnonzero(task.learn.any(axis=1))  # all networks see the same batches
    with _deterministic:
        parts = [
            _train(network, samples, used, task[i : i + at_once], starts[i : i + at_once], recipe)
            for i in range(0, len(starts), at_once)
        ]
    return [np.concatenate(part) for part in zip(*parts, strict=True)]


def _train(network: Network, samples: Samples, used, task: Task, starts: np.ndarray, recipe: Recipe) -> tuple:
    vectors = samples.rows.new_tensor(starts).requires_grad_()
    optimizer = torch.optim.AdamW([vectors], recipe.learning_rate, weight_decay=recipe.weight_decay)
    mixed, random = recipe.precision == "bfloat16", np.random.default_rng(recipe.seed)
    best, errors = vectors.detach().clone(), _held_out_errors(network, samples, task, vectors)
    epochs, active = np.zeros(len(starts), dtype=np.int64), np.ones(len(starts), dtype=bool)
    for epoch in range(1, recipe.epochs + 1):
        for positions in _batches(random.permutation(used), samples.sizes, recipe.batch_size):
            targets = (task.targets[positions], task.learn[positions], task.blend)
            targets = (samples.rows.new_tensor(part) for part in targets)
            with torch.autocast(vectors.device.type, torch.bfloat16, enabled=mixed):  # biases keep the sums in float32
                value = loss(network, vectors, samples.batch(positions), *targets)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
        now = _held_out_errors(network, samples, task, vectors)
        better = active & (now < errors)
        errors[better], epochs[better] = now[better], epoch
        best[better] = vectors.detach()[better]
        active &= epoch - epochs < recipe.patience
        if not active.any():
            break
    return best.cpu().numpy(), errors, epochs


def _batches(positions: np.ndarray, sizes: np.ndarray, n_bags: int) -> list[np.ndarray]:
    return np.split(positions, cuts(positions, sizes, n_bags)[1:-1])


@torch.no_grad()
def _held_out_errors(network: Network, samples: Samples, task: Task, vectors: Tensor) -> np.ndarray:
    errors, held = np.zeros(len(vectors)), np.flatnonzero(task.held.any(axis=1))
    for positions in _batches(held, samples.sizes, len(held)):
        predictions = forward(network, vectors, samples.batch(positions))[0].cpu().numpy()
        errors += (task.held[positions] * (predictions - task.targets[positions]) ** 2).sum(axis=0)
    return errors
