"""Districts of people, of which only the share of supporters is known: ecological inference with a known truth."""

from __future__ import annotations

import numpy as np

from bagwise.bags import Bags, from_arrays


def make_districts(n_bags: int = 300, *, context: float = 0.0, random_state=0) -> tuple[Bags, np.ndarray]:
    r"""Districts of 60 to 200 people with age, sex (1 or 2) and income; y is the share of them that support a motion.

    A person supports it with probability

    p = 1 / (1 + exp(0.4 - 0.05 (age - 45) - 0.8 [sex = 2] + 0.5 income - context (centre - 45) / 8)),

    with centre the mean age that the district was drawn with. Districts differ in the centre (N(45, 8²)), the share of
    women (N(0.5, 0.12²)) and the mean income (N(0, 0.6²)). ``bags.kept["chance"]`` holds p of every person: the truth
    for any group of people.

    Parameters
    ----------
    n_bags : int
    context : float
        With another value than 0 a person's mind depends on who else lives in the district, which no total shows.
    random_state : int, Generator or None

    Notes
    -----
    The design is bagwise's own.

    Examples
    --------
    >>> from bagwise.datasets import make_districts
    >>> bags, y = make_districts(40)
    >>> bags.feature_names, sorted(bags.kept)
    (('age', 'sex', 'income'), ['chance'])
    """
    rng = np.random.default_rng(random_state)
    people, chances, y = [], [], []
    for size in rng.integers(60, 200, size=n_bags):
        centre, income = rng.normal(45, 8), rng.normal(0, 0.6)
        women = np.clip(rng.normal(0.5, 0.12), 0.1, 0.9)
        age = np.clip(rng.normal(centre, 14, size=size), 18, 95)
        sex = np.where(rng.random(size) < women, 2.0, 1.0)
        own = rng.normal(income, 1.0, size=size)
        logit = 0.05 * (age - 45) + 0.8 * (sex == 2) - 0.5 * own - 0.4 + context * (centre - 45) / 8
        chance = 1 / (1 + np.exp(-logit))
        people.append(np.column_stack([age, sex, own]))
        chances.append(chance)
        y.append((rng.random(size) < chance).mean())
    bags = from_arrays(people, feature_names=["age", "sex", "income"])
    return bags._with(kept={"chance": np.concatenate(chances)}), np.array(y)
