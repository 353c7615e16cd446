"""The kernel mean between bags, summed exactly over all pairs of instances, in blocks of bounded memory."""

from __future__ import annotations

import numpy as np

from bagwise.bags import Bags
from bagwise.bags.segments import row_blocks, segment_sum

BLOCK = 2048  # rows of either side at a time: 32 MB of kernel values


def mean_gram(kernel, left: Bags, right: Bags | None = None) -> np.ndarray:
    r"""K[i, j] = 1/(L_i L_j) Σ_l Σ_m k(x_il, x_jm), for bags of any sizes; symmetric when ``right`` is left out."""
    symmetric = right is None
    right = left if right is None else right
    sums = np.zeros((len(left), len(right)))
    for rows, bags, own in row_blocks(left.offsets, BLOCK):
        for other_rows, other_bags, other_own in row_blocks(right.offsets, BLOCK):
            if symmetric and other_rows.start < rows.start:
                continue
            values = kernel(left.instances[rows], right.instances[other_rows])
            block = segment_sum(segment_sum(values, own).T, other_own).T
            sums[bags, other_bags] += block
            if symmetric and other_rows.start > rows.start:
                sums[other_bags, bags] += block.T
    return sums / left.sizes[:, None] / right.sizes[None, :]


def squared_norms(kernel, bags: Bags) -> np.ndarray:
    r"""1/L_i² Σ_l Σ_m k(x_il, x_im), the squared length of the embedding of every bag."""
    return np.array([mean_gram(kernel, bags[[i]])[0, 0] for i in range(len(bags))])
