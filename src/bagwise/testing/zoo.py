"""Awkward bags that every part must survive."""

from __future__ import annotations

import numpy as np

from bagwise.bags import Bags, from_arrays


def zoo(n_features: int = 1, *, scale: float = 1.0, random_state: int = 0) -> dict[str, Bags]:
    """Named sets of bags that break careless code: sizes 1 and huge, repeated values, no variation, far outliers."""
    rng = np.random.default_rng(random_state)

    def draw(*sizes):
        return [scale * rng.normal(size=(size, n_features)) for size in sizes]

    repeated = [np.repeat(bag[:1], 7, axis=0) for bag in draw(*[3] * 6)]
    few_values = [np.round(bag / scale) * scale for bag in draw(9, 1, 30, 4, 12, 2)]
    outlier = draw(5, 8, 3, 6)
    outlier[1][0] *= 1e4
    sets = {
        "equal": draw(*[6] * 8),
        "ragged": draw(1, 2, 3, 50, 7, 1, 12),
        "singles": draw(*[1] * 9),
        "one huge": draw(1, 5000, 2, 1, 3),
        "repeated values": repeated,
        "few distinct values": few_values,
        "constant": [np.full((size, n_features), 0.25 * scale) for size in (1, 4, 2)],
        "far outlier": outlier,
        "two bags": draw(1, 1),
    }
    return {name: from_arrays(arrays) for name, arrays in sets.items()}
