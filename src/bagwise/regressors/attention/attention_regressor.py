"""Attention over the instances of a bag, learned from the targets of bags alone.

`Recipe` is how the networks are trained: the parameters, checked, with seed and device settled. `Inputs` is what they
are shown of a bag: its instances on a common scale, and moments of every feature.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state

from bagwise.bags import Bags, check_bags, check_fit, remember_columns, weights_or_ones
from bagwise.bags.segments import segment_mean
from bagwise.first_use import lock
from bagwise.regressors.bayesian.evidence_ridge import few_folds
from bagwise.regressors.pipeline import FittedDisplay
from bagwise.regressors.target_limits import TargetLimits


def _is_count(value) -> bool:
    return isinstance(value, Integral) and value > 0


def _are_counts(values) -> bool:
    return isinstance(values, tuple | list) and all(map(_is_count, values))


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


@dataclass(frozen=True)
class Recipe:
    """What training needs to know; epochs are passes over the bags, patience is in epochs."""

    epochs: int
    patience: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    precision: str
    seed: int
    device: str

    @classmethod
    def of(cls, estimator) -> Recipe:
        """Of an `AttentionRegressor` or an `AdditiveRegressor`; every parameter that has a rule is checked."""
        given = estimator.get_params(deep=False)
        for name, (holds, needed) in RULES.items():
            if name in given and not holds(given[name]):
                raise ValueError(f"{name} must be {needed}, not {given[name]!r}")
        same = ("epochs", "patience", "batch_size", "learning_rate", "weight_decay")
        return cls(
            **{name: given[name] for name in same},
            precision=given.get("precision", "float32"),
            seed=_seed(estimator.random_state),
            device=_device(estimator.device),
        )


def _seed(random_state) -> int:
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def _device(device: str) -> str:
    import torch

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return str(torch.device(device))


NEAR = 3.0  # deviations from the mean up to which a value is shown as it is


@dataclass(frozen=True)
class Scale:
    """Deviations from the mean, and far values drawn in: beyond `NEAR` deviations they grow as a logarithm.

    A network extrapolates along straight lines, so that one instance 100 deviations away spoils the prediction of
    its bag; with the logarithm order is kept, and nothing is far. A column that did not vary in training is 0.
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
    """The scale of the instances and of their moments up to ``order``, learned from training bags."""

    order: int
    instances: Scale
    moments: Scale

    @classmethod
    def of(cls, bags: Bags, order: int) -> Inputs:
        instances = Scale.of(bags.instances)
        return cls(order, instances, Scale.of(bag_moments(instances(bags.instances), bags.offsets, order)))

    def __call__(self, bags: Bags) -> tuple[np.ndarray, np.ndarray]:
        """Rows of instances, and a row of moments per bag (no columns for order 0)."""
        rows = self.instances(bags.instances)
        return rows, self.moments(bag_moments(rows, bags.offsets, self.order))


def bag_moments(rows: np.ndarray, offsets: np.ndarray, order: int) -> np.ndarray:
    """Mean, variance, skewness, kurtosis and so on of every feature in every bag, (bags, order x features).

    From the third on, the central moment divided by that power of the deviation; 0 in a bag where nothing varies.

    Examples
    --------
    >>> import numpy as np
    >>> bag_moments(np.array([[1.0], [3.0], [5.0]]), np.array([0, 2, 3]), 4).tolist()
    [[2.0, 1.0, 0.0, 1.0], [5.0, 0.0, 0.0, 0.0]]
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


class AttentionRegressor(TargetLimits, FittedDisplay, RegressorMixin, BaseEstimator):
    r"""A network that reads a bag as a set: it weighs the instances, adds them up, and predicts from the sum.

    Every instance is read by the same small network, m_l = read(x_l). Set attention (``pooling="set"``) looks at the
    bag T times, each time with a query q_t that depends on what was read before (an LSTM with zero input at first):

        q_t = LSTM([q_{t-1}, r_{t-1}]),   a_l = softmax_l ⟨m_l, q_t⟩,   r_t = Σ_l a_l m_l,   ŷ = head([q_T, r_T])

    Gated attention (``pooling="gated"``) looks once: a_l = softmax_l wᵀ(tanh(V m_l) ⊙ σ(U m_l)), ŷ = head(Σ_l a_l m_l).

    Such networks are a lottery of seeds. So several are trained, each stopped early by other held-out bags (groups stay
    together) and left with its best weights, and the average of those that learned something is used. Predictions are
    made in double precision, whatever the device of training.

    On a CPU, networks with one layer of 16 units (or a multiple) that reads, set attention and a linear head are
    trained one by one by compiled kernels; all others by torch as one job. The numbers are the same to rounding.

    Parameters
    ----------
    read : tuple of int
        Units of the layers that read an instance.
    pooling : {"set", "gated"}
    looks : int
        T, how often set attention looks at a bag.
    head : tuple of int
        Units of hidden layers after pooling; none by default: a linear head.
    moments : int
        How many moments of every feature in the bag (mean, variance, skewness, kurtosis, ...) the head sees as well.
    epochs : int
        At most so many passes over the bags.
    patience : int
        A network is done after so many epochs without improvement on its held-out bags.
    batch_size : int
        Bags per step of Adam; fewer where they are large.
    learning_rate, weight_decay : float
    validation_fraction : float
        Share of the bags held out from each network.
    restarts : int
        Number of networks.
    keep : float from 0 to 1
        A network is kept if it explains at least this share of what the best one explains of its held-out bags: 0
        keeps all, 1 the best alone.
    device : str
        "auto" is a GPU if there is one, else the CPU.
    precision : {"float32", "bfloat16"}
        Of matrix products in training: mixed precision, "bfloat16", rounds what they multiply to eight bits and sums
        in single precision. Weights, softmax and Adam stay as they are.
    random_state : int, RandomState or None
    n_jobs : int, optional
        Networks that compiled kernels train at once; with torch, jobs, where bags are so large that there are several.
        The numbers do not depend on it.

    Attributes
    ----------
    members_ : list, the networks kept: parameters by name as arrays, scale of the targets, error, epochs
    validation_errors_ : mean squared error of every network on its held-out bags, relative to predicting the mean

    Notes
    -----
    The source says neither the sizes nor how it was trained; those are ours, and so are the logarithm beyond three
    deviations (an instance far from all others otherwise spoils its bag's prediction), a last layer that
    starts at zero (a network that learns nothing predicts the mean) and moments in the head alone.

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

    def fit(self, bags, y, sample_weight=None) -> AttentionRegressor:
        bags, y = check_fit(bags, y, fitting=self)
        self._train(bags, y, sample_weight, [np.ones(len(bags), dtype=bool)])
        return self

    def predict(self, bags) -> np.ndarray:
        return self.within_limits(self._attend(check_bags(bags, fitted=self), self.members_)[0])

    def instance_weights(self, bags) -> np.ndarray:
        """Attention of every instance, summing to one in each bag: the mean over networks and looks."""
        return self._attend(check_bags(bags, fitted=self), self.members_)[1]

    def cross_fit_weights(self, bags, y, fold, sample_weight=None) -> np.ndarray:
        """Attention of every instance by networks that saw no target of its bag's fold; and fit, on all folds.

        ``fold`` is the fold of every bag. ``restarts`` networks are trained without each fold; those of all folds
        together are the fitted ensemble.
        """
        bags, y = check_fit(bags, y, fitting=self)
        names, fold = np.unique(np.asarray(fold), return_inverse=True)
        if len(fold) != len(bags) or len(names) < 2:
            raise ValueError(f"fold must have one entry per bag ({len(bags)}) and at least two different ones")
        parts = self._train(bags, y, sample_weight, [fold != k for k in range(len(names))])
        weights = np.empty(bags.n_instances)
        for k, members in enumerate(parts):
            positions = np.flatnonzero(fold == k)
            weights[bags.rows(positions)] = self._attend(bags[positions], members)[1]
        return weights

    def _train(self, bags, y, sample_weight, seen: list[np.ndarray]) -> list[list]:
        """Train ``restarts`` networks for each mask of bags that they may see; the kept ones of each."""
        ensemble, recipe = ensemble_engine("attention"), Recipe.of(self)
        weight = weights_or_ones(sample_weight, bags)
        self.remember_targets(y, weight)
        seen = [mask & (weight > 0) for mask in seen]
        if not all(mask.any() for mask in seen):
            raise ValueError("no bag of weight above zero is left to learn from")
        fold = few_folds(bags, round(1 / self.validation_fraction), recipe.seed)
        splits = [ensemble.Split.of(mask, fold, r) for mask in seen for r in range(self.restarts)]
        self.inputs_ = Inputs.of(bags, self.moments)
        shown = self.inputs_(bags)
        sizes = {"read": tuple(self.read), "pooling": self.pooling, "looks": self.looks, "head": tuple(self.head)}
        self.network_ = ensemble.Network(bags.n_features, shown[1].shape[1], **sizes)
        members = ensemble.train_members(
            self.network_, shown, bags.offsets, y, weight, splits, recipe, n_jobs=self.n_jobs
        )
        self.validation_errors_ = np.array([member.error for member in members])
        parts = [self._kept(members[i : i + self.restarts]) for i in range(0, len(members), self.restarts)]
        self.members_ = [member for part in parts for member in part]
        remember_columns(self, bags)
        return parts

    def _attend(self, bags, members) -> tuple[np.ndarray, np.ndarray]:
        return ensemble_engine("attention").attend(self.network_, members, self.inputs_(bags), bags.offsets)

    def _kept(self, members: list) -> list:
        # Never below zero but for rounding: the first weights predict the mean.
        explained = np.maximum(1.0 - np.array([member.error for member in members]), 0.0)
        limit = self.keep * explained.max()
        return [member for member, share in zip(members, explained, strict=True) if share >= limit]


def ensemble_engine(method: str):
    """The modules that need torch, which is loaded only here."""
    try:
        with lock:
            import torch  # noqa: F401

            from bagwise.regressors.attention import network
    except ImportError as error:
        raise ImportError(f"{method} needs torch; install it with: pip install 'bagwise[torch]'") from error
    return network
