"""A regressor whose prediction is the mean or sum of a network's values of the instances."""

from __future__ import annotations

from numbers import Real

import numpy as np

from bagwise.bags import Bags
from bagwise.bags.checks import within_range
from bagwise.bags.segments import segment_sum
from bagwise.bags.validation import check_options
from bagwise.instances.networks.cpu import BIAS_AT, NetworkEnsemble, layers, layout
from bagwise.regressors.attention.attention_regressor import Scale, checked_recipe
from bagwise.regressors.attention.network import Data, Member, Network, Split, train_members
from bagwise.regressors.bayesian.aggregate_gp import ExposureMixin, exposures
from bagwise.regressors.bayesian.evidence_ridge import few_folds
from bagwise.regressors.pipeline import BagRegressor


class AdditiveRegressor(ExposureMixin, BagRegressor):
    r"""Neural network h whose values, averaged or summed over the instances, are the prediction of a bag.

    The prediction is ŷ_i = Σ_l s_il h(x_il), with s_il the share of instance l in bag i (1 / size, or by its weight).
    Training minimises a blend of the losses of bags and of instances,

        λ (ŷ_i - y_i)² + (1 - λ) Σ_l s_il (h(x_il) - y_i)²  =  (ŷ_i - y_i)² + (1 - λ) Σ_l s_il (h(x_il) - ŷ_i)².

    With λ = 1 only the mean of the values is fitted, which is correct if the target is an aggregate, but hard to learn
    from few bags. With λ = 0 each instance has its bag's target, as in `instance-mean`. The right-hand side is the loss
    of bags plus a penalty on the variance of the values within a bag; λ sets its strength.

    For each λ of ``blends`` and each fold, a network is trained without the fold and stopped early by its error. The
    λ with the smallest error on held-out bags is chosen, and its networks are averaged.

    Parameters
    ----------
    hidden : tuple of int, default=(64,)
        Units of the hidden layers of h; () is a linear h.
    aggregate : {"mean", "sum"}, default="mean"
        How the values of the instances are aggregated. For "sum", ŷ_i = Σ_l w_il h(x_il), with w the weights
        of the instances (their exposure: population, area), or 1. h is then fitted to the rates y_i / Σ_l w_il, each
        bag with the weight Σ_l w_il: the variance of a sum is assumed to grow with the total weight.
    blends : sequence of float from 0 to 1, default=(1.0, 0.9, 0.5, 0.0)
        Candidates for λ, the weight of the loss of bags.
    folds : int, default=5
        Number of folds, at most the number of bags (or groups).
    epochs : int, default=200
        Maximum number of passes over the bags.
    patience : int, default=20
        Training stops after this number of epochs without improvement on the held-out bags.
    batch_size : int, default=16
        Bags per step of Adam; fewer where they are large.
    learning_rate : float, default=0.01
        Step size of Adam.
    weight_decay : float, default=1e-4
        Decoupled weight decay of Adam.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Where networks are trained ("cuda:1" names one of several GPUs). "auto" takes a GPU if torch sees one and the
        work is large enough to be faster there. Predictions are made on the CPU.
    random_state : int, RandomState or None, default=0
        Seed of the folds, the first weights and the batches.
    n_jobs : int, optional
        Networks trained at once on a CPU. The numbers do not depend on it.

    Attributes
    ----------
    blend_ : float
        The λ chosen.
    errors_ : ndarray
        Mean squared error of held-out bags for each of ``blends``, relative to that of predicting the mean.
    networks_ : NetworkEnsemble
        A network per fold.

    Notes
    -----
    The errors that choose λ also stopped the networks, so they are slightly too small, about equally for
    each λ. Features outside the training range are clipped to it.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> from bagwise.regressors import AdditiveRegressor
    >>> rng = np.random.default_rng(0)
    >>> bags = bw.from_arrays(list(rng.normal(size=(60, 5, 2))))
    >>> value = np.abs(bags.instances[:, 0])  # per instance; only the means over bags are used
    >>> y = value.reshape(60, 5).mean(axis=1)
    >>> model = AdditiveRegressor((16,), blends=(0.5, 1.0), folds=2, epochs=40, learning_rate=0.02).fit(bags, y)
    >>> model.blend_
    1.0
    >>> parts = model.contributions(bags).reshape(60, 5)
    >>> bool(np.allclose(parts.sum(axis=1), model.predict(bags)))
    True

    References
    ----------
    Javanmard, Chen, Mirrokni, Pouget-Abadie (2024), Learning from aggregate responses: instance level versus bag level
    loss functions.
    """

    def __init__(
        self,
        hidden=(64,),
        *,
        aggregate: str = "mean",
        blends=(1.0, 0.9, 0.5, 0.0),
        folds: int = 5,
        epochs: int = 200,
        patience: int = 20,
        batch_size: int = 16,
        learning_rate: float = 0.01,
        weight_decay: float = 1e-4,
        device: str = "auto",
        random_state=0,
        n_jobs: int | None = None,
    ):
        self.hidden = hidden
        self.aggregate = aggregate
        self.blends = blends
        self.folds = folds
        self.epochs = epochs
        self.patience = patience
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.device = device
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _fit(self, bags, y, weight) -> None:
        self._check_options()
        recipe = checked_recipe(self)
        if self.aggregate == "sum":
            total = exposures(bags)
            y, weight = y / total, weight * total
            self.remember_exposures(total, weighted=bags.weights is not None)
            self.remember_targets(y, weight)
        fold = few_folds(bags, self.folds, recipe.seed)
        counted = weight > 0
        splits = [Split.of(counted, fold, r) for r in range(len(np.unique(fold[counted])))]
        scale = Scale.of(bags.instances)
        rows = (bags.instances - scale.centre) / scale.deviation
        data = Data(rows, np.empty((len(bags), 0)), bags.shares(), bags.offsets)
        network = Network(bags.n_features, 0, tuple(self.hidden), pooling="mean", looks=1, head=())
        blends = np.array(self.blends, dtype=np.float64)
        members = train_members(network, data, y, weight, splits, recipe, n_jobs=self.n_jobs, blends=blends)
        self.errors_ = np.array([member.error for member in members]).reshape(len(blends), -1).mean(axis=1)
        best = int(np.argmin(self.errors_))
        self.blend_ = float(blends[best])
        self.networks_ = _ensemble(network, members[best * len(splits) : (best + 1) * len(splits)], scale)

    def predict(self, bags) -> np.ndarray:
        bags = self._checked(bags)
        return segment_sum(self.contributions(bags), bags.offsets)

    def predict_instances(self, bags) -> np.ndarray:
        """Return h of each instance: its value in a mean, or the value per unit of weight in a sum."""
        return self._values(self._checked(bags))

    def contributions(self, bags) -> np.ndarray:
        """Return the part of each instance in its bag's prediction: h times its share, or in a sum its weight."""
        bags = self._checked(bags)
        scale = exposures(bags) if self.aggregate == "sum" else 1.0
        return self.limited_contributions(self._values(bags) * self._weights(bags), bags, scale)

    def _values(self, bags: Bags) -> np.ndarray:
        return self.networks_.predict_checked(np.ascontiguousarray(within_range(bags, self).instances))

    def _check_options(self) -> None:
        check_options(self, aggregate=("mean", "sum"))
        blends = self.blends if isinstance(self.blends, tuple | list | np.ndarray) else ()
        if len(blends) == 0 or not all(isinstance(blend, Real) and 0 <= blend <= 1 for blend in blends):
            raise ValueError(f"blends must hold at least one number, each from 0 to 1, not {self.blends!r}")


def _ensemble(network: Network, members: list[Member], scale: Scale) -> NetworkEnsemble:
    """Return trained networks as an ensemble, which predicts instances in single precision."""
    sizes = (network.n_features, *network.read, 1)
    padded = layout(sizes)
    parameters = np.zeros((len(members), padded[-1, BIAS_AT] + 1), dtype=np.float32)
    for flat, member in zip(parameters, members, strict=True):
        for (W, b), (inputs, outputs, at) in zip(layers(flat, padded), network.plan, strict=True):
            W[:], b[:] = np.split(member.parameters[at : at + (inputs + 1) * outputs].reshape(-1, outputs), [inputs])
    x_scaling = (np.tile(part, (len(members), 1)) for part in (scale.centre, 1.0 / scale.deviation))
    y_scaling = (np.array([getattr(member.target, part) for member in members]) for part in ("mean", "scale"))
    return NetworkEnsemble(sizes, parameters, *x_scaling, *y_scaling)
