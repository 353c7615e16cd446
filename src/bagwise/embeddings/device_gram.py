"""The kernel mean between bags on a GPU: as `gram`, block by block, the sums over bags made there too."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from bagwise.bags import Bags
from bagwise.bags.segments import row_blocks

BLOCK = 8192  # rows of either side at a time: half a gigabyte of kernel values in double precision


def mean_gram_on(device: str, kernel, left: Bags, right: Bags | None = None, *, precision="float64") -> np.ndarray:
    """`gram.mean_gram`, with kernel values in ``precision`` and the sums over blocks in double."""
    symmetric = right is None
    right = left if right is None else right
    A, B = _uploaded(device, kernel, left, right, getattr(torch, precision))
    share, other_share = (torch.from_numpy(bags.shares()).to(A) for bags in (left, right))
    sums = torch.zeros((len(left), len(right)), dtype=torch.float64, device=device)
    for rows, bags, own in row_blocks(left.offsets, BLOCK):
        for other_rows, other_bags, other_own in row_blocks(right.offsets, BLOCK):
            if symmetric and other_rows.start < rows.start:
                continue
            values = kernel(A[rows], B[other_rows]).mul_(share[rows, None]).mul_(other_share[other_rows])
            block = _segment_sum(_segment_sum(values, own).T.contiguous(), other_own).T.double()
            sums[bags, other_bags] += block
            if symmetric and other_rows.start > rows.start:
                sums[other_bags, bags] += block.T
    return sums.cpu().numpy()


def _uploaded(device, kernel, left: Bags, right: Bags, dtype) -> tuple[Tensor, Tensor]:
    """The instances there; about their middle if the kernel knows distances only, so that float32 loses little."""
    middle = left.instances.mean(axis=0, dtype=np.float64) if hasattr(kernel, "_of_squared_distance") else 0.0
    parts = [torch.from_numpy(np.asarray(bags.instances, dtype=np.float64) - middle) for bags in (left, right)]
    return tuple(part.to(device=device, dtype=dtype) for part in parts)


def _segment_sum(values: Tensor, offsets: np.ndarray) -> Tensor:
    """Sum over every bag along the first axis, always in the same order."""
    lengths = torch.from_numpy(np.diff(offsets)).to(values.device)
    return torch.segment_reduce(values, "sum", lengths=lengths, axis=0, unsafe=True)
