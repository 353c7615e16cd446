"""Checks of the laws: what may not change a prediction."""

from __future__ import annotations

import numpy as np

from bagwise.bags import from_arrays
from bagwise.bags.reach import compared
from bagwise.testing.trying import expect_close, sample


def check_order_of_bags_permutes_the_output(estimator):
    """Shuffled bags give the same predictions, shuffled."""
    bags, y = sample()
    order = np.random.default_rng(0).permutation(len(bags))
    estimator.fit(bags, y)
    got = estimator.predict(bags[order])
    expect_close(got, estimator.predict(bags)[order], y, "a prediction depends on the place of its bag")


def check_order_of_instances_never_matters(estimator):
    """A bag read backwards has the same prediction."""
    bags, y = sample()
    estimator.fit(bags, y)
    turned = from_arrays([bag[::-1] for bag in bags])
    expect_close(estimator.predict(turned), estimator.predict(bags), y, "the order of instances matters")


def check_company_never_matters(estimator):
    """A bag's prediction is the same alone or among others, a far-off one included."""
    bags, y = sample()
    estimator.fit(bags, y)
    together = estimator.predict(bags)
    alone = np.concatenate([estimator.predict(bags[[i]]) for i in range(len(bags))])
    expect_close(alone, together, y, "a prediction depends on the other bags in the call")
    crowd = compared(from_arrays([*bags, np.full((50, bags.n_features), 1e3)]))  # without a warning of it
    expect_close(estimator.predict(crowd)[:-1], together, y, "a prediction depends on a far-off bag in the call")


def check_repeated_instances_change_nothing(estimator):
    """A bag whose instances all come twice has the same prediction.

    So it is when the prediction is a function of the bag's distribution. Where the number of instances itself counts
    (a feature of its own, a prior that fewer instances leave stronger, a sum) it is not, and need not be.
    """
    bags, y = sample()
    estimator.fit(bags, y)
    twice = from_arrays([np.repeat(bag, 2, axis=0) for bag in bags])
    said = "repeating every instance changes the prediction"
    expect_close(estimator.predict(twice), estimator.predict(bags), y, said)
