"""A method that kills its process."""

import os
import signal

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin


class Deadly(RegressorMixin, BaseEstimator):
    """Predicts zero, and dies where bag 0 is among the training bags."""

    def fit(self, bags, y):
        if 0 in bags.ids:
            os.kill(os.getpid(), signal.SIGKILL)
        return self

    def predict(self, bags):
        return np.zeros(len(bags))
