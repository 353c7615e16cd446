"""The kernel mean between bags, summed exactly over all pairs of instances, in blocks of bounded memory."""

from __future__ import annotations

import numpy as np

from bagwise.bags import Bags
from bagwise.bags.segments import row_blocks, segment_sum
from bagwise.execution.devices import announce, settled
from bagwise.first_use import lock

BLOCK = 2048  # rows of either side at a time: 32 MB of kernel values
WORTH = 1e9  # pairs of instances from which a GPU is worth waking: about ten seconds of one core
PRECISIONS = ("float64", "float32")


def mean_gram(kernel, left: Bags, right: Bags | None = None, *, device="cpu", precision="float64") -> np.ndarray:
    r"""K[i, j] = 1/(L_i L_j) Σ_l Σ_m k(x_il, x_jm), for bags of any sizes; symmetric when ``right`` is left out.

    With instance weights, of either side, the means are weighted: Σ_l Σ_m w_il w_jm k(x_il, x_jm) / Σ_l w_il Σ_m w_jm.

    ``device`` is "cpu", "cuda" or "auto" (a GPU, if there is one and the pairs are many); on a GPU the kernel is
    evaluated in ``precision``, "float64" or "float32".
    """
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be 'float64' or 'float32', not {precision!r}")
    pairs = float(left.n_instances) * (left if right is None else right).n_instances
    place = settled(device, worth=pairs >= WORTH)
    if place != "cpu":
        announce("kernel means", place)
        with lock:
            from bagwise.embeddings.device_gram import mean_gram_on  # the one part that needs torch

        return mean_gram_on(place, kernel, left, right, precision=precision)
    symmetric = right is None
    right = left if right is None else right
    share, other_share = (None if bags.weights is None else bags.shares() for bags in (left, right))
    sums = np.zeros((len(left), len(right)))
    for rows, bags, own in row_blocks(left.offsets, BLOCK):
        for other_rows, other_bags, other_own in row_blocks(right.offsets, BLOCK):
            if symmetric and other_rows.start < rows.start:
                continue
            values = kernel(left.instances[rows], right.instances[other_rows])
            if share is not None:
                values = values * share[rows, None]
            if other_share is not None:
                values = values * other_share[None, other_rows]
            block = segment_sum(segment_sum(values, own).T, other_own).T
            sums[bags, other_bags] += block
            if symmetric and other_rows.start > rows.start:
                sums[other_bags, bags] += block.T
    sums = sums if share is not None else sums / left.sizes[:, None]
    return sums if other_share is not None else sums / right.sizes[None, :]


def squared_norms(kernel, bags: Bags) -> np.ndarray:
    r"""1/L_i² Σ_l Σ_m k(x_il, x_im), the squared length of the embedding of every bag; weighted as `mean_gram`."""
    return np.array([mean_gram(kernel, bags[[i]])[0, 0] for i in range(len(bags))])
