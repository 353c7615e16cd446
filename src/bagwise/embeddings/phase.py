"""Phase features: what is left of the kernel mean when symmetric noise is divided out."""

from __future__ import annotations

import numpy as np

from bagwise.bags import check_bags, remember_columns
from bagwise.embeddings.embedding import Embedding
from bagwise.embeddings.feature_mean import mean_of_features
from bagwise.instances.random_features import FourierFeatures


class PhaseMean(Embedding):
    r"""The direction, without the length, of the characteristic function of a bag at random frequencies.

    With c = mean cos(ω·x) and s = mean sin(ω·x) over the instances of a bag, the features of frequency ω are

        √(2/m) (c, s) / √(c² + s²).

    Independent noise multiplies the characteristic function by its own, which is real for a symmetric distribution
    and positive for the usual ones (Gaussian, Laplace, Cauchy): c and s are multiplied by the same number, and their
    ratio stays. A bag of blurred instances thus looks like one of sharp instances, up to sampling error: that error
    matters where the length √(c² + s²) is small, so frequencies should be low (bandwidths of 1 and above) and bags
    large.

    Parameters
    ----------
    n_features : even int
        m, two for each frequency.
    bandwidth : float
        Multiplies the median rule of `FourierFeatures`; frequencies are drawn from the spectrum of the kernel.
    kernel : {"gaussian", "matern32", "matern52"}
    random_state : int

    Attributes
    ----------
    fourier_ : FourierFeatures, fitted on the instances

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> rng = np.random.default_rng(0)
    >>> bags = bw.from_arrays([rng.normal(size=(20, 2)) for _ in range(3)])
    >>> Z = PhaseMean(8).fit_transform(bags)
    >>> Z.shape, bool(np.allclose((Z**2).sum(axis=1), 1.0))
    ((3, 8), True)

    References
    ----------
    Law, Yau, Sejdinovic (2017), Testing and learning on distributions with symmetric noise invariance.
    """

    def __init__(
        self, n_features: int = 500, *, bandwidth: float = 1.0, kernel: str = "gaussian", random_state: int = 0
    ):
        self.n_features = n_features
        self.bandwidth = bandwidth
        self.kernel = kernel
        self.random_state = random_state

    def fit(self, bags, y=None) -> PhaseMean:
        bags = check_bags(bags, allow_weights=True)
        fourier = FourierFeatures(
            self.n_features,
            bandwidth=self.bandwidth,
            kernel=self.kernel,
            linear=False,
            random_state=self.random_state,
        )
        self.fourier_ = fourier.fit(bags.instances)
        remember_columns(self, bags)
        return self

    def transform(self, bags) -> np.ndarray:
        bags = check_bags(bags, fitted=self, allow_weights=True)
        means = mean_of_features(self.fourier_.transform, bags)
        length = np.hypot(*np.hsplit(means, 2))
        # Where the length is nothing but rounding there is no direction.
        length = np.where(length > 1e-12, length, np.inf)
        return means / np.hstack([length, length]) * np.sqrt(2.0 / means.shape[1])
