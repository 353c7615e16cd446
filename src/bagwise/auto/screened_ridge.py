"""`ScreenedRidge`: ridge regression on an embedding, with settings preselected on a subset of the bags."""

from __future__ import annotations

import numpy as np

from bagwise.bags import Bags, check_fit, check_weights
from bagwise.bags.folds import some_of, unit_hash
from bagwise.regressors import EmbeddingRidge

MANY_BAGS = 1000  # with more training bags, settings are compared on a subset first
SUBSET_BAGS = 800  # size of this subset
FITTED_SHARE = 4  # the best 1/4 of the settings are fitted on all bags
MUCH_WORSE = 1.05  # of these, settings with more than 1.05 times the lowest squared error are dropped
NEAR = 40.0  # on all bags, penalties within this factor of the best penalties of the subset are tried


class ScreenedRidge(EmbeddingRidge):
    """`EmbeddingRidge` for many bags, which compares settings on a subset and fits only the best on all bags.

    With more than 1,000 bags, all settings and every second penalty are compared on 800 bags, drawn by a hash of their
    ids. The best quarter of the settings is then fitted on all bags, with penalties near the best ones. With fewer bags
    it does the same as `EmbeddingRidge`.

    Parameters
    ----------
    embedding, head, grid, offset : as in `EmbeddingRidge`

    Examples
    --------
    >>> import bagwise as bw
    >>> from bagwise.embeddings import Pool
    >>> bags, y = bw.datasets.make_problem("mean", 40)
    >>> ScreenedRidge(Pool(("mean",))).fit(bags, y).predict(bags).shape
    (40,)
    """

    def fit(self, bags, y, sample_weight=None) -> ScreenedRidge:
        """Fit on bags with one target each; ``sample_weight`` has one weight per bag."""
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
