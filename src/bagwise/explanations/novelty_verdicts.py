"""`novelty`: whether new bags are like the training bags, from the profile that a fitted model keeps."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from bagwise.bags import Bags, check_bags
from bagwise.bags.checks import FEWEST, TrainingProfile, refuse_other_names
from bagwise.bags.validation import label
from bagwise.explanations.drift import Drift, detect_drift
from bagwise.io.table_output import Table, Text

VERDICTS = ("inside", "edge", "outside")


@dataclass(frozen=True, eq=False, repr=False)
class Novelty(Table):
    """How much every bag is like the training bags.

    Attributes
    ----------
    ids : of the bags
    verdict : array of "inside", "edge" and "outside", one per bag
    percentile : array (bags,)
        The percentage of training bags that lie nearer to the others than this bag to its nearest training bags.
    share_outside : array (bags,)
        The share of the instances with a value outside the range of training in any column.
    outside : array (bags, columns)
        The same, column by column.
    columns : names of the columns: the features, then the covariates
    distance : array (bags,), of the bag to its nearest training bags, of which ``percentile`` is the rank
    drift : Drift or None
        The sequential test over the bags in order of time, if ``by_time`` was asked for.

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
        n, counts = len(self.ids), self.counts()
        if counts["inside"] == n:
            return Text(
                f"All {n:,} bags are like the training bags." if n > 1 else "The bag is like the training bags."
            )
        text = f"Of {n:,} bags, {counts['inside']:,} are like the training bags (inside), {counts['edge']:,} at the "
        text += f"edge and {counts['outside']:,} outside"
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
    r"""Check whether bags are like those that a model was fitted on.

    Every method keeps a profile of its training bags (`TrainingProfile`, about 10 kB in a model file): the range of
    every column, and a small landmark embedding in which the distance of a bag to its nearest training bags is
    measured. Two numbers of a bag are compared with those of the training bags, each taken against the others (those
    of other groups): its distance, and the share of its instances outside the range. Let c be the number of the n
    training bags whose larger rank of the two is below that of the bag. The verdict is

    - ``outside`` if c ≥ ⌈0.99 (n + 1)⌉,
    - ``edge`` if c ≥ ⌈0.95 (n + 1)⌉,
    - ``inside`` else,

    both numbers at most n. So about 5 % of bags like those of training are at the edge or outside, and about 1 %
    outside (one in n + 1, if n is below 99), whatever the distribution. The targets have no part in it.

    Parameters
    ----------
    model : fitted bag regressor, or Bags
        Of any method; intervals and searches are looked into. The training bags themselves do as well, for a model of
        your own, which keeps no profile.
    bags : Bags
        Missing values are never outside a range. Instances count by their weights.
    edge, outside : float
        The shares of training bags beyond which a bag is at the edge, and outside.
    by_time : bool, default False
        Whether to test the bags as a sequence, too: in the order of ``bags.time``, or as they come without times. The
        result is the attribute ``drift``. A single verdict is wrong for a few percent of all bags, so in a long
        sequence some bag is always outside; this test raises a false alarm in at most ``level`` of all sequences.
    level : float, default 0.01
        The probability of a false alarm in a sequence of any length.

    Returns
    -------
    Novelty

    Notes
    -----
    The cost is that of 12 squared distances per instance: 0.04 s of CPU time for 100,000 instances of 16 features. At
    fit it is at most that of 2 million instances.

    A model by `fit_scan` knows the means of its training bags only: new bags are compared by their means, and the share
    outside the range has no part in the verdict.

    The area of applicability of Meyer and Pebesma asks the same of rows: the distance to the nearest training row, in
    columns that are weighted by their importance, against the distances between folds. It has one threshold, the
    whisker of a box plot, and no rate that the threshold promises.

    References
    ----------
    Meyer, Pebesma (2021), Predicting into unknown space? Estimating the area of applicability of spatial prediction
    models, Methods in Ecology and Evolution 12. Vovk, Gammerman, Shafer (2005), Algorithmic learning in a random world.

    Examples
    --------
    >>> import bagwise as bw
    >>> bags, y = bw.datasets.make_gaussian(100, instances=20)
    >>> model = bw.method("aggregated").fit(bags, y)
    >>> moved = bags.replace(bags.instances + 50.0)
    >>> bw.novelty(model, moved[:3]).verdict.tolist()
    ['outside', 'outside', 'outside']
    """
    if not 0 < edge <= outside < 1:
        raise ValueError(f"edge and outside must be shares with 0 < edge <= outside < 1, not {edge!r} and {outside!r}")
    profile = _profile(model)
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
    if profile.n_units < FEWEST:
        return (
            f"there were {profile.n_units} training bags (or groups of bags), too few to tell which distances are "
            f"large; novelty needs at least {FEWEST}"
        )
    return None


def _kept(model) -> TrainingProfile | None:
    if hasattr(model, "profile_"):
        return model.profile_
    from bagwise.explanations.explanation import unwrapped  # here, for `bagwise predict` does not need it

    return getattr(unwrapped(model), "profile_", None)


def _profile(model) -> TrainingProfile:
    if isinstance(model, Bags | list | tuple):
        bags = check_bags(model, allow_missing=True, allow_weights=True, apart=True)
        model = SimpleNamespace(profile_=TrainingProfile(bags))
    profile, reason = _kept(model), why_not_judged(model)
    if profile is None or reason is not None:
        raise ValueError(reason)
    return profile


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
