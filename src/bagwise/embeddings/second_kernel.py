"""`SecondKernel`: kernels between the embeddings of bags."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from itertools import groupby, repeat

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import clone

from bagwise.bags import Bags, check_bags, remember_columns
from bagwise.bags.validation import check_options
from bagwise.embeddings.feature_mean import NystroemMean, pick_prototypes, whitening
from bagwise.embeddings.summaries import CovariatesBeside, Embedding
from bagwise.kernels import Gaussian, Linear
from bagwise.kernels.formulas import kernel_matrices

SPREAD_BAGS = 200  # bags from which the mean "l1" distance is computed; its cost is quadratic in their number


class SecondKernel(Embedding):
    r"""Gram matrix K_ij = κ(μ_i, μ_j) of a second kernel κ on the embeddings μ of the bags.

    The first embedding represents each μ_i by a row z_i with ‖z_i - z_j‖ = ‖μ_i - μ_j‖, so any kernel of
    `bagwise.kernels` can be applied to the rows. (With `NystroemMean`, the part of a new bag outside the span of the
    landmarks is not part of the distance.) The columns are similarities to the training bags. With more than
    ``landmarks`` bags they are features, k(z, landmark bags) W with W Wᵀ = C⁻¹, C the matrix of the landmark bags, so
    that cost does not grow quadratically.

    Covariates are standardised and appended to the rows, scaled so that their total variance equals that of the rows.
    So κ can model interactions between the covariates and the distribution of a bag.

    Parameters
    ----------
    embedding : embedding with columns="features", default NystroemMean()
    kernel : Kernel, default Gaussian(1.0)
    distance : {"l2", "l1"}, default "l2"
        The squared distance in the formula of κ: ‖z - z'‖², or ‖z - z'‖₁, which is also the square of a distance in a
        Hilbert space. On `SlicedQuantiles` with "l1", a Gaussian κ is exp(-γ SW_1).
    units : {"spread", "label"}, default "spread"
        "spread" centres the rows and divides them by the root of their total variance over the training bags (for "l1",
        half the mean distance), so that a bandwidth of 1 is a typical distance. "label" does not scale the rows.
    landmarks : int, default 1000
        The largest number of bags for a full Gram matrix.
    random_state : int, default 0
        Seed for choosing landmark bags, by a hash of their rows.

    Attributes
    ----------
    columns : {"gram", "features"}
        Whether the columns are similarities to the training bags, or features.
    embedding_ : embedding
        The first embedding, fitted.
    rows_ : array (bags, columns of the first embedding)
        Rows of the training bags (or landmark bags), in the units of κ: centred by ``mean_``, divided by ``spread_``.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> from bagwise.embeddings import Pool
    >>> bags = bw.from_arrays([np.array([1.0, 3.0]), np.array([4.0])])
    >>> SecondKernel(Pool(("mean",)), Gaussian(2.0), units="label").fit_transform(bags).round(4).tolist()
    [[1.0, 0.6065], [0.6065, 1.0]]

    References
    ----------
    Christmann & Steinwart (2010), Universal kernels on non-standard input spaces. Szabó, Gretton, Póczos, Sriperumbudur
    (2015), Two-stage sampled learning theory on distributions.
    """

    def __init__(
        self,
        embedding=None,
        kernel=None,
        *,
        distance: str = "l2",
        units: str = "spread",
        landmarks: int = 1000,
        random_state: int = 0,
    ):
        self.embedding = embedding
        self.kernel = kernel
        self.distance = distance
        self.units = units
        self.landmarks = landmarks
        self.random_state = random_state

    reads_covariates = True

    @property
    def columns(self) -> str:
        return "gram" if getattr(self, "whitening_", None) is None else "features"

    @property
    def is_mean(self) -> bool:
        linear = isinstance(self.kernel, Linear) and self.distance == "l2"
        return linear and getattr(self.embedding_, "is_mean", False)

    def fit_transform(self, bags, y=None) -> np.ndarray:
        bags = check_bags(bags, fitting=self, allow_weights=True, apart=True)
        embedding = clone(NystroemMean() if self.embedding is None else self.embedding)
        return self.fit_rows(bags, embedding, embedding.fit_transform(bags.without_covariates(), y))

    def fit_grid(self, bags, y, settings):
        """Fit a copy per setting, as `Embedding.fit_grid`; adjacent settings share the rows of one first embedding."""

        def first_part(setting: dict) -> dict:
            return {name: value for name, value in setting.items() if name.split("__")[0] == "embedding"}

        bags = check_bags(bags, allow_weights=True, apart=True)
        runs = [(shared, list(run)) for shared, run in groupby(settings, first_part)]
        if any("embedding" in shared for shared, _ in runs):  # a setting replaces the first embedding itself
            yield from super().fit_grid(bags, y, [setting for _, run in runs for setting in run])
            return
        first = clone(NystroemMean() if self.embedding is None else self.embedding)
        fit_grid = getattr(type(first), "fit_grid", Embedding.fit_grid)  # custom embeddings may lack the method
        first_settings = [{name.partition("__")[2]: value for name, value in shared.items()} for shared, _ in runs]
        fitted_first = fit_grid(first, bags.without_covariates(), y, first_settings)
        for (shared, run), (_, embedding, rows) in zip(runs, fitted_first, strict=True):
            if any(setting.keys() - shared.keys() - {"kernel"} for setting in run):
                for setting in run:
                    second = clone(self).set_params(**setting)
                    yield setting, second, second.fit_rows(bags, embedding, rows)
            else:
                second = clone(self).set_params(**shared)
                kernels = [setting.get("kernel", self.kernel) for setting in run]
                fits = second._fit_kernels(second._fit_units(bags, embedding, rows), kernels)
                yield from ((setting, *fit) for setting, fit in zip(run, fits, strict=True))

    def fit_rows(self, bags: Bags, embedding, rows: np.ndarray) -> np.ndarray:
        """Fit on the rows of a fitted first embedding and return the columns; ``bags`` supply only the covariates."""
        ((fitted, columns),) = self._fit_kernels(self._fit_units(bags, embedding, rows), [self.kernel])
        self.whitening_: np.ndarray | None = fitted.whitening_
        return columns

    def _fit_units(self, bags: Bags, embedding, rows: np.ndarray) -> np.ndarray:
        """Fit everything that does not depend on the kernel; return the scaled rows."""
        check_options(self, distance=("l2", "l1"), units=("spread", "label"))
        if embedding.columns == "gram":
            raise ValueError(
                f"{type(embedding).__name__} returns a Gram matrix, but rows are needed. Set columns='features'."
            )
        self.embedding_ = embedding
        remember_columns(self, bags)
        self.beside_ = None if bags.covariates is None else CovariatesBeside.of(bags.covariates, rows, gram=False)
        rows = self._joined(rows, bags)
        self.mean_, spread = np.zeros(rows.shape[1]), 1.0
        if self.units == "spread":
            self.mean_ = rows.mean(axis=0)
            spread = np.sqrt(((rows - self.mean_) ** 2).sum(axis=1).mean())
            if self.distance == "l1":
                sample = pick_prototypes(rows, SPREAD_BAGS, random_state=self.random_state)
                spread = cdist(sample, sample, "cityblock").mean() / 2
        self.spread_ = float(spread) if np.isfinite(spread) and spread > 0 else 1.0
        rows = (rows - self.mean_) / self.spread_
        needs_landmarks = len(rows) > self.landmarks
        self.rows_ = pick_prototypes(rows, self.landmarks, random_state=self.random_state) if needs_landmarks else rows
        return rows

    def _fit_kernels(self, rows: np.ndarray, kernels: list) -> Iterator[tuple[SecondKernel, np.ndarray]]:
        """Yield a copy fitted with each kernel, and its columns; distances are computed once for all kernels."""
        landmarks = self._each_kernel(kernels, self.rows_) if len(rows) > self.landmarks else repeat(None)
        for kernel, similarities, gram in zip(kernels, self._each_kernel(kernels, rows), landmarks, strict=False):
            fitted = copy(self)
            fitted.kernel, fitted.whitening_ = kernel, None if gram is None else whitening(gram)
            yield fitted, similarities if gram is None else similarities @ fitted.whitening_

    def transform(self, bags) -> np.ndarray:
        bags = check_bags(bags, fitted=self, allow_weights=True, apart=True)
        rows = self.embedding_.transform(bags.without_covariates())
        coordinates = (self._joined(rows, bags) - self.mean_) / self.spread_
        residual_norms = np.zeros(len(rows))
        if getattr(self.embedding_, "map_", None) == "exact":  # a KernelMean over pairs of instances
            # Rows are projections onto the span of the training bags, but distances include the part outside it.
            norms = self.embedding_.squared_norms(bags.without_covariates())
            residual_norms = np.sqrt(np.maximum(norms - np.einsum("ij,ij->i", rows, rows), 0.0)) / self.spread_
        if self.distance == "l1" or not residual_norms.any():
            (similarities,) = self._each_kernel([self.kernel], coordinates)
        else:
            kernel = Gaussian() if self.kernel is None else self.kernel
            # The part outside the span is one more coordinate, which is zero for the training bags.
            training = np.pad(self.rows_, ((0, 0), (0, 1)))
            similarities = kernel(np.column_stack([coordinates, residual_norms]), training)
        return similarities if self.whitening_ is None else similarities @ self.whitening_

    def _joined(self, rows: np.ndarray, bags: Bags) -> np.ndarray:
        return rows if self.beside_ is None else self.beside_.join(rows, bags.covariates)

    def _each_kernel(self, kernels: list, rows: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the similarities of the rows to the training rows for each kernel."""
        kernels = [Gaussian() if kernel is None else kernel for kernel in kernels]
        if self.distance == "l2":
            yield from kernel_matrices(kernels, rows, self.rows_)
            return
        roots = np.sqrt(cdist(rows, self.rows_, "cityblock"))
        yield from (kernel(np.zeros(1), roots.ravel()).reshape(roots.shape) for kernel in kernels)
