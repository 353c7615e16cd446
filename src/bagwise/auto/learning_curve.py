"""Estimate whether more data would help, from the error of a member with half the bags or half the instances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bagwise.auto.cross_validation import CrossValidation
from bagwise.auto.large_data import thin
from bagwise.auto.members import Member
from bagwise.bags import Bags, bag_folds
from bagwise.held_out import assemble
from bagwise.metrics import get_metric, squared

MIN_BAGS = 40
COSTLY_FOLDS = 2  # that are fitted again for a costly member
SMALL = 0.05  # a rise of the error below which more of the same hardly helps
NOUNS = {"bags": "bags", "instances": "instances per bag"}


@dataclass(frozen=True)
class Curve:
    """Relative increase of the error of a member with half the bags and with half the instances."""

    member: str
    rise: dict[str, float]
    se: dict[str, float]

    def sentences(self) -> str:
        """Return one sentence per curve. A change within two standard errors is called noise."""
        sentences = []
        for part, rise in self.rise.items():
            noun, se, shown = NOUNS[part], self.se[part], round(rise, 2) + 0.0  # no -0 %
            measured = f"with half of them the error of {self.member} changed by {shown:+.0%} (± {se:.0%})"
            measured = measured.replace("%", " %")
            if rise > 2 * se:
                sentences.append(f"More {noun} would probably help: {measured}.")
            elif rise + 2 * se < SMALL:
                sentences.append(f"More {noun} would hardly help: {measured}.")
            else:
                sentences.append(f"Inconclusive: the effect of more {noun} is within noise; {measured}.")
        return " ".join(sentences)


def learning_curve(cv: CrossValidation, member: Member, held_out: np.ndarray) -> Curve | None:
    """Return the learning curve of a member from its held-out predictions; None for too few bags.

    Half of the bags are drawn by a hash of their ids, regardless of groups. A costly member is fitted again only for
    two of the folds, to save time.
    """
    if len(cv.bags) < MIN_BAGS:
        return None
    n_folds = min(cv.n_folds, COSTLY_FOLDS) if member.costly else cv.n_folds

    def predictions_by(bags: Bags, chosen: np.ndarray) -> np.ndarray:
        """Predict the bags in the first folds by models of the chosen bags outside; NaN for the others."""
        folds = [(chosen & train, test) for train, test in (cv.fold_masks(0, k) for k in range(n_folds))]
        predictions = assemble(cv._run([(member, fold, False) for fold in folds], bags), folds, len(cv.y))
        for train, test in folds:
            predictions[test] = np.clip(predictions[test], *cv.limits(train))
        return predictions

    half = bag_folds(cv.bags._with(groups=None), 2, random_state=cv.random_state) == 0
    halved = {"bags": predictions_by(cv.bags, half)}
    if np.median(cv.bags.sizes) >= 2:
        thinned = thin(cv.bags, (cv.bags.sizes + 1) // 2, cv.random_state)
        halved["instances"] = predictions_by(thinned, np.ones(len(half), dtype=bool))
    compared = (cv.fold < n_folds)[cv.scored]
    loss, is_squared = cv.loss(held_out)[compared], get_metric(cv.metric).bag_loss is squared
    level = max(float(loss.mean()), np.finfo(float).tiny)
    rise, se = {}, {}
    for part, predictions in halved.items():
        worse = cv.loss(predictions)[compared] - loss
        ratio, error = max(level + worse.mean(), 0.0) / level, worse.std() / np.sqrt(len(worse)) / level
        rise[part] = float((np.sqrt(ratio) if is_squared else ratio) - 1.0)
        se[part] = float(error / (2 if is_squared else 1))  # d√m / √m = dm / 2m
    return Curve(member.name, rise, se)
