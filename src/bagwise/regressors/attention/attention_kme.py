"""The method instance-kme with instances weighted by attention, which the paper names as future work."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone

from bagwise.bags import Bags, bag_folds, check_bags, check_fit, remember_columns
from bagwise.bags.checks import compared
from bagwise.bags.segments import segment_sum
from bagwise.embeddings import KernelMean
from bagwise.instances import OutOfFold
from bagwise.regressors.attention.attention_regressor import AttentionRegressor
from bagwise.regressors.embedding_ridge import EmbeddingRidge
from bagwise.regressors.pipeline import FittedDisplay

USES = ("loss", "embedding", "both")


class AttentionWeighted(FittedDisplay, RegressorMixin, BaseEstimator):
    r"""Regression on embedded out-of-fold instance predictions, with attention as the weights of the instances.

    The instances of bag i have the attention a_il of a network that never saw the target of the bag. Their weights are

        w_il ∝ (L_i a_il)^ρ,   with mean one in the bag,

    in the loss of the instance regressor, in the embedding μ_i = Σ_l w_il k(·, ŷ_il) / Σ_l w_il, or in both. The power
    ρ is chosen by the left-out error of the second stage; ρ = 0 is instance-kme (in the catalogue: without its offset),
    and the first of ``powers`` wins a tie. A new bag is weighted by the average attention of the networks of all folds.

    Parameters
    ----------
    attention : AttentionRegressor, optional
        The attention networks.
    instances : OutOfFold, optional
        The instance regressor; the attention networks are cross-fitted on its folds.
    head : EmbeddingRidge of a KernelMean, optional
        The second stage.
    use : {"both", "embedding", "loss"}, default="both"
        Where the weights are used. With "embedding" the instance regressor is trained once, otherwise once per power.
    powers : sequence of float, default=(0.0, 0.5, 1.0)
        Candidates for ρ.

    Attributes
    ----------
    power_ : the ρ chosen
    errors_ : mean squared left-out error of the second stage for each power
    attention_, instances_, head_ : fitted
    weights_ : the cross-fitted attention of every training instance, summing to one in each bag

    Notes
    -----
    A bag's own weights never depend on its target. With "loss" or "both" the weights of the *other* bags do, through
    their attention networks, and so, slightly, does the bag's out-of-fold prediction; only nested cross-fitting, at ten
    times the cost, would avoid that. Epochs are chosen by the second stage without weights.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> from bagwise.regressors import AttentionRegressor, AttentionWeighted
    >>> rng = np.random.default_rng(0)
    >>> bags = bw.from_arrays([rng.normal(size=(4, 2)) + i for i in range(12)])
    >>> attention = AttentionRegressor(read=(4,), epochs=3, restarts=1)
    >>> model = AttentionWeighted(attention).fit(bags, np.arange(12.0))
    >>> model.instance_weights(bags).shape
    (48,)

    References
    ----------
    Uriot (2019), Target-wise kernel mean embedding in multiple instance regression, section on future work.
    """

    def __init__(self, attention=None, instances=None, head=None, *, use: str = "both", powers=(0.0, 0.5, 1.0)):
        self.attention = attention
        self.instances = instances
        self.head = head
        self.use = use
        self.powers = powers

    def fit(self, bags, y, sample_weight=None) -> AttentionWeighted:
        if self.use not in USES:
            raise ValueError(f"use must be one of {', '.join(map(repr, USES))}, not {self.use!r}")
        if len(self.powers) == 0 or min(self.powers) < 0:
            raise ValueError(f"powers must hold at least one number, none below zero, not {self.powers!r}")
        bags, y = check_fit(bags, y, fitting=self, apart=True)
        stage = clone(self.instances) if self.instances is not None else OutOfFold()
        fold = bag_folds(bags, stage.folds, random_state=stage.random_state)
        self.attention_ = clone(self.attention) if self.attention is not None else AttentionRegressor()
        self.weights_ = self.attention_.cross_fit_weights(compared(bags), y, fold, sample_weight)
        tried = self._try_all(stage, compared(bags), y, sample_weight)
        self.errors_ = np.array([head.error_ for _, head in tried])
        best = int(np.argmin(self.errors_))
        self.power_, (self.instances_, self.head_) = float(self.powers[best]), tried[best]
        remember_columns(self, bags)
        return self

    def predict(self, bags) -> np.ndarray:
        bags = check_bags(bags, fitted=self, apart=True)
        column = self.instances_.transform(bags)
        return self.head_.predict(self._embedded(column, self._weigh(bags)))

    def predict_instances(self, bags) -> np.ndarray:
        """Return the prediction of the instance regressor for each instance."""
        return self.instances_.transform(check_bags(bags, fitted=self, apart=True)).instances[:, 0].astype(np.float64)

    def instance_weights(self, bags) -> np.ndarray:
        """Return the share of each instance in the embedding of its bag (in the loss, if only that is weighted)."""
        bags = check_bags(bags, fitted=self, apart=True)
        return self._weigh(bags) / bags.expand(bags.sizes)

    def contributions(self, bags) -> np.ndarray:
        """Return the contribution of each instance: its share in the embedding times its prediction as a bag of one."""
        bags = check_bags(bags, fitted=self, apart=True)
        column = self.instances_.transform(bags)
        alone = self.head_.predict_instances(self._embedded(column, np.ones(bags.n_instances)))
        share = self._weigh(bags) if self._in_embedding(self.power_) else np.ones(bags.n_instances)
        return share * alone / bags.expand(bags.sizes)

    def _try_all(self, stage, bags, y, sample_weight) -> list:
        """Return the fitted stage and head for each power."""
        tried, shared = [], None
        for power in self.powers:
            weighed = bags.with_weights(powered(self.weights_, bags, power))
            if self.use == "embedding":
                shared = shared or _fitted(stage, bags, y, sample_weight)
                fitted, column = shared
            else:
                fitted, column = _fitted(clone(stage), weighed if power else bags, y, sample_weight)
            head = clone(self.head) if self.head is not None else EmbeddingRidge(KernelMean())
            column = column._with(weights=weighed.weights if self._in_embedding(power) else None)
            tried.append((fitted, head.fit(column, y, sample_weight)))
        return tried

    def _in_embedding(self, power: float) -> bool:
        return bool(power) and self.use != "loss"

    def _weigh(self, bags: Bags) -> np.ndarray:
        if not self.power_:
            return np.ones(bags.n_instances)
        return powered(self.attention_.instance_weights(bags), bags, self.power_)

    def _embedded(self, column: Bags, weight: np.ndarray) -> Bags:
        return column.with_weights(weight) if self._in_embedding(self.power_) else column


def powered(attention: np.ndarray, bags: Bags, power: float) -> np.ndarray:
    """Return (L_i a_il)^ρ, scaled to mean one in each bag.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bags = bw.from_arrays([np.zeros((2, 1)), np.zeros((1, 1))])
    >>> powered(np.array([0.75, 0.25, 1.0]), bags, 1.0).tolist()
    [1.5, 0.5, 1.0]
    """
    weight = (attention * bags.expand(bags.sizes)) ** power
    return weight * bags.expand(bags.sizes / segment_sum(weight, bags.offsets))


def _fitted(stage: OutOfFold, bags, y, sample_weight) -> tuple[OutOfFold, Bags]:
    column = stage.fit_transform(bags, y, sample_weight)
    return stage, column
