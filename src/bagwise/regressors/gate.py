"""The gate: a score of every instance, turned by a softmax into the chance that it is the primary one of its bag."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from sklearn.base import BaseEstimator

from bagwise.bags import Bags
from bagwise.bags.segments import segment_max, segment_softmax, segment_sum


def _row_by_row(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Rows times weights, the same for a row whatever the others are; a product of matrices is quicker, and is not."""
    return np.einsum("ij,j...->i...", rows, weights)


class Gate(BaseEstimator):
    r"""π_il = exp g(x_il) / Σ_m exp g(x_im), g linear or a network with one hidden layer of tanh units.

    Trained on soft targets γ (the responsibilities of a mixture) by L-BFGS on the penalised cross entropy, bag i
    counting for the share a_i (Σ a_i = 1):

        minimise  - Σ_i a_i Σ_l γ_il log π_il  +  penalty/2 ‖θ‖²

    g has no intercept: a constant cancels in the softmax. With a network g may be high in the middle of the features
    and low all around, which is how instances that lie far out are told from the rest; a linear g cannot do that.

    Parameters
    ----------
    hidden : int
        Number of tanh units; 0 for a linear score.
    penalty : float
        On the squared weights, per bag.
    iterations : int
        Steps of L-BFGS per fit; a fit that starts from the last one needs few.
    random_state : int
        For the first weights of the network. A linear gate starts from equal chances.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> from bagwise.regressors.gate import Gate
    >>> bags = bw.from_arrays([np.array([[0.0], [1.0]]), np.array([[2.0], [5.0], [4.0]])])
    >>> gate = Gate().fit(bags, np.array([0.0, 1.0, 0.0, 1.0, 0.0]))
    >>> gate.chances(bags).argmax()
    np.int64(1)
    """

    def __init__(self, hidden: int = 0, *, penalty: float = 0.01, iterations: int = 20, random_state: int = 0):
        self.hidden = hidden
        self.penalty = penalty
        self.iterations = iterations
        self.random_state = random_state

    def fit(self, bags: Bags, responsibilities: np.ndarray, *, share=None, start=None) -> Gate:
        """Fit to responsibilities that sum to one in every bag; from the parameters of ``start``, a fitted gate."""
        self.begin(bags)
        share = np.full(len(bags), 1.0 / len(bags)) if share is None else share
        rows, a = self._standardised(bags), bags.expand(share)

        def loss(theta):
            scores, backwards = self._score(theta, rows, np.matmul)
            top = bags.expand(segment_max(scores, bags.offsets))
            log_total = bags.expand(np.log(segment_sum(np.exp(scores - top), bags.offsets))) + top
            log_chances = scores - log_total
            value = -(a * responsibilities) @ log_chances + 0.5 * self.penalty * (theta @ theta)
            return value, backwards(a * (np.exp(log_chances) - responsibilities)) + self.penalty * theta

        if start is not None:
            self.theta_ = start.theta_
        found = minimize(loss, self.theta_, jac=True, method="L-BFGS-B", options={"maxiter": self.iterations})
        # So few steps end short of the optimum, at a place that depends on rounding, which every round of EM would
        # amplify a thousandfold: CPUs agree on six decimals.
        self.theta_ = np.round(found.x, 6)
        return self

    def begin(self, bags: Bags) -> Gate:
        """Equal chances, and the weights from which `fit` sets out."""
        X = bags.instances
        self.centre_, deviation = X.mean(axis=0), X.std(axis=0)
        self.scale_ = np.where(deviation > 1e-12 * np.abs(X).max(axis=0), deviation, np.inf)  # a constant says nothing
        inner = np.random.default_rng(self.random_state).normal(size=(X.shape[1] + 1) * self.hidden)
        outer = np.zeros(self.hidden if self.hidden else X.shape[1])
        self.theta_ = np.concatenate([inner / np.sqrt(X.shape[1]), outer])
        return self

    @property
    def penalised_(self) -> float:
        """What the weights cost in the objective."""
        return 0.5 * self.penalty * float(self.theta_ @ self.theta_)

    def chances(self, bags: Bags) -> np.ndarray:
        """π of every instance; they sum to one in every bag."""
        return segment_softmax(self._score(self.theta_, self._standardised(bags))[0], bags.offsets)

    def _standardised(self, bags: Bags) -> np.ndarray:
        return (bags.instances - self.centre_) / self.scale_

    def _score(self, theta: np.ndarray, rows: np.ndarray, times=_row_by_row):
        """The scores, and the function that takes their derivatives back to θ; ``times`` is the product of matrices."""
        if not self.hidden:
            return times(rows, theta), lambda slope: rows.T @ slope
        d, h = rows.shape[1], self.hidden
        inner, shift, outer = np.split(theta, [d * h, (d + 1) * h])
        units = np.tanh(times(rows, inner.reshape(d, h)) + shift)

        def backwards(slope):
            through = (1.0 - units * units) * slope[:, None] * outer
            return np.concatenate([(rows.T @ through).ravel(), through.sum(axis=0), slope @ units])

        return times(units, outer), backwards
