"""A scikit-learn Pipeline whose ``fit`` takes bag weights."""

from __future__ import annotations

from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from bagwise.bags import check_weights


class BagPipeline(Pipeline):
    """A scikit-learn Pipeline that hands ``sample_weight``, a weight per bag, to every step whose ``fit`` takes it.

    A plain Pipeline wants ``head__sample_weight=...``, so the caller would have to know the steps. All else is that of
    Pipeline: slicing, cloning, ``passthrough``, ``memory``, parameters of steps by name.

    Examples
    --------
    >>> import bagwise as bw
    >>> from bagwise.embeddings import Statistics
    >>> from bagwise.regressors import BagPipeline
    >>> from sklearn.linear_model import Ridge
    >>> bags, y = bw.datasets.make_gaussian(30, instances=5)
    >>> model = BagPipeline([("rows", Statistics()), ("head", Ridge())]).fit(bags, y, sample_weight=1.0 + y**2)
    >>> model.predict(bags).shape
    (30,)
    """

    def fit(self, bags, y=None, sample_weight=None, **params):
        return super().fit(bags, y, **params, **self._routed(bags, sample_weight))

    def fit_transform(self, bags, y=None, sample_weight=None, **params):
        return super().fit_transform(bags, y, **params, **self._routed(bags, sample_weight))

    def _routed(self, bags, sample_weight) -> dict:
        weights = check_weights(sample_weight, bags)
        if weights is None:
            return {}
        taking = [name for name, step in self.steps if has_fit_parameter(step, "sample_weight")]
        name, last = self.steps[-1]
        if hasattr(last, "predict") and name not in taking:
            raise ValueError(f"the last step, {type(last).__name__}, takes no sample_weight, so bags cannot be weighed")
        return {f"{name}__sample_weight": weights for name in taking}
