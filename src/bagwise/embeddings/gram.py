"""The kernel mean between bags, summed exactly over all pairs of instances, in blocks of bounded memory.

On a GPU the sums over bags are made there too. Torch is imported only for that.
"""

from __future__ import annotations

import numpy as np

from bagwise.bags import Bags
from bagwise.bags.segments import row_blocks, segment_sum
from bagwise.execution.devices import announce, settled
from bagwise.first_use import lock

BLOCK = 2048  # rows of either side at a time: 32 MB of kernel values
DEVICE_BLOCK = 8192  # the same on a GPU: half a gigabyte of kernel values in double precision
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


def mean_gram_on(device: str, kernel, left: Bags, right: Bags | None = None, *, precision="float64") -> np.ndarray:
    """`mean_gram` on a device, with kernel values in ``precision`` and the sums over blocks in double."""
    with lock:
        import torch

    def uploaded(values):
        return torch.from_numpy(np.asarray(values, dtype=np.float64)).to(device=device, dtype=getattr(torch, precision))

    def over_bags(values, offsets):  # along the first axis, always in the same order
        lengths = torch.from_numpy(np.diff(offsets)).to(values.device)
        return torch.segment_reduce(values, "sum", lengths=lengths, axis=0, unsafe=True)

    symmetric = right is None
    right = left if right is None else right
    # About their middle if the kernel knows distances only, so that float32 loses little.
    middle = left.instances.mean(axis=0, dtype=np.float64) if hasattr(kernel, "_of_squared_distance") else 0.0
    A, B = (uploaded(np.asarray(bags.instances, dtype=np.float64) - middle) for bags in (left, right))
    share, other_share = (uploaded(bags.shares()) for bags in (left, right))
    sums = torch.zeros((len(left), len(right)), dtype=torch.float64, device=device)
    for rows, bags, own in row_blocks(left.offsets, DEVICE_BLOCK):
        for other_rows, other_bags, other_own in row_blocks(right.offsets, DEVICE_BLOCK):
            if symmetric and other_rows.start < rows.start:
                continue
            values = kernel(A[rows], B[other_rows]).mul_(share[rows, None]).mul_(other_share[other_rows])
            block = over_bags(over_bags(values, own).T.contiguous(), other_own).T.double()
            sums[bags, other_bags] += block
            if symmetric and other_rows.start > rows.start:
                sums[other_bags, bags] += block.T
    return sums.cpu().numpy()


def squared_norms(kernel, bags: Bags) -> np.ndarray:
    r"""1/L_i² Σ_l Σ_m k(x_il, x_im), the squared length of the embedding of every bag; weighted as `mean_gram`."""
    return np.array([mean_gram(kernel, bags[[i]])[0, 0] for i in range(len(bags))])
