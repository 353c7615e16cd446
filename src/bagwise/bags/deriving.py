"""Bags made from bags: the same ones with other instances, weights or covariates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bagwise.bags import beside, parts
from bagwise.bags.frames import names_of, unframe

if TYPE_CHECKING:
    from bagwise.bags.container import Bags


class Deriving:
    """What `Bags` can be turned into; nothing is changed in place."""

    __slots__ = ()

    def _with(self, **changes) -> Bags:
        """The same bags with some parts changed, which are trusted."""
        return self._trusted(**({name: getattr(self, name) for name in self.__slots__} | changes))

    def singles(self) -> Bags:
        """Every instance as a bag of its own, numbered from 0; it needs no weight there."""
        groups, covariates = (None if a is None else self.expand(a) for a in (self.groups, self.covariates))
        n = self.n_instances
        return self._with(
            offsets=np.arange(n + 1), ids=np.arange(n), groups=groups, weights=None, covariates=covariates
        )

    def replace(self, instances, *, feature_names=None) -> Bags:
        """The same bags with other rows for their instances; rows must correspond one to one."""
        instances, columns = unframe(instances, "instances")
        instances = parts.as_instances(instances)
        if len(instances) != self.n_instances:
            raise ValueError(f"{len(instances)} rows for {self.n_instances} instances; give one row per instance")
        names = parts.as_feature_names(names_of(feature_names, columns, "feature_names"), instances.shape[1])
        missing = "keep" if self.has_missing else "refuse"
        has_missing = parts.check_values(instances, self.offsets, self.ids, missing)
        return self._with(instances=instances, feature_names=names, has_missing=has_missing)

    def with_weights(self, weights) -> Bags:
        """The same bags with these weights of their instances."""
        return self._with(weights=beside.as_weights(weights, self.offsets, self.ids))

    def without_weights(self) -> Bags:
        """The same bags, every instance counting the same."""
        return self if self.weights is None else self._with(weights=None)

    def with_covariates(self, covariates, names=None) -> Bags:
        """The same bags with these covariates, a row per bag: an array, or a data frame, whose columns name them."""
        covariates, names = beside.as_covariates(covariates, names, self.ids, self.feature_names)
        return self._with(covariates=covariates, covariate_names=names)

    def without_covariates(self) -> Bags:
        return self if self.covariates is None else self._with(covariates=None, covariate_names=None)

    def spread(self) -> Bags:
        """The same bags with their covariates as columns of every instance."""
        if self.covariates is None:
            return self
        instances, names = beside.spread(self)
        return self._with(instances=instances, feature_names=names).without_covariates()
