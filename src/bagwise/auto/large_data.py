"""Steps of members for large data: fewer instances per bag, fewer features, settings compared on a subset of bags."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from bagwise.bags import Bags, check_bags, check_fit, check_weights, remember_columns
from bagwise.bags.folds import some_of, unit_hash
from bagwise.kernels.formulas import row_keys
from bagwise.regressors import EmbeddingRidge

MANY_BAGS = 1000  # with more training bags, settings are compared on a subset first
SUBSET_BAGS = 800  # size of this subset
FITTED_SHARE = 4  # the best 1/4 of the settings are fitted on all bags
MUCH_WORSE = 1.05  # of these, settings with more than 1.05 times the lowest squared error are dropped
NEAR = 40.0  # on all bags, penalties within this factor of the best penalties of the subset are tried


class ThinBags(BaseEstimator):
    """Subsample training bags to at most ``most`` instances, chosen by a hash of their content.

    A network learns little from further instances of a bag after the first few hundred. Only ``fit_transform``
    subsamples: a pipeline is trained on fewer instances and predicts whole bags.
    """

    def __init__(self, most: int = 500, *, random_state: int = 0):
        self.most = most
        self.random_state = random_state

    def fit(self, bags, y=None) -> ThinBags:
        remember_columns(self, check_bags(bags, allow_weights=True, apart=True))
        return self

    def fit_transform(self, bags, y=None) -> Bags:
        self.fit(bags)
        return thin(self.transform(bags), self.most, self.random_state)

    def transform(self, bags) -> Bags:
        return check_bags(bags, fitted=self, allow_weights=True, apart=True)


def thin(bags: Bags, most, random_state: int = 0) -> Bags:
    """Return the bags with at most ``most`` (a number, or one per bag) of their instances, in order.

    Instances of weight zero are dropped first.
    """
    most = np.broadcast_to(np.asarray(most), len(bags))
    if (bags.sizes <= most).all():
        return bags
    offsets = np.concatenate([[0], np.cumsum(np.minimum(bags.sizes, most))])
    return bags._with_rows(np.flatnonzero(random_ranks(bags, random_state) < bags.expand(most)), offsets)


def random_ranks(bags: Bags, random_state: int) -> np.ndarray:
    """Return the rank (0, 1, ...) of each instance in its bag by a hash of its content, those of weight zero last."""
    keys = row_keys(bags.instances, random_state)
    bag_of_row = bags.expand(np.arange(len(bags)))
    weightless = np.zeros(bags.n_instances, dtype=bool) if bags.weights is None else bags.weights == 0
    rank = np.empty(bags.n_instances, dtype=np.int64)
    order = np.lexsort((keys, weightless, bag_of_row))  # the rows of a bag stay within its stretch
    rank[order] = np.arange(bags.n_instances) - bags.expand(bags.offsets[:-1])
    return rank


class Components(BaseEstimator):
    """The first ``n`` principal components of standardised features, with new values clipped to the training range.

    They are fitted on at most ``rows`` instances, drawn by a hash of their content.
    """

    def __init__(self, n: int = 100, *, rows: int = 20_000, random_state: int = 0):
        self.n = n
        self.rows = rows
        self.random_state = random_state

    def fit(self, bags, y=None) -> Components:
        bags = check_bags(bags, allow_weights=True, apart=True)
        X = bags.instances
        if len(X) > self.rows:
            X = X[np.argsort(row_keys(X, self.random_state), kind="stable")[: self.rows]]
        pca = PCA(min(self.n, *X.shape), svd_solver="randomized", random_state=self.random_state)
        self.map_ = make_pipeline(MinMaxScaler(clip=True), StandardScaler(), pca).fit(X)
        remember_columns(self, bags)
        return self

    def fit_transform(self, bags, y=None) -> Bags:
        return self.fit(bags).transform(bags)

    def transform(self, bags) -> Bags:
        bags = check_bags(bags, fitted=self, allow_weights=True, apart=True)
        return bags.replace(self.map_.transform(bags.instances))


class ScreenedRidge(EmbeddingRidge):
    """`EmbeddingRidge` for many bags, which compares settings on a subset and fits only the best on all bags.

    With more than 1,000 bags, all settings and every second penalty are compared on 800 bags, drawn by a hash of their
    ids. The best quarter of the settings is then fitted on all bags, with penalties near the best ones.
    """

    def fit(self, bags, y, sample_weight=None) -> ScreenedRidge:
        bags, y = check_fit(bags, y, allow_weights=True, apart=True)
        settings, head = self.settings(), self.head
        if len(bags) > MANY_BAGS and len(settings) > 1:
            subset = np.argsort([unit_hash(key, 0) for key in bags.ids.tolist()], kind="stable")[:SUBSET_BAGS]
            weight = check_weights(sample_weight, bags)
            settings, head = self._best_settings(*some_of(np.sort(subset), bags, y, weight))
        grid = [{name: [value] for name, value in setting.items()} for setting in settings]
        fitted = EmbeddingRidge(self.embedding, head, grid=grid, offset=self.offset).fit(bags, y, sample_weight)
        vars(self).update({name: value for name, value in vars(fitted).items() if name.endswith("_")})
        return self

    def _best_settings(self, bags: Bags, y: np.ndarray, weight) -> tuple[list[dict], object]:
        """Return the settings with the lowest leave-one-out error, and a head with penalties near the best ones."""
        head, groups = self.fresh_head(), np.arange(len(bags)) if bags.groups is None else bags.groups
        penalties, judged = np.array(head.penalties), []
        # Near the best penalty the error hardly changes, so every second one suffices to compare settings.
        head.set_params(penalties=penalties[::2])
        for setting, embedding, rows in self.embedding_for({}).fit_grid(bags, y, self.settings()):
            head.set_params(kernel="precomputed" if embedding.columns == "gram" else "linear")
            judged.append((setting, *head.judge(rows, y, weight, groups)))
        errors = [error for _, _, error in judged]
        ranks = np.argsort(errors, kind="stable")[: -(-len(judged) // FITTED_SHARE)]
        best = [judged[rank] for rank in sorted(ranks) if errors[rank] <= MUCH_WORSE * min(errors)]
        chosen = [penalty for _, penalty, _ in best]
        near = penalties[(penalties >= min(chosen) / NEAR) & (penalties <= max(chosen) * NEAR)]
        return [setting for setting, *_ in best], self.fresh_head().set_params(penalties=tuple(near.tolist()))
