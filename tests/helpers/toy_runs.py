"""Small runs for reports."""

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression

import bagwise as bw
from bagwise.bags.segments import segment_mean
from bagwise.instances import OutOfFold
from bagwise.testing.contract_checks import sample

# What a report must show as text and never obey.
SCRIPT = "<script>document.title='taken'</script>"
IMAGE = '"><img src=x onerror="document.title=\'taken\'">'
END = "</script><script>document.title='taken'</script>"
ENTITY = "&lt;b&gt; ' \" {{ 7 * 7 }} ${document.title='taken'}"
HOSTILE = (SCRIPT, IMAGE, END, ENTITY)


class MeanOfFirst(RegressorMixin, BaseEstimator):
    """Linear fit on the mean of the first feature, with a standard deviation; can be set to fail."""

    def __init__(self, fail: str = "", slope: float = 2.0):
        self.fail = fail
        self.slope = slope

    def fit(self, bags, y):
        if self.fail:
            raise RuntimeError(self.fail)
        self.std_ = float(np.std(y - self._line(bags)))
        return self

    def predict(self, bags, return_std=False):
        line = self._line(bags)
        return (line, np.full(len(line), self.std_)) if return_std else line

    def _line(self, bags):
        return self.slope * segment_mean(bags.instances[:, 0], bags.offsets)


class Automatic(MeanOfFirst):
    """Has held-out predictions, members and a summary, as an automatic method has."""

    def fit(self, bags, y):
        self.held_out_, self.fold_ = y + 0.5, np.arange(len(y)) % 4
        keys = ("member", "status", "why", "weight", "error", "error_se", "fit_seconds", "predict_seconds")
        rows = [
            ("prime", "dropped", "<of> no use on the first fold: RMSE 0.03079 there", 0.0, np.nan, np.nan, 1.0, 0.1),
            ("slow", "tried", "", 0.0, 0.75, 0.1, 2.0, 0.1),
            (IMAGE, "blended", "", 1.0, 0.5, 0.1, 1.0, 0.1),
            ("attention", "skipped", "needs torch", 0.0, np.nan, np.nan, 0.0, 0.0),
        ]
        self.trials_ = [dict(zip(keys, row, strict=True)) for row in rows]
        return super().fit(bags, y)

    def summary(self):
        return "Tried <two> members."


def hostile_run(out=None):
    """Return bags, targets and results with hostile names, and one method that fails with a hostile message."""
    ids = [*HOSTILE, *(f"bag {i}" for i in range(36))]
    bags, y = sample(40, ids=ids, feature_names=[SCRIPT, IMAGE, END])
    methods = [("aggregated" + SCRIPT, MeanOfFirst()), (IMAGE, MeanOfFirst(slope=1.0)), (END, MeanOfFirst(fail=SCRIPT))]
    return bags, y, bw.evaluate(bags, y, methods, repeats=2, folds=4, name=SCRIPT, out=out, origin={"command": END})


def instance_kme(folds=4):
    """Return instance-kme with a linear instance learner, which is fast."""
    model = bw.method("instance-kme:single")
    return model.set_params(instances=OutOfFold(LinearRegression(), folds=folds))
