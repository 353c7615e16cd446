"""A regression network for instances: the model of scikit-learn's MLPRegressor, trained for all folds at once.

`train_problems` chooses the engine: the CPU, or a GPU if it was requested or if it is present and the work is large.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils import check_random_state, check_X_y, column_or_1d
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, check_is_fitted, validate_data

from bagwise.bags.validation import one_of
from bagwise.execution.resources import choose_device, log_device
from bagwise.first_use import lock
from bagwise.instances.networks.cpu import (
    COLUMNS,
    ROWS,
    NetworkEnsemble,
    Problem,
    Recipe,
    layout,
    train_networks,
)
from bagwise.instances.out_of_fold import PREDICTORS, CrossFit

_INPUT = {"dtype": [np.float64, np.float32], "order": "C", "y_numeric": True}
_WEIGHT = {"dtype": np.float64, "ensure_non_negative": True}

WORTH = 2e12  # minimum number of operations for a GPU: about half a minute of one core
MANY = 8  # minimum number of networks for a GPU, which trains a single one no faster than a core


class NetworkRegressor(RegressorMixin, BaseEstimator):
    r"""Neural network of rectified linear layers with one output, trained by Adam on batches of rows.

    The loss of a batch of m rows, with weights w of mean one over the training rows, is that of scikit-learn's
    `MLPRegressor`,

    .. math:: \frac{1}{2 \sum_i w_i} \Big( \sum_i w_i (f(x_i) - y_i)^2 + \alpha \sum_l \|W_l\|^2 \Big),

    with alpha = ``weight_decay`` and unpenalised biases. A batch with Σ_i w_i < m/10 is divided by m/10 instead, so
    that rows of almost no weight have almost no effect. A network is trained by one core in single precision;
    `cross_fit` trains the networks of all folds as one job.

    Parameters
    ----------
    hidden : tuple of int, default=(128,)
        Units of each hidden layer.
    epochs : int or tuple of int, default=100
        Passes over the rows. `fit` chooses among several candidates by the squared error on held-out bags. In
        `cross_fit` each candidate is a column of predictions and nothing is chosen: the best number for the instances
        need not be the best for the second stage.
    batch_size : int or "auto", default=200
        Rows per step of Adam. "auto" is a 64th of the training rows, at least 16 and at most 200, so that training on
        few rows still makes many steps.
    learning_rate : float, default=1e-3
        Step size of Adam.
    weight_decay : float, default=0.05
        The penalty alpha.
    standardise : bool, default=True
        Whether columns are scaled to mean 0 and variance 1 over the training rows. Constant columns are ignored.
    scale_target : bool, default=True
        Whether y is scaled too, and predictions scaled back; the penalty then acts on the scaled problem. If False,
        the problem is that of `MLPRegressor`, and the units of y matter.
    validation_fraction : float, default=0.1
        Share of the bags held out to choose among candidates in `fit`.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where networks are trained ("cuda:1" names one of several GPUs). "auto" takes a GPU if torch sees one and the
        work is large enough to be faster there. A GPU trains the networks of all folds together, from the same initial
        weights as the CPU but with other permutations of the rows, so its networks are as accurate but not equal. The
        same seed gives the same networks on the same GPU. Predictions are made on the CPU.
    precision : {"float32", "tf32"}, default="float32"
        Precision of matrix products on a GPU. "tf32" rounds their inputs to ten bits and is faster.
    random_state : int, RandomState or None, default=0
        Seed of the initial weights, the batches and the held-out bags.
    n_jobs : int, optional
        Networks trained at once, and blocks of rows predicted at once. The numbers do not depend on it.

    Attributes
    ----------
    network_ : NetworkEnsemble
        The trained network.
    epochs_ : int
        Its number of epochs.
    validation_errors_ : dict
        Mean squared error of each candidate on the held-out bags; empty with a single candidate.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, (400, 2))
    >>> y = np.abs(X[:, 0]) + X[:, 1]
    >>> network = NetworkRegressor(hidden=(32,), epochs=50, learning_rate=0.01).fit(X[:300], y[:300])
    >>> network.score(X[300:], y[300:]) > 0.95
    True

    Out-of-fold predictions, a column for every number of epochs:

    >>> fits = NetworkRegressor(hidden=(32,), epochs=(5, 50)).cross_fit(X, y, fold=np.arange(400) % 4)
    >>> fits.candidates
    ({'epochs': 5}, {'epochs': 50})
    >>> fits.predictions.shape
    (400, 2)
    >>> fits.predictor(1, "fold-mean")
    NetworkEnsemble(4 networks, 2-32-1)

    References
    ----------
    Kingma & Ba (2015). Adam: a method for stochastic optimization. ICLR.
    Uriot (2019). Target-wise kernel mean embedding in multiple instance regression.
    """

    def __init__(
        self,
        hidden=(128,),
        *,
        epochs=100,
        batch_size=200,
        learning_rate=1e-3,
        weight_decay=0.05,
        standardise=True,
        scale_target=True,
        validation_fraction=0.1,
        device="cpu",
        precision="float32",
        random_state=0,
        n_jobs=None,
    ):
        self.hidden = hidden
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.standardise = standardise
        self.scale_target = scale_target
        self.validation_fraction = validation_fraction
        self.device = device
        self.precision = precision
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X, y, sample_weight=None, groups=None) -> NetworkRegressor:
        """Train one network; ``groups``, the bag of each row, is used to choose among several ``epochs``."""
        X, y = validate_data(self, X, y, **_INPUT)
        y, weight = y.astype(np.float64), _check_sample_weight(sample_weight, X, **_WEIGHT)
        recipe = self.recipe()
        choosing = len(recipe.epochs) > 1
        held = self._held_out(groups, weight, recipe.seed) if choosing else np.zeros(len(X), dtype=bool)
        fold = np.where(held, 0, 1)  # network 0 learns from the rows of fold 1
        ((trained,),) = self._train([Problem.of(X, y, weight, fold, recipe, n_networks=1)], recipe, self.n_jobs)
        squares = (trained.predictions.T - y[held]) ** 2
        errors = np.average(squares, axis=1, weights=weight[held]) if choosing else []
        best = int(np.argmin(errors)) if choosing else 0
        self.network_ = trained.networks[best]
        self.epochs_ = recipe.epochs[best]
        self.validation_errors_ = {epochs: float(e) for epochs, e in zip(recipe.epochs, errors, strict=choosing)}
        return self

    def predict(self, X) -> np.ndarray:
        """Return the prediction of each row."""
        check_is_fitted(self, "network_")
        X = validate_data(self, X, reset=False, dtype=_INPUT["dtype"], order="C")
        return self.network_.predict_checked(X)

    def cross_fit(self, X, y, fold, *, sample_weight=None, n_jobs=None) -> CrossFit:
        """Train a network per fold on the rows of the other folds, all as one job; see `CrossFit`.

        Parameters
        ----------
        X, y : arrays (rows, features), (rows,)
        fold : array (rows,)
            The fold of each row, at least two different ones. All rows of a bag must be in the same fold.
        sample_weight : array (rows,), optional
        n_jobs : int, optional
            Overrides the estimator's.
        """
        return self.cross_fit_together([(X, y, fold, sample_weight)], n_jobs=n_jobs)[0]

    def cross_fit_together(self, problems, *, n_jobs=None) -> list[CrossFit]:
        """Cross-fit several problems, each (X, y, fold, sample_weight), with all networks trained as one job.

        This is faster on a GPU. The results equal those of one call of `cross_fit` per problem (up to rounding for
        networks that are too large for a fused kernel).
        """
        recipe, n_jobs = self.recipe(), self.n_jobs if n_jobs is None else n_jobs
        checked = [_checked(*problem) for problem in problems]
        if len({X.shape[1] for X, *_ in checked}) > 1:
            raise ValueError("problems trained together must have the same number of features")
        prepared = [Problem.of(*parts, recipe, n_networks=parts[-1].max() + 1) for parts in checked]
        trained = self._train(prepared, recipe, n_jobs)
        regressor = clone(self).set_params(random_state=recipe.seed, n_jobs=n_jobs)
        return [
            _assembled(folds, regressor, recipe.epochs, (X, y, problem[3]))
            for folds, (X, y, *_), problem in zip(trained, checked, problems, strict=True)
        ]

    def _train(self, problems: list[Problem], recipe: Recipe, n_jobs):
        return train_problems(problems, recipe, device=self.device, precision=self.precision, n_jobs=n_jobs)

    def recipe(self) -> Recipe:
        """Check the parameters of training and return them, with the seed drawn."""
        epochs = tuple(sorted(set(_counts("epochs", self.epochs))))
        if not epochs:
            raise ValueError("epochs must hold at least one candidate")
        if not (0 < self.learning_rate < np.inf and 0 <= self.weight_decay < np.inf):
            raise ValueError(
                f"learning_rate must be above zero and weight_decay at least zero, both finite; got "
                f"{self.learning_rate!r} and {self.weight_decay!r}"
            )
        return Recipe(
            hidden=_counts("hidden", self.hidden),
            epochs=epochs,
            batch_size=None if self.batch_size == "auto" else _counts("batch_size", self.batch_size)[0],
            learning_rate=float(self.learning_rate),
            weight_decay=float(self.weight_decay),
            standardise=bool(self.standardise),
            scale_target=bool(self.scale_target),
            seed=_seed(self.random_state),
        )

    def _held_out(self, groups, weight: np.ndarray, seed: int) -> np.ndarray:
        """Return a mask of the rows held out to choose among candidates: those of some bags, or some rows."""
        groups = np.arange(len(weight)) if groups is None else column_or_1d(groups)
        check_consistent_length(weight, groups)
        bags = np.unique(groups[weight > 0])
        if not 0 < self.validation_fraction < 1:
            raise ValueError(f"validation_fraction must be between 0 and 1, not {self.validation_fraction!r}")
        if len(bags) < 2:
            raise ValueError(
                "choosing among several epochs needs two bags or more, one to be held out; give a single number"
            )
        n_held = int(np.clip(round(self.validation_fraction * len(bags)), 1, len(bags) - 1))
        chosen = np.random.default_rng([seed, 1]).choice(len(bags), n_held, replace=False)
        return np.isin(groups, bags[chosen])


def _checked(X, y, fold, sample_weight) -> tuple:
    """Return X, y, weights and folds, with folds numbered from 0."""
    X, y = check_X_y(X, y, **_INPUT)
    y, weight = y.astype(np.float64), _check_sample_weight(sample_weight, X, **_WEIGHT)
    fold = column_or_1d(fold)
    check_consistent_length(X, fold)
    labels, fold = np.unique(fold, return_inverse=True)
    if len(labels) < 2:
        raise ValueError("cross-fitting needs at least two folds, but every row is in the same one")
    return X, y, weight, fold


def _assembled(folds, regressor, epochs: tuple[int, ...], data: tuple) -> CrossFit:
    predictions = np.empty((len(data[0]), len(epochs)))
    for trained in folds:
        predictions[trained.rows] = trained.predictions
    predictor = _Predictor(regressor, epochs, [trained.networks for trained in folds], data)
    return CrossFit(predictions, tuple({"epochs": number} for number in epochs), predictor)


@dataclass(frozen=True)
class _Predictor:
    """Predictor of a `CrossFit`, which keeps the data for a refit and can be pickled."""

    regressor: NetworkRegressor
    epochs: tuple[int, ...]
    networks: list[NetworkEnsemble]
    data: tuple

    def __call__(self, candidate: int, kind: str):
        one_of(kind, PREDICTORS, "kind")
        if kind == "fold-mean":
            return NetworkEnsemble.joined([networks[candidate] for networks in self.networks])
        if kind == "last-fold":
            return self.networks[-1][candidate]
        return clone(self.regressor).set_params(epochs=self.epochs[candidate]).fit(*self.data)


def _counts(name: str, value) -> tuple[int, ...]:
    counts = tuple(value) if isinstance(value, Iterable) else (value,)
    if not all(isinstance(count, Integral) and count > 0 for count in counts):
        raise ValueError(f"{name} must be made of whole numbers above zero, not {value!r}")
    return tuple(map(int, counts))


def _seed(random_state) -> int:
    """Return an integer seed, so that networks are reproducible when the state it was drawn from has changed."""
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def train_problems(problems: list[Problem], recipe: Recipe, *, device="cpu", precision="float32", n_jobs=None):
    """Train the networks of each problem by the engine of the device."""
    one_of(precision, ("float32", "tf32"), "precision")
    place = choose_device(device, is_large=is_worth_a_gpu(problems, recipe))
    if place != "cpu":
        with lock:
            import torch

            from bagwise.instances.networks import gpu

        log_device("training networks", place)
        try:
            return gpu.train_together(problems, recipe, place, precision, n_jobs)
        except torch.OutOfMemoryError:
            warnings.warn(
                f"the memory of {place} does not hold one of these networks and its data; training on the CPU instead",
                UserWarning,
                stacklevel=2,
            )
    return [train_networks(problem, recipe, n_jobs=n_jobs) for problem in problems]


def is_worth_a_gpu(problems: list[Problem], recipe: Recipe) -> bool:
    """Return whether there are enough networks, and operations in their training, for a GPU to be faster."""
    rows = sum(float(problem.n_networks) * len(problem.y) for problem in problems)
    plan = layout((problems[0].X.shape[1], *recipe.hidden, 1))
    operations = 6.0 * rows * recipe.epochs[-1] * float((plan[:, ROWS] * plan[:, COLUMNS]).sum())
    return sum(problem.n_networks for problem in problems) >= MANY and operations >= WORTH
