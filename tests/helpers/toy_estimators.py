"""Small bag regressors for these tests, importable from worker processes."""

import os
import time

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import Pipeline

from bagwise.bags.segments import segment_mean
from bagwise.embeddings import KernelMean
from bagwise.instances import OutOfFold
from bagwise.kernels import Gaussian, InverseMultiquadric
from bagwise.regressors import EmbeddingRidge, RidgePath

SEEN = []  # (what, ids) of every call of `Spy`


class TrainMean(RegressorMixin, BaseEstimator):
    """Regressor that sleeps, then predicts the mean of its training targets."""

    def __init__(self, shift=0.0, nap=0.0):
        self.shift, self.nap = shift, nap

    def fit(self, bags, y):
        time.sleep(self.nap)
        self.mean_ = float(np.mean(y))
        return self

    def predict(self, bags):
        return np.full(len(bags), self.mean_ + self.shift)


class LoggedMean(TrainMean):
    """Regressor that logs each fit in the file FIT_LOG; a line is one write, so that processes do not mix theirs."""

    def fit(self, bags, y):
        with open(os.environ["FIT_LOG"], "a") as log:
            log.write(f"{self.shift}\n")
        return super().fit(bags, y)


class Spread(TrainMean):
    """Regressor that also returns the deviation of its training targets."""

    def fit(self, bags, y):
        self.std_ = float(np.std(y))
        return super().fit(bags, y)

    def predict(self, bags, return_std=False):
        mean = super().predict(bags)
        return (mean, np.full(len(bags), self.std_)) if return_std else mean


class RandomDirection(RegressorMixin, BaseEstimator):
    """Least squares on one random direction of the bag means, which depends on the seed."""

    def __init__(self, seed=0):
        self.seed = seed

    def _project(self, bags):
        direction = np.random.default_rng(self.seed).normal(size=bags.n_features)
        return segment_mean(bags.instances, bags.offsets) @ direction

    def fit(self, bags, y):
        self.line_ = np.polyfit(self._project(bags), y, 1)
        return self

    def predict(self, bags):
        return np.polyval(self.line_, self._project(bags))


class SeededTicket(RandomDirection):
    """The same regressor, with a random_state as in scikit-learn."""

    def __init__(self, random_state=None):
        self.random_state = random_state

    @property
    def seed(self):
        return self.random_state


class Spy(TrainMean):
    """Regressor that records the ids of its bags."""

    def fit(self, bags, y):
        SEEN.append(("fit", frozenset(bags.ids.tolist())))
        return super().fit(bags, y)

    def predict(self, bags):
        SEEN.append(("predict", frozenset(bags.ids.tolist())))
        return super().predict(bags)


class Failing(TrainMean):
    """Regressor that fails unless it is trained on the bag with this id."""

    def __init__(self, needs=0, how="raise"):
        self.needs, self.how = needs, how
        self.shift, self.nap = 0.0, 0.0

    def fit(self, bags, y):
        if self.needs not in bags.ids.tolist():
            if self.how == "die":
                os.kill(os.getpid(), 9)
            raise ArithmeticError("the sums do not add up")
        return super().fit(bags, y)


class Counted(BaseEstimator):
    """Instance stage that counts its fits."""

    fits = 0

    def fit(self, bags, y=None):
        type(self).fits += 1
        self.fitted_ = True
        return self

    def transform(self, bags):
        return bags.replace(bags.instances[:, :1])

    def fit_transform(self, bags, y=None):
        return self.fit(bags, y).transform(bags)


SPACE = {
    "head__embedding__kernel": [k(b) for k, b in ((Gaussian, 1.0), (InverseMultiquadric, 10.0))],
    "head__head__penalties": [(10.0**-e,) for e in (1, 16)],
}


def kme():
    """Return a small instance-kme, to be searched over `SPACE`."""
    head = EmbeddingRidge(KernelMean(units="label"), RidgePath((1e-8,), scaling="none", fit_intercept=False))
    return Pipeline([("instances", OutOfFold(LinearRegression(), folds=3)), ("head", head)])
