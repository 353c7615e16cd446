"""`novelty`: test whether new bags are similar to the training bags, by the profile stored in a fitted model.

`Drift` is a sequential test of whether bags that arrive over time are still similar to the training bags.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from bagwise.bags import Bags, check_bags
from bagwise.bags.checks import refuse_other_names
from bagwise.bags.training_profile import MIN_UNITS, TrainingProfile
from bagwise.bags.validation import label
from bagwise.io.table_output import Table, Text

VERDICTS = ("inside", "edge", "outside")
BETS = np.linspace(0.1, 0.9, 9)  # exponents of the betting functions of the test of drift


@dataclass(frozen=True, eq=False, repr=False)
class Drift(Table):
    """Sequential test of exchangeability: evidence, bag by bag, that later bags differ from the training bags.

    Attributes
    ----------
    ids : array, in the order of time
    p_value : array
        The share of the training bags and of the earlier bags whose distance is at least that of this bag.
    evidence : array
        The test martingale after each bag. It starts at 1, and the probability that it ever reaches ``1 / level`` is at
        most ``level`` if the bags are exchangeable with the training bags.
    level : float
    alarm : int or None, the position of the first bag at which the evidence reaches ``1 / level``

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


@dataclass(frozen=True, eq=False, repr=False)
class Novelty(Table):
    """Similarity of each bag to the training bags, with a verdict.

    Attributes
    ----------
    ids : of the bags
    verdict : array of "inside", "edge" and "outside", one per bag
    distance, percentile : arrays (bags,)
        The distance to the nearest training bags, and the percentage of training bags with a smaller distance.
    share_outside, outside : arrays (bags,) and (bags, columns)
        The share of the instances with a value outside the range of training in any column, and in each column.
    columns : names of the columns: the features, then the covariates
    drift : Drift or None, the sequential test over the bags in order of time, with ``by_time=True``

    Examples
    --------
    >>> import bagwise as bw
    >>> bags, y = bw.datasets.make_gaussian(60, instances=20)
    >>> found = bw.novelty(bw.method("aggregated").fit(bags[:50], y[:50]), bags[50:])
    >>> list(found.as_dict())
    ['bag', 'verdict', 'percentile', 'share_outside', 'column_outside']
    """

    ids: np.ndarray
    verdict: np.ndarray
    percentile: np.ndarray
    share_outside: np.ndarray
    outside: np.ndarray
    columns: tuple[str, ...]
    distance: np.ndarray
    drift: Drift | None = None

    def as_dict(self) -> dict[str, np.ndarray]:
        """Return the columns of `table`, a row per bag; ``column_outside`` has most instances outside its range."""
        worst = np.array(self.columns, dtype=object)[self.outside.argmax(axis=1)]
        return {
            "bag": self.ids,
            "verdict": self.verdict,
            "percentile": self.percentile,
            "share_outside": self.share_outside,
            "column_outside": np.where(self.share_outside > 0, worst, ""),
        }

    def counts(self) -> dict[str, int]:
        """Return the number of bags with each verdict."""
        return {verdict: int(np.count_nonzero(self.verdict == verdict)) for verdict in VERDICTS}

    def summary(self) -> Text:
        """Return one or two sentences: how many bags are like those of training, and which is least like them."""
        n, (inside, edge, outside) = len(self.ids), self.counts().values()
        if inside == n:
            which = f"All {n:,} bags are" if n > 1 else "The bag is"
            return Text(f"{which} like the training bags.")
        text = f"Of {n:,} bags, {inside:,} are like the training bags (inside), {edge:,} at the edge and "
        text += f"{outside:,} outside"
        severity = np.array([VERDICTS.index(verdict) for verdict in self.verdict])
        worst = int(np.lexsort((self.distance, self.share_outside, severity))[-1])
        text += f". Least like them is bag {label(self.ids[worst])}"
        if self.share_outside[worst] > 0:
            where = f"column {self.as_dict()['column_outside'][worst]!r}"
            text += f", with {self.share_outside[worst]:.0%} of its instances beyond the values of training ({where})"
        return Text(text + ".")

    def __repr__(self) -> str:
        return self.summary()


def novelty(
    model, bags, *, edge: float = 0.95, outside: float = 0.99, by_time: bool = False, level: float = 0.01
) -> Novelty:
    r"""Check whether bags are similar to the training bags of a model.

    Each fitted model stores a profile of its training bags, about 10 kB in a model file. Two numbers of a bag are
    ranked among the same numbers of the training bags, each compared with the other training bags (those of other
    groups): the distance to the nearest training bags in a small landmark embedding, and the share of instances outside
    the range of any column. Let c be the number of the n training bags whose larger rank of the two is below that of
    the bag. The verdict is

    - ``outside`` if c ≥ ⌈0.99 (n + 1)⌉,
    - ``edge`` if c ≥ ⌈0.95 (n + 1)⌉,
    - ``inside`` else,

    both numbers at most n. So about 5 % of bags like those of training are at the edge or outside, and about 1 %
    outside (one in n + 1, if n is below 99), for any distribution. The targets are not used.

    Parameters
    ----------
    model : fitted bag regressor, or Bags
        Pass the training bags if the model is a custom estimator without a profile.
    bags : Bags
        Missing values are never outside a range. Instances count by their weights.
    edge, outside : float
        The shares of training bags beyond which a bag is at the edge, and outside.
    by_time : bool, default False
        Whether to test the bags also as a sequence, in the order of ``bags.time``, or in the given order without times.
        The result is the attribute ``drift``. A few percent of usual bags are flagged by their verdicts, so in a long
        sequence some bag is always outside; the sequential test has no such false alarms.
    level : float, default 0.01
        The largest probability of a false alarm of this test, in a sequence of any length.

    Returns
    -------
    Novelty

    Notes
    -----
    A model of `fit_scan` stores only the means of its training bags: new bags are compared by their means, and the
    share outside the range is not used.

    References
    ----------
    Meyer, Pebesma (2021), Predicting into unknown space? Estimating the area of applicability of spatial prediction
    models, Methods in Ecology and Evolution 12. Vovk, Gammerman, Shafer (2005), Algorithmic learning in a random world.

    Examples
    --------
    >>> import bagwise as bw
    >>> bags, y = bw.datasets.make_gaussian(100, instances=20)
    >>> model = bw.method("aggregated").fit(bags, y)
    >>> bw.novelty(model, bags.replace(bags.instances + 50.0)[:3]).verdict.tolist()
    ['outside', 'outside', 'outside']
    """
    if not 0 < edge <= outside < 1:
        raise ValueError(f"edge and outside must be shares with 0 < edge <= outside < 1, not {edge!r} and {outside!r}")
    if isinstance(model, Bags | list | tuple):
        training = check_bags(model, allow_missing=True, allow_weights=True, apart=True)
        model = SimpleNamespace(profile_=TrainingProfile(training))
    profile, reason = _kept(model), why_not_judged(model)
    if profile is None or reason is not None:
        raise ValueError(reason)
    bags = check_bags(bags, allow_missing=True, allow_weights=True, apart=True)
    names = _compared_names(bags, profile)
    share, by_column = profile.outside(bags)
    distance = profile.distance(bags)
    by_distance, rank = profile.ranks(distance, share)
    n = len(profile.distances)
    needed = [min(n, int(np.ceil(level * (n + 1) - 1e-9))) for level in (edge, outside)]
    verdict = np.array(VERDICTS)[np.sum([rank >= least for least in needed], axis=0)]
    drift = None
    if by_time:
        order = np.arange(len(bags)) if bags.time is None else np.argsort(bags.time, kind="stable")
        drift = detect_drift(profile.distances, distance[order], bags.ids[order], level)
    return Novelty(bags.ids, verdict, 100.0 * by_distance / n, share, by_column, names, distance, drift)


def why_not_judged(model) -> str | None:
    """Return why `novelty` cannot judge bags by this model; None if it can."""
    profile = _kept(model)
    if profile is None:
        return (
            f"this {type(model).__name__} keeps no profile of its training bags: it is not fitted, or is an "
            "estimator of your own; fit it again, or pass the training bags in its place: "
            "bw.novelty(training_bags, bags)"
        )
    if profile.n_units < MIN_UNITS:
        return (
            f"there were {profile.n_units} training bags (or groups of bags), too few to tell which distances are "
            f"large; novelty needs at least {MIN_UNITS}"
        )
    return None


def _kept(model) -> TrainingProfile | None:
    if hasattr(model, "profile_"):
        return model.profile_
    from bagwise.explanations.explanation import unwrapped  # here, for `bagwise predict` does not need it

    return getattr(unwrapped(model), "profile_", None)


def _compared_names(bags: Bags, profile: TrainingProfile) -> tuple[str, ...]:
    """Return the names of the columns, which must be those of training."""
    wide = bags[:1].spread()
    if wide.feature_names is not None and profile.names is not None:
        refuse_other_names(list(wide.feature_names), profile.names)
    n_columns = profile.range.shape[1]
    if wide.n_features != n_columns:
        raise ValueError(
            f"bags have {wide.n_features} columns, covariates included, and the model was fitted on {n_columns}; "
            "load the same columns as for fit"
        )
    return tuple(profile.names or wide.feature_names or map(str, range(n_columns)))


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
