"""Networks trained together by batched matrix products: networks of any shape, on any device of torch."""

from __future__ import annotations

from contextlib import contextmanager

import torch
from torch import Tensor

from bagwise.instances.network_group import Group
from bagwise.instances.network_layout import BIAS_AT, COLUMNS, ROWS, WEIGHT_AT
from bagwise.instances.network_problem import LEAST


@contextmanager
def products(precision: str):
    """Matrix products of float32 in full, or (``"tf32"``) of numbers rounded to ten bits first."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def layers(flat: Tensor, plan) -> list[tuple[Tensor, Tensor]]:
    """Weights (networks, rows, columns) and biases (networks, 1, columns) of every layer, padded: views of ``flat``."""
    views = []
    for layer in plan:
        n, m, weight, bias = (int(layer[what]) for what in (ROWS, COLUMNS, WEIGHT_AT, BIAS_AT))
        W = flat[:, weight : weight + n * m].unflatten(1, (n, m))
        views.append((W, flat[:, None, bias : bias + m]))
    return views


def forward(flat: Tensor, plan, x: Tensor) -> list[Tensor]:
    """What every layer is given, and the outputs (networks, rows, 1) at the end."""
    values = [x]
    for i, (W, b) in enumerate(layers(flat, plan)):
        z = torch.baddbmm(b, values[-1], W)
        values.append(z.relu_() if i < len(plan) - 1 else z)
    return values


def scaled_rows(group: Group, rows: Tensor) -> Tensor:
    """The inputs (networks, rows, features) as each network wants them."""
    x = (group.data.X[rows] - group.x_shift[:, None]) * group.x_factor[:, None]
    return x.float()


class Batched:
    """One step of all networks is a few batched products; those that have no rows left in the epoch wait."""

    def __init__(self, group: Group, precision: str = "float32"):
        self.group, self.precision = group, precision
        self.gradient = torch.zeros_like(group.parameters)
        self.n_steps = -(-group.counts // group.batches)
        self.span = torch.arange(int(group.batches.max()), device=group.rows.device)

    def epoch(self, order: Tensor, sizes: Tensor, epoch: int) -> Tensor:
        """One pass over ``order``; ``sizes[s]`` is the length of Adam's step s. The summed loss of every network."""
        loss = torch.zeros(len(self.group), device=order.device)
        with products(self.precision), torch.no_grad():
            for step in range(int(self.n_steps.max())):
                loss += self._step(order, sizes[epoch * self.n_steps + step], step)
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
        """The gradient of half the weighted sum of squares; ``values`` are what the layers were given."""
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
