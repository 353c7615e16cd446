"""Law et al. (2018): recover the degrees of freedom behind bags of scaled chi-square draws; regenerated to the bit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bagwise.bags import Bags

N_FEATURES = 5
LOWEST, HIGHEST = 4.0, 8.0  # the target is uniform between these
# In the order in which the authors' code draws a seed for each; the number of bags of every part.
PART_SIZES = {"train": 1000, "estop": 500, "val": 500, "test": 1000}


def make_law(
    data_seed: int = 23, *, s5: float | None = None, parts: Sequence[str] = tuple(PART_SIZES)
) -> dict[str, tuple[Bags, np.ndarray]]:
    """The chi-square benchmark of Law et al., equal bit for bit to the data behind the published numbers.

    The target is a number of degrees of freedom, ``y ~ U(4, 8)``, and every one of the five features of every
    instance is an independent ``x = chi2(y) / y + noise * N(0, 1)``. The mean of x is 1 whatever y is: only the
    shape of the bag tells.

    * Fixed size (``s5=None``): 1,000 instances in every bag and noise 1. The published runs have ``data_seed``
      23 to 32.
    * Varying size: ``s5`` percent of the bags have 5 instances, 25 percent have 20, 25 percent have 100, the others
      1,000; no noise. The published runs have ``data_seed`` 23 and ``s5`` in 0, 5, ..., 50. A good method knows how
      little a small bag says.

    Parameters
    ----------
    data_seed : int
    s5 : float, optional
        Percentage of bags of five instances, from 0 to 50; None for the fixed size.
    parts : sequence of {"train", "estop", "val", "test"}
        Which parts to generate: 1,000, 500 (for early stopping), 500 (for choosing a model) and 1,000 bags. A part of
        fixed size takes up to 40 MB.

    Returns
    -------
    dict of (Bags, array)
        Bags and targets of every part asked for.

    See Also
    --------
    law_bayes_optimal : The best possible answer.

    References
    ----------
    H. C. L. Law, D. J. Sutherland, D. Sejdinovic, S. Flaxman, "Bayesian approaches to distribution regression",
    AISTATS 2018.

    Examples
    --------
    >>> from bagwise.datasets import make_law
    >>> bags, y = make_law(23, s5=25, parts=["test"])["test"]
    >>> bags
    Bags: 1,000 bags of 5 to 1,000 instances (281,250 in all), 5 features
    >>> y[:3].round(4)
    array([6.4667, 7.2887, 6.2159])
    """
    if s5 is not None and not 0 <= s5 <= 50:
        raise ValueError(f"s5 is a percentage of the bags, from 0 to 50, or None for bags of one size; not {s5!r}")
    unknown = [part for part in parts if part not in PART_SIZES]
    if unknown:
        raise ValueError(f"there is no part {unknown[0]!r}; the parts are {', '.join(PART_SIZES)}")
    shares = (0.0, 0.0, 0.0) if s5 is None else (s5 * 0.01, 0.25, 0.25)
    noise = 1.0 if s5 is None else 0.0
    # int64 as on the authors' machine: another integer type would draw other seeds.
    seeds = np.random.RandomState(data_seed).randint(2**32, size=4, dtype=np.int64)
    seed_of = dict(zip(PART_SIZES, seeds, strict=True))
    return {part: _draw_part(seed_of[part], PART_SIZES[part], shares, noise) for part in parts}


def _draw_part(seed: int, n_bags: int, shares, noise: float) -> tuple[Bags, np.ndarray]:
    """One part. The legacy generator and the order of its calls are what makes the bits equal."""
    rng = np.random.RandomState(seed)
    counts = [int(n_bags * share) for share in shares]
    sizes = np.repeat([5, 20, 100, 1000], [*counts, n_bags - sum(counts)])
    rng.shuffle(sizes)
    y = rng.uniform(LOWEST, HIGHEST, size=n_bags)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    instances = np.empty((offsets[-1], N_FEATURES))
    for start, stop, degrees in zip(offsets[:-1], offsets[1:], y, strict=True):
        shape = (stop - start, N_FEATURES)
        instances[start:stop] = rng.chisquare(degrees, size=shape) / degrees
        instances[start:stop] += rng.normal(scale=noise, size=shape)  # drawn even without noise: it moves the state
    return Bags(instances, offsets), y
