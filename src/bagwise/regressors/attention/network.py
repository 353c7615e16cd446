"""The attention network over ragged bags, many networks at once: every parameter has a leading axis of members."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Some bags: instances (rows, d), the bag of every row, moments (bags, k), which may have no columns, and the share
    of every row in its bag, for networks that need it."""

    rows: Tensor
    bag: Tensor
    moments: Tensor
    share: Tensor | None = None

    def spread(self, values: Tensor) -> Tensor:
        """One slice per bag, repeated for each of its rows."""
        return values.index_select(0, self.bag)

    def total(self, values: Tensor) -> Tensor:
        """The sum of the rows of every bag."""
        return values.new_zeros(len(self.moments), *values.shape[1:]).index_add(0, self.bag, values)

    def mean(self, values: Tensor) -> Tensor:
        """The mean of the rows of every bag, each by its share."""
        return self.total(self.share[:, None] * values)

    def softmax(self, scores: Tensor) -> Tensor:
        """exp(score), summing to one in every bag."""
        top = scores.new_full((len(self.moments), scores.shape[1]), -torch.inf)
        index = self.bag[:, None].expand_as(scores)
        top = top.scatter_reduce(0, index, scores.detach(), "amax")  # only against overflow: no derivative
        weights = (scores - self.spread(top)).exp()
        return weights / self.spread(self.total(weights))


@dataclass(frozen=True)
class Network:
    """Read every instance, attend, predict. Shapes are (rows or bags, members, units) throughout.

    ``pooling="set"``: T times, a query q from an LSTM weighs the instances by their inner product with it, and reads
    r = Σ a m. Its input [q, r] holds its own state q, so the two matrices of an LSTM are one here.
    ``pooling="gated"``: one score wᵀ(tanh(V m) ⊙ σ(U m)) per instance.
    ``pooling="mean"``: a number h for every instance, and their mean; nothing comes after it.
    """

    n_features: int
    n_moments: int
    read: tuple[int, ...]
    pooling: str
    looks: int
    head: tuple[int, ...]

    @property
    def layers(self) -> dict[str, tuple[int, int]]:
        """Inputs and outputs of every dense layer."""
        widths = (self.n_features, *self.read)
        units = widths[-1]
        layers = {f"read{i}": pair for i, pair in enumerate(zip(widths, widths[1:], strict=False))}
        if self.pooling == "set":
            layers["lstm"] = (2 * units, 4 * units)
        elif self.pooling == "gated":
            layers |= {"tanh": (units, units), "sigmoid": (units, units), "score": (units, 1)}
        widths = ((2 if self.pooling == "set" else 1) * units + self.n_moments, *self.head, 1)
        return layers | {f"head{i}": pair for i, pair in enumerate(zip(widths, widths[1:], strict=False))}

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of every parameter, by name."""
        shapes = {}
        for name, (inputs, outputs) in self.layers.items():
            shapes |= {f"{name}.weight": (inputs, outputs), f"{name}.bias": (outputs,)}
        return shapes

    def initial(self, random: np.random.Generator) -> np.ndarray:
        """Parameters to set out from, in one vector: uniform within 1/√inputs, and a last layer of zeros.

        With those zeros a network predicts the mean of the targets until it has learned something.
        """
        last = f"head{len(self.head)}"
        parts = []
        for name, (inputs, outputs) in self.layers.items():
            bound = 0.0 if name == last else 1.0 / np.sqrt(inputs)
            parts.append(random.uniform(-bound, bound, (inputs + 1) * outputs))
        return np.concatenate(parts)

    def unpack(self, vectors: Tensor) -> dict[str, Tensor]:
        """Parameters by name, from one vector per member."""
        shapes = self.shapes
        # split, not slices: its derivative is one concatenation.
        parts = vectors.split([int(np.prod(shape)) for shape in shapes.values()], dim=1)
        return {name: part.unflatten(1, shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}

    def named(self, vector: np.ndarray) -> dict[str, np.ndarray]:
        """Parameters of one member by name, as arrays."""
        return {name: part[0].numpy().copy() for name, part in self.unpack(torch.from_numpy(vector)[None]).items()}

    def __call__(self, parameters: dict[str, Tensor], batch: Batch) -> tuple[Tensor, Tensor]:
        """Predictions (bags, members) and attention (rows, members), the latter averaged over the T looks.

        With ``pooling="mean"`` the numbers h (rows, members) stand for the attention.
        """
        members = len(parameters["head0.bias"])
        read = batch.rows
        for i in range(len(self.read)):
            read = _dense(parameters, f"read{i}", read).relu()
        if self.pooling == "mean":
            values = _dense(parameters, "head0", read)[..., 0]
            return batch.mean(values), values
        pooled, attention = (self._set if self.pooling == "set" else self._gated)(parameters, batch, read)
        if self.n_moments:
            pooled = torch.cat([pooled, batch.moments[:, None].expand(-1, members, -1)], dim=2)
        for i in range(len(self.head)):
            pooled = _dense(parameters, f"head{i}", pooled).relu()
        return _dense(parameters, f"head{len(self.head)}", pooled)[..., 0], attention

    def _set(self, parameters, batch: Batch, read: Tensor) -> tuple[Tensor, Tensor]:
        gates = parameters["lstm.bias"].expand(len(batch.moments), -1, -1)  # the first input and state are zero
        cell, attention = read.new_zeros(()), []
        for _ in range(self.looks):
            into, keep, out, new = gates.chunk(4, dim=2)
            cell = into.sigmoid() * new.tanh() + keep.sigmoid() * cell
            query = out.sigmoid() * cell.tanh()
            weights = batch.softmax((read * batch.spread(query)).sum(dim=2))
            state = torch.cat([query, batch.total(weights[..., None] * read)], dim=2)
            attention.append(weights)
            gates = _dense(parameters, "lstm", state)
        return state, torch.stack(attention).mean(dim=0)

    def _gated(self, parameters, batch: Batch, read: Tensor) -> tuple[Tensor, Tensor]:
        gate = _dense(parameters, "tanh", read).tanh() * _dense(parameters, "sigmoid", read).sigmoid()
        weights = batch.softmax(_dense(parameters, "score", gate)[..., 0])
        return batch.total(weights[..., None] * read), weights


def _dense(parameters, name: str, values: Tensor) -> Tensor:
    """values (rows, members, inputs), or (rows, inputs) for all members the same."""
    weight, bias = parameters[f"{name}.weight"], parameters[f"{name}.bias"]
    if values.ndim == 2:
        members, inputs, outputs = weight.shape
        joined = weight.transpose(0, 1).reshape(inputs, members * outputs)
        return (values @ joined).unflatten(1, (members, outputs)) + bias
    return torch.einsum("nmi,mio->nmo", values, weight) + bias
