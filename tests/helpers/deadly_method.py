"""Method that kills its process."""

import os
import signal

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin


class Deadly(RegressorMixin, BaseEstimator):
    """Regressor that predicts zero and kills its process if bag 0 is a training bag."""

    def fit(self, bags, y):
        if 0 in bags.ids:
            os.kill(os.getpid(), signal.SIGKILL)
        return self

    def predict(self, bags):
        return np.zeros(len(bags))
