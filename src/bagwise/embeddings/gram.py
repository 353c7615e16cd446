"""The kernel mean between bags, summed exactly over all pairs of instances, in blocks of bounded memory."""

from __future__ import annotations

import numpy as np

from bagwise.bags import Bags
from bagwise.bags.segments import row_blocks, segment_sum

BLOCK = 2048  # rows of either side at a time: 32 MB of kernel values


def mean_gram(kernel, left: Bags, right: Bags | None = None, *, weight=None, right_weight=None) -> np.ndarray:
    r"""K[i, j] = 1/(L_i L_j) Σ_l Σ_m k(x_il, x_jm), for bags of any sizes; symmetric when ``right`` is left out.

    With weights of the instances, left and right, of mean one in every bag, the term (l, m) counts w_il w_jm times.
    """
    symmetric = right is None
    right_weight = weight if symmetric else right_weight
    right = left if right is None else right
    sums = np.zeros((len(left), len(right)))
    for rows, bags, own in row_blocks(left.offsets, BLOCK):
        for other_rows, other_bags, other_own in row_blocks(right.offsets, BLOCK):
            if symmetric and other_rows.start < rows.start:
                continue
            values = kernel(left.instances[rows], right.instances[other_rows])
            if weight is not None:
                values = values * weight[rows, None]
            if right_weight is not None:
                values = values * right_weight[None, other_rows]
            block = segment_sum(segment_sum(values, own).T, other_own).T
            sums[bags, other_bags] += block
            if symmetric and other_rows.start > rows.start:
                sums[other_bags, bags] += block.T
    return sums / left.sizes[:, None] / right.sizes[None, :]


def squared_norms(kernel, bags: Bags, weight=None) -> np.ndarray:
    r"""1/L_i² Σ_l Σ_m k(x_il, x_im), the squared length of the embedding of every bag; weights as in `mean_gram`."""
    parts = [None] * len(bags) if weight is None else np.split(weight, bags.offsets[1:-1])
    return np.array([mean_gram(kernel, bags[[i]], weight=part)[0, 0] for i, part in enumerate(parts)])
