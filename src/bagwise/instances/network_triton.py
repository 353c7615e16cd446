"""Parts of the kernels that train networks on a GPU.

Importing this module imports triton; only `network_together` does so, when a GPU is there. With ``TRITON_INTERPRET=1``
the kernels run on the CPU, which is how they are tested.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def adam(w, m, v, g, decay, share, size):
    """One step along the mean gradient; share is one over the batch's weight."""
    g = (g + decay * w) * share
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    return w - size * m / (tl.sqrt(v) + 1e-8), m, v


@triton.jit
def read(P, M, V, at, mask):
    return tl.load(P + at, mask, 0.0), tl.load(M + at, mask, 0.0), tl.load(V + at, mask, 0.0)


@triton.jit
def write(P, M, V, at, mask, w, m, v):
    tl.store(P + at, w, mask)
    tl.store(M + at, m, mask)
    tl.store(V + at, v, mask)


@triton.jit
def halves(x):
    """What ten bits of x say, and the rest."""
    high = (x.to(tl.int32, bitcast=True) & -8192).to(tl.float32, bitcast=True)
    return high, x - high


@triton.jit
def product(a, a_rest, b, b_rest, FULL: tl.constexpr):
    """A B on the tensor cores, which read ten bits of a number: by three products as good as single precision."""
    if FULL:
        small = tl.dot(a_rest, b, tl.dot(a, b_rest, input_precision="tf32"), input_precision="tf32")
        return tl.dot(a, b, small, input_precision="tf32")
    else:
        return tl.dot(a, b, input_precision="tf32")


@triton.jit
def rectified(z):
    return tl.where(z <= 0, 0.0, z)  # so, and not z > 0, NaN survives and divergence is seen


def width(units: int) -> int:
    """The power of two, at least 16, that holds so many."""
    return max(16, triton.next_power_of_2(int(units)))
