"""The method instance-kme with instances weighted by attention, which the paper names as future work."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from sklearn.base import clone

from bagwise.bags import Bags, bag_folds
from bagwise.bags.checks import compared
from bagwise.bags.segments import segment_sum
from bagwise.bags.validation import check_options
from bagwise.embeddings import KernelMean
from bagwise.instances import OutOfFold
from bagwise.regressors.attention.attention_regressor import AttentionRegressor
from bagwise.regressors.embedding_ridge import EmbeddingRidge
from bagwise.regressors.pipeline import BagRegressor


class AttentionWeighted(BagRegressor):
    r"""Regression on embedded out-of-fold instance predictions, with attention as the weights of the instances.

    The instances of bag i have the attention a_il of a network that never saw the target of the bag. Their weights are

        w_il ∝ (L_i a_il)^ρ,   with mean one in the bag,

    in the loss of the instance regressor, in the embedding μ_i = Σ_l w_il k(·, ŷ_il) / Σ_l w_il, or in both. The power
    ρ is chosen by the left-out error of the second stage; ρ = 0 gives equal weights, as in
    instance-kme, and in a tie the first of ``powers`` is chosen. A new bag is weighted by the average attention of the
    networks of all folds.

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
    power_ : float
        The ρ chosen.
    errors_ : ndarray of shape (n_powers,)
        Mean squared left-out error of the second stage for each power.
    attention_, instances_, head_ : fitted estimators
        The attention networks, the instance regressor, and the second stage.
    weights_ : ndarray of shape (n_instances,)
        The cross-fitted attention of each training instance, summing to one in each bag.

    Notes
    -----
    A bag's own weights never depend on its target. With "loss" or "both" those of the *other* bags do, and so,
    slightly, does its out-of-fold prediction; only nested cross-fitting would avoid that. Epochs are chosen by the
    second stage without weights.

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

    _reads: ClassVar = {"apart": True}
    slack = None  # the head has limits

    def __init__(self, attention=None, instances=None, head=None, *, use: str = "both", powers=(0.0, 0.5, 1.0)):
        self.attention = attention
        self.instances = instances
        self.head = head
        self.use = use
        self.powers = powers

    def _fit(self, bags, y, weight) -> None:
        check_options(self, use=("loss", "embedding", "both"))
        if len(self.powers) == 0 or min(self.powers) < 0:
            raise ValueError(f"powers must hold at least one number, none below zero, not {self.powers!r}")
        bags = compared(bags)
        stage = clone(self.instances) if self.instances is not None else OutOfFold()
        fold = bag_folds(bags, stage.folds, random_state=stage.random_state)
        self.attention_ = clone(self.attention) if self.attention is not None else AttentionRegressor()
        self.weights_ = self.attention_.cross_fit_weights(bags, y, fold, weight)
        candidates = self._fit_all(stage, bags, y, weight)
        self.errors_ = np.array([head.error_ for _, head in candidates])
        best = int(np.argmin(self.errors_))
        self.power_, (self.instances_, self.head_) = float(self.powers[best]), candidates[best]

    def _predict(self, bags) -> np.ndarray:
        return self.head_.predict(self._embedded(bags))

    def predict_instances(self, bags) -> np.ndarray:
        """Return the prediction of the instance regressor for each instance."""
        return self.instances_.transform(self._checked(bags)).instances[:, 0].astype(np.float64)

    def instance_weights(self, bags) -> np.ndarray:
        """Return the share of each instance in the embedding of its bag (in the loss, if only that is weighted)."""
        bags = self._checked(bags)
        return self._weigh(bags) / bags.expand(bags.sizes)

    def contributions(self, bags) -> np.ndarray:
        """Return the contribution of each instance: its share in the embedding times its prediction as a bag of one."""
        return self.head_.contributions(self._embedded(self._checked(bags)))

    def _fit_all(self, stage, bags, y, weight) -> list:
        """Return the fitted stage and head for each power."""
        candidates, shared = [], None
        for power in self.powers:
            weighed = bags.with_weights(powered(self.weights_, bags, power))
            if shared is None or self.use != "embedding":
                fitted = clone(stage)
                column = fitted.fit_transform(weighed if power and self.use != "embedding" else bags, y, weight)
                shared = fitted, column
            fitted, column = shared
            head = clone(self.head) if self.head is not None else EmbeddingRidge(KernelMean())
            column = column._with(weights=weighed.weights if self._in_embedding(power) else None)
            candidates.append((fitted, head.fit(column, y, weight)))
        return candidates

    def _in_embedding(self, power: float) -> bool:
        return bool(power) and self.use != "loss"

    def _weigh(self, bags: Bags) -> np.ndarray:
        if not self.power_:
            return np.ones(bags.n_instances)
        return powered(self.attention_.instance_weights(bags), bags, self.power_)

    def _embedded(self, bags: Bags) -> Bags:
        column = self.instances_.transform(bags)
        return column.with_weights(self._weigh(bags)) if self._in_embedding(self.power_) else column


def powered(attention: np.ndarray, bags: Bags, power: float) -> np.ndarray:
    """Return (L_i a_il)^ρ, scaled to mean one in each bag."""
    weight = (attention * bags.expand(bags.sizes)) ** power
    return weight * bags.expand(bags.sizes / segment_sum(weight, bags.offsets))
