"""Attention over the instances of a bag, learned from the targets of bags alone."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from sklearn.utils import check_random_state

from bagwise.bags import Bags, check_fit, remember_columns, weights_or_ones
from bagwise.bags.segments import segment_mean
from bagwise.regressors.attention.network import Data, Network, Recipe, Split, attend, train_members
from bagwise.regressors.bayesian.evidence_ridge import few_folds
from bagwise.regressors.pipeline import BagRegressor


def _is_count(value) -> bool:
    return isinstance(value, Integral) and value > 0


def _are_counts(values) -> bool:
    return isinstance(values, tuple | list) and all(map(_is_count, values))


NO_WEIGHT = (
    "All bags that a network may learn from have weight zero. At least one must weigh more than zero, in each set of "
    "bags without one fold. Check sample_weight."
)
COUNT = (_is_count, "a whole number above zero")
RULES = {
    "read": (lambda v: _are_counts(v) and len(v) > 0, "a tuple of whole numbers above zero"),
    **dict.fromkeys(("head", "hidden"), (_are_counts, "a tuple of whole numbers above zero, or ()")),
    "folds": (lambda v: isinstance(v, Integral) and v > 1, "a whole number above one"),
    "pooling": (lambda v: v in ("set", "gated"), "'set' or 'gated'"),
    "moments": (lambda v: isinstance(v, Integral) and v >= 0, "a whole number, 0 for none"),
    **dict.fromkeys(("looks", "epochs", "patience", "batch_size", "restarts"), COUNT),
    "learning_rate": (lambda v: isinstance(v, Real) and 0 < v < float("inf"), "a number above zero"),
    "weight_decay": (lambda v: isinstance(v, Real) and 0 <= v < float("inf"), "a number, 0 for none"),
    "validation_fraction": (lambda v: isinstance(v, Real) and 0 < v <= 0.5, "above 0 and at most 0.5"),
    "precision": (lambda v: v in ("float32", "bfloat16"), "'float32' or 'bfloat16'"),
    "keep": (lambda v: isinstance(v, Real) and 0 <= v <= 1, "from 0 to 1"),
}


def checked_recipe(estimator) -> Recipe:
    """Check the parameters of an `AttentionRegressor` or an `AdditiveRegressor` and return those of training."""
    options = estimator.get_params(deep=False)
    for name, (holds, needed) in RULES.items():
        if name in options and not holds(options[name]):
            raise ValueError(f"{name} must be {needed}, not {options[name]!r}")
    state = estimator.random_state
    seed = int(state) if isinstance(state, Integral) else int(check_random_state(state).randint(2**31 - 1))
    names = ("epochs", "patience", "batch_size", "learning_rate", "weight_decay", "device")
    return Recipe(**{name: options[name] for name in names}, precision=options.get("precision", "float32"), seed=seed)


NEAR = 3.0  # deviations from the mean up to which values stay linear


@dataclass(frozen=True)
class Scale:
    """Standardisation that compresses outliers: beyond `NEAR` deviations values grow as a logarithm.

    A network extrapolates linearly, so one instance 100 deviations away would dominate the prediction of its bag. The
    logarithm keeps the order of values. A column that did not vary in training is 0.
    """

    centre: np.ndarray
    deviation: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> Scale:
        values = np.asarray(values, dtype=np.float64)
        deviation = values.std(axis=0)
        varies = deviation > 1e-12 * np.abs(values).max(axis=0, initial=0.0)
        return cls(values.mean(axis=0), np.where(varies, deviation, np.inf))

    def __call__(self, values: np.ndarray) -> np.ndarray:
        scaled = (np.asarray(values, dtype=np.float64) - self.centre) / self.deviation
        beyond = np.maximum(np.abs(scaled) - NEAR, 0.0)
        return np.clip(scaled, -NEAR, NEAR) + np.sign(scaled) * np.log1p(beyond)


@dataclass(frozen=True)
class Inputs:
    """Scales of the instances and of their moments up to ``order``, computed from training bags."""

    order: int
    instances: Scale
    moments: Scale

    @classmethod
    def of(cls, bags: Bags, order: int) -> Inputs:
        instances = Scale.of(bags.instances)
        return cls(order, instances, Scale.of(bag_moments(instances(bags.instances), bags.offsets, order)))

    def __call__(self, bags: Bags) -> Data:
        """Scale the instances, and compute the moments of each bag (no columns for order 0)."""
        rows = self.instances(bags.instances)
        return Data(rows, self.moments(bag_moments(rows, bags.offsets, self.order)), bags.shares(), bags.offsets)


def bag_moments(rows: np.ndarray, offsets: np.ndarray, order: int) -> np.ndarray:
    """Compute mean, variance, skewness, kurtosis and so on of each feature in each bag, (bags, order x features).

    From the third on, it is the central moment divided by that power of the deviation; 0 where nothing varies.
    """
    if order == 0:
        return np.empty((len(offsets) - 1, 0))
    mean = segment_mean(rows, offsets)
    central = rows - np.repeat(mean, np.diff(offsets), axis=0)
    variance = segment_mean(central**2, offsets)
    deviation = np.where(variance > 1e-24 * (1.0 + mean**2), np.sqrt(variance), np.inf)
    central = central / np.repeat(deviation, np.diff(offsets), axis=0)
    higher = [segment_mean(central**power, offsets) for power in range(3, order + 1)]
    return np.concatenate([mean, variance, *higher][:order], axis=1)


class AttentionRegressor(BagRegressor):
    r"""Neural network that weighs the instances of a bag, adds them up and predicts from the sum.

    A small network reads each instance, m_l = read(x_l). Set attention (``pooling="set"``) looks at the bag T times,
    each time with a query q_t that depends on the looks before (an LSTM, with zero input at first):

        q_t = LSTM([q_{t-1}, r_{t-1}]),   a_l = softmax_l ⟨m_l, q_t⟩,   r_t = Σ_l a_l m_l,   ŷ = head([q_T, r_T])

    Gated attention (``pooling="gated"``) looks once: a_l = softmax_l wᵀ(tanh(V m_l) ⊙ σ(U m_l)), ŷ = head(Σ_l a_l m_l).

    The result of such a network depends on its seed. So several are trained, each stopped early by other held-out bags
    (groups stay together) and reset to its best weights, and those that learned something are averaged.

    On a CPU each network is trained on one core by compiled code, 2.5 to 5 times as fast as plain numpy. On a GPU,
    which needs torch, all networks are trained together; the results agree up to rounding. Predictions are made on the
    CPU in double precision.

    Parameters
    ----------
    read : tuple of int, default=(64,)
        Units of the layers that read an instance.
    pooling : {"set", "gated"}, default="set"
        How the instances are weighed.
    looks : int, default=2
        T, the number of looks of set attention.
    head : tuple of int, default=()
        Units of hidden layers after pooling; the default is a linear head.
    moments : int, default=0
        Number of moments per feature of the bag (mean, variance, skewness, kurtosis, ...) that the head sees as well.
    epochs : int, default=200
        Maximum number of passes over the bags.
    patience : int, default=20
        Training stops after this number of epochs without improvement on the held-out bags.
    batch_size : int, default=32
        Bags per step of Adam; fewer where they are large.
    learning_rate : float, default=3e-3
        Step size of Adam.
    weight_decay : float, default=1e-4
        Decoupled weight decay of Adam.
    validation_fraction : float, default=0.1
        Share of the bags held out from each network.
    restarts : int, default=5
        Number of networks.
    keep : float from 0 to 1, default=0.3
        A network is kept if it explains at least this share of what the best one explains of its held-out bags: 0
        keeps all, 1 only the best.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Where networks are trained ("cuda:1" names one of several GPUs). "auto" takes a GPU if torch sees one and the
        work is large enough to be faster there.
    precision : {"float32", "bfloat16"}, default="float32"
        Precision of matrix products on a GPU; "bfloat16" rounds their inputs to eight bits and sums in single
        precision. A CPU always uses single precision.
    random_state : int, RandomState or None, default=0
        Seed of the first weights, the held-out bags and the batches.
    n_jobs : int, optional
        Networks trained at once on a CPU. The numbers do not depend on it.

    Attributes
    ----------
    members_ : list
        The networks kept: parameters, scale of the targets, error, epochs.
    validation_errors_ : ndarray
        Mean squared error of each network on its held-out bags, relative to predicting the mean.

    Notes
    -----
    The papers state neither the sizes nor the training; those are choices of this library. Inputs grow as a logarithm
    beyond three deviations, so that an outlying instance does not dominate the prediction of its bag. The last layer
    starts at zero, so a network that learns nothing predicts the mean.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> from bagwise.regressors import AttentionRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 5, 2))
    >>> bags, y = bw.from_arrays(list(X)), X[np.arange(60), X[:, :, 0].argmax(axis=1), 1]  # one instance has it
    >>> model = AttentionRegressor(read=(16,), epochs=60, learning_rate=0.01, restarts=3).fit(bags[:50], y[:50])
    >>> weights = model.instance_weights(bags[50:]).reshape(10, 5)
    >>> float(weights.sum(axis=1).round(6).max())
    1.0

    References
    ----------
    Uriot (2019), Learning with sets in multiple instance regression applied to remote sensing. Vinyals, Bengio, Kudlur
    (2016), Order matters: sequence to sequence for sets. Ilse, Tomczak, Welling (2018), Attention-based deep multiple
    instance learning.
    """

    def __init__(
        self,
        read=(64,),
        *,
        pooling: str = "set",
        looks: int = 2,
        head=(),
        moments: int = 0,
        epochs: int = 200,
        patience: int = 20,
        batch_size: int = 32,
        learning_rate: float = 3e-3,
        weight_decay: float = 1e-4,
        validation_fraction: float = 0.1,
        restarts: int = 5,
        keep: float = 0.3,
        device: str = "auto",
        precision: str = "float32",
        random_state=0,
        n_jobs: int | None = None,
    ):
        self.read = read
        self.pooling = pooling
        self.looks = looks
        self.head = head
        self.moments = moments
        self.epochs = epochs
        self.patience = patience
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.validation_fraction = validation_fraction
        self.restarts = restarts
        self.keep = keep
        self.device = device
        self.precision = precision
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _fit(self, bags, y, weight) -> None:
        self._train(bags, y, weight, [np.ones(len(bags), dtype=bool)])

    def _predict(self, bags) -> np.ndarray:
        return self._attend(bags, self.members_)[0]

    def instance_weights(self, bags) -> np.ndarray:
        """Return the attention of each instance, averaged over networks and looks; it sums to one in each bag."""
        return self._attend(self._checked(bags), self.members_)[1]

    def cross_fit_weights(self, bags, y, fold, sample_weight=None) -> np.ndarray:
        """Fit, and return the attention of each instance by networks that saw no target of its bag's fold.

        ``restarts`` networks are trained without each fold; together they are the fitted ensemble.

        Parameters
        ----------
        bags, y, sample_weight
            As in `fit`.
        fold : array-like of shape (n_bags,)
            The fold of each bag.

        Returns
        -------
        ndarray of shape (n_instances,)
        """
        bags, y = check_fit(bags, y, fitting=self)
        names, fold = np.unique(np.asarray(fold), return_inverse=True)
        if len(fold) != len(bags) or len(names) < 2:
            raise ValueError(
                f"fold has {len(fold)} entries, {len(names)} of them different. One entry per bag ({len(bags)}) and at "
                "least two different ones are required. Pass the fold of each bag."
            )
        weight = weights_or_ones(sample_weight, bags)
        self.remember_targets(y, weight)
        parts = self._train(bags, y, weight, [fold != k for k in range(len(names))])
        remember_columns(self, bags)
        weights = np.empty(bags.n_instances)
        for k, members in enumerate(parts):
            positions = np.flatnonzero(fold == k)
            weights[bags.rows(positions)] = self._attend(bags[positions], members)[1]
        return weights

    def _train(self, bags, y, weight, masks: list[np.ndarray]) -> list[list]:
        """Train ``restarts`` networks on the bags of each mask, and return those kept for each mask."""
        recipe = checked_recipe(self)
        masks = [mask & (weight > 0) for mask in masks]
        if not all(mask.any() for mask in masks):
            raise ValueError(NO_WEIGHT)
        fold = few_folds(bags, round(1 / self.validation_fraction), recipe.seed)
        splits = [Split.of(mask, fold, r) for mask in masks for r in range(self.restarts)]
        self.inputs_ = Inputs.of(bags, self.moments)
        data = self.inputs_(bags)
        sizes = {"read": tuple(self.read), "pooling": self.pooling, "looks": self.looks, "head": tuple(self.head)}
        self.network_ = Network(bags.n_features, data.moments.shape[1], **sizes)
        members = train_members(self.network_, data, y, weight, splits, recipe, n_jobs=self.n_jobs)
        self.validation_errors_ = np.array([member.error for member in members])
        parts = [self._useful(members[i : i + self.restarts]) for i in range(0, len(members), self.restarts)]
        self.members_ = [member for part in parts for member in part]
        return parts

    def _attend(self, bags, members) -> tuple[np.ndarray, np.ndarray]:
        return attend(self.network_, members, self.inputs_(bags))

    def _useful(self, members: list) -> list:
        # An untrained network predicts the mean, so its error is one, or slightly above by rounding.
        explained = np.maximum(1.0 - np.array([member.error for member in members]), 0.0)
        limit = self.keep * explained.max()
        return [member for member, share in zip(members, explained, strict=True) if share >= limit]
