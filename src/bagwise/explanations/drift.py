"""`Drift`: whether bags that arrive one after the other are still like the training bags, as a sequential test."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bagwise.bags.validation import label
from bagwise.io.table_output import Table

BETS = np.linspace(0.1, 0.9, 9)  # exponents of the betting functions


@dataclass(frozen=True, eq=False, repr=False)
class Drift(Table):
    """Sequential test of exchangeability: evidence, bag by bag, that later bags differ from the training bags.

    Attributes
    ----------
    ids : array
        The ids of the bags in the order of time.
    p_value : array
        The share of the training bags and of the earlier bags whose distance is at least that of this bag.
    evidence : array
        The test martingale after each bag. It starts at 1, and the probability that it ever reaches ``1 / level`` is at
        most ``level`` if the bags are exchangeable with the training bags.
    level : float
    alarm : int or None
        The position, in ``ids``, of the first bag at which the evidence reaches ``1 / level``.

    References
    ----------
    Vovk, Gammerman, Shafer (2005), Algorithmic learning in a random world, chapter 7.
    Volkhonskiy et al. (2017), Inductive conformal martingales for change-point detection, COPA.

    Examples
    --------
    >>> import bagwise as bw
    >>> bags, y = bw.datasets.make_gaussian(160, instances=20)
    >>> model = bw.method("aggregated").fit(bags[:100], y[:100])
    >>> moved = bags.replace(bags.instances + 5.0)
    >>> bw.novelty(model, moved[100:], by_time=True).drift.alarm is not None
    True
    """

    ids: np.ndarray
    p_value: np.ndarray
    evidence: np.ndarray
    level: float
    alarm: int | None

    def as_dict(self) -> dict[str, np.ndarray]:
        """Return the columns of `table`, a row per bag in the order of time."""
        return {"bag": self.ids, "p_value": self.p_value, "evidence": self.evidence}

    def summary(self) -> str:
        """Return one sentence: whether the bags drift away from the training bags, and since when."""
        if self.alarm is None:
            return (
                f"No drift is seen in {len(self.ids):,} bags in order of time: the largest evidence is "
                f"{self.evidence.max():.3g}, and {1 / self.level:g} raises an alarm."
            )
        return (
            f"The bags drift away from the training bags: the evidence reaches {1 / self.level:g} at bag "
            f"{label(self.ids[self.alarm])}, number {self.alarm + 1:,} of {len(self.ids):,} in order of time. "
            f"Without drift, at most {self.level:.2g} of all sequences raise an alarm."
        )

    def __repr__(self) -> str:
        return self.summary()


def detect_drift(calibration: np.ndarray, distance: np.ndarray, ids: np.ndarray, level: float) -> Drift:
    r"""Return the sequential test of distances that arrive in this order.

    The p-value of a bag is its rank among the calibration distances and those of the earlier bags: independent and at
    least uniform if all are exchangeable. The martingale bets against it with :math:`\varepsilon p^{\varepsilon - 1}`,
    averaged over exponents and, with weights 1 / (k (k + 1)), over the bag k at which the betting starts, so that a
    late change is found as well.
    """
    if not 0 < level < 1:
        raise ValueError(f"level must be a probability between 0 and 1, not {level!r}")
    n = len(calibration)
    past = np.concatenate([calibration, distance])
    p_value = np.array([np.mean(past[: n + t + 1] >= value) for t, value in enumerate(distance)])
    wealth, evidence = np.zeros(len(BETS)), np.empty(len(distance))
    for t, p in enumerate(p_value):
        wealth = (wealth + 1 / ((t + 1) * (t + 2))) * BETS * p ** (BETS - 1)
        evidence[t] = wealth.mean() + 1 / (t + 2)
    reached = np.flatnonzero(evidence >= 1 / level)
    return Drift(ids, p_value, evidence, level, int(reached[0]) if len(reached) else None)
