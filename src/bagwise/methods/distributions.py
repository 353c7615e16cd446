"""Methods that embed a bag, its instances or their predictions, as a distribution: kernel means, phases, quantiles."""

from __future__ import annotations

import numpy as np

from bagwise import kernels as k
from bagwise.embeddings.feature_mean import FeatureMean, NystroemMean, PhaseMean
from bagwise.embeddings.second_kernel import SecondKernel
from bagwise.embeddings.summaries import SlicedQuantiles
from bagwise.instances import OutOfFold
from bagwise.kernels.formulas import FourierFeatures
from bagwise.methods.catalogue import RECOMMENDED, SHAPE, Card, register, variant
from bagwise.methods.instance_kme import default_network
from bagwise.regressors import BagPipeline, EmbeddingRidge, MeanRegressor, RidgePath
from bagwise.regressors.pipeline import SLACK, scaled

# Szabó's kernels, as functions of a length in units of the spread.
KERNELS = {
    "gaussian": k.Gaussian,
    "exponential": lambda length: k.Exponential(float(np.sqrt(length / 2))),  # exp(-r / 2θ²)
    "cauchy": k.Cauchy,
    "student": lambda length: k.Student(min(length, 2.0)),  # an exponent; above 2 it is not positive definite
    "polynomial-2": lambda length: k.Polynomial(length, 2),
    "polynomial-3": lambda length: k.Polynomial(length, 3),
    "rational-quadratic": lambda length: k.RationalQuadratic(length**2),  # θ is a squared length
    "inverse-multiquadric": k.InverseMultiquadric,
    "matern-3/2": k.Matern32,
    "matern-5/2": k.Matern52,
}
LENGTHS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
FIRST = [k.Gaussian(1.0), k.Gaussian(3.0), k.InverseMultiquadric(0.5), k.InverseMultiquadric(1.0)]
SECOND = [k.Linear(), *map(k.InverseMultiquadric, (0.5, 1.0, 3.0))]
# The values of a wide second kernel are almost equal, and differences below 1e-9 are rounding, so no smaller penalties.
PENALTIES = tuple(float(10.0**e) for e in np.arange(1.0, -9.5, -0.5))


def kernel_grid(*names: str, lengths=LENGTHS) -> list:
    """Return the kernels of these names (see `KERNELS`) at each length, without duplicates, as a grid."""
    kernels = [KERNELS[name](length) for name in names for length in lengths]
    return list({repr(kernel): kernel for kernel in kernels}.values())


def input_kme(*, first=FIRST, second=SECOND, random_state=0, n_jobs=None) -> BagPipeline:
    """Choose kernel, second kernel and penalty by leave-one-bag-out; accurate, but not additive over instances."""
    embedding = SecondKernel(NystroemMean(random_state=random_state), random_state=random_state)
    grid = {"embedding__kernel": list(first), "kernel": list(second)}
    return scaled(EmbeddingRidge(embedding, RidgePath(PENALTIES), grid=grid))


def second_kernel(**options) -> BagPipeline:
    """Choose among more kernels on both levels, without the linear one: Szabó's nonlinear K."""
    first = kernel_grid("gaussian", "cauchy", "inverse-multiquadric", "matern-3/2", lengths=(0.5, 1.0, 2.0))
    second = kernel_grid("gaussian", "inverse-multiquadric", "matern-3/2", lengths=(1.0, 3.0))
    return input_kme(first=first, second=second, **options)


def linear_kme(*names: str, random_state=0, n_jobs=None) -> BagPipeline:
    """Use the inner product of the embeddings as second kernel: a prediction is a mean of h(instance), so additive."""
    grid = {"kernel": kernel_grid(*(names or ("gaussian", "inverse-multiquadric")))}
    return scaled(EmbeddingRidge(NystroemMean(random_state=random_state), RidgePath(), grid=grid))


def fourier(*, random_state=0, n_jobs=None) -> EmbeddingRidge:
    """Fit ridge regression on the mean of 256 random Fourier features of a Gaussian kernel.

    They are sums over instances, so it also fits tables larger than memory (``bagwise.fit_scan``).
    """
    features = FourierFeatures(256, linear=False, random_state=random_state)
    return EmbeddingRidge(FeatureMean(features), RidgePath(), grid={"features__bandwidth": [0.5, 1.0, 2.0]})


def ensemble(*, random_state=0, n_jobs=None) -> MeanRegressor:
    """Average one linear model per kernel with equal weights, without the unbounded polynomials: Szabó's ensemble."""
    names = [name for name in KERNELS if not name.startswith("polynomial")]
    models = [(name.replace("/", ""), linear_kme(name, random_state=random_state)) for name in names]
    return MeanRegressor(models, n_jobs=n_jobs)


def phase(*, random_state=0, n_jobs=None) -> EmbeddingRidge:
    """Fit ridge on the phases, at frequencies up to that of the median heuristic."""
    return EmbeddingRidge(PhaseMean(random_state=random_state), RidgePath(), grid={"bandwidth": [1.0, 2.0, 4.0, 8.0]})


def quantile(*, second=SECOND, random_state=0, n_jobs=None) -> BagPipeline:
    """Compare quantiles of out-of-fold instance predictions by W_2; a second kernel corrects the mean."""
    grid = {"kernel": list(second)}
    head = EmbeddingRidge(SecondKernel(SlicedQuantiles()), RidgePath(PENALTIES), grid=grid, offset="mean")
    learner = default_network(random_state=random_state)
    stage = OutOfFold(learner, judge=head, random_state=random_state, n_jobs=n_jobs)
    return BagPipeline([("instances", stage), ("head", head)])


def sliced(*, directions=200, quantiles=20, distance="l2", slack=SLACK, random_state=0, n_jobs=None) -> BagPipeline:
    """Fit ridge regression with the kernels exp(-γ SW_2²) and 1/√(SW_2² + θ²) of the sliced Wasserstein distance.

    Many directions and few quantiles are as good as the numbers of the paper, at less than half the cost.
    """
    slices = SlicedQuantiles(directions, quantiles, random_state=random_state)
    grid = {"kernel": kernel_grid("gaussian", "inverse-multiquadric", lengths=(0.3, 1.0, 3.0))}
    embedding = SecondKernel(slices, distance=distance, random_state=random_state)
    return scaled(EmbeddingRidge(embedding, RidgePath(PENALTIES), grid=grid, slack=slack))


register(
    Card(
        name="input-kme",
        idea="Embed the distribution of a bag's instances with a kernel, compare embeddings by a second kernel, and "
        "fit ridge regression; leave-one-bag-out chooses kernels and penalty.",
        question=RECOMMENDED,
        assumes="the target depends on how the instances are distributed, smoothly",
        cites="Szabó, Gretton, Póczos, Sriperumbudur (2015)",
        cost="O(N m) per setting, with up to m = 500 landmarks",
        presets={
            "default": input_kme,
            "linear": linear_kme,
            "second-kernel": second_kernel,
            "ensemble": ensemble,
            "fourier": fourier,
        },
        search_space={
            "head__embedding__embedding__landmarks": [200, 500, 1000],
            "head__embedding__landmarks": [500, 1000],
        },
    ),
    Card(
        name="phase",
        idea="Describe a bag by the phases of its characteristic function, which symmetric noise does not change.",
        question=SHAPE,
        assumes="instances have independent symmetric noise, which may differ from bag to bag; bags are not tiny",
        cites="Law, Yau, Sejdinovic (2017)",
        cost="O(N m), m = 500",
        presets={"default": phase},
        search_space={"embedding__n_features": [200, 500, 1000]},
    ),
    Card(
        name="quantile",
        idea="Describe a bag by the quantiles of its out-of-fold instance predictions, and fit kernel ridge regression "
        "on the Wasserstein distance.",
        question=SHAPE,
        assumes="instances predict the target; how to combine them depends on their distribution in the bag",
        cites="Kolouri, Zou, Rohde (2016), on the predictions of Uriot (2019)",
        cost="D networks on N instances; then O(N log L)",
        presets={
            "default": quantile,
            "linear": variant("Fit ridge regression on the quantiles themselves.", quantile, second=[k.Linear()]),
        },
        search_space={"head__embedding__embedding__quantiles": [20, 100]},
    ),
    Card(
        name="sliced-wasserstein",
        idea="Compare bags by the Wasserstein distance of their projections onto random directions, and fit kernel "
        "ridge regression.",
        question=SHAPE,
        assumes="the target depends on how the instances are distributed; distances between instances are meaningful",
        cites="Meunier, Pontil, Ciliberto (2022)",
        cost="O(M N log L), M = 200 directions",
        presets={
            "default": sliced,
            "paper": variant(
                "Use 100 directions and quantiles, as in the source.", sliced, directions=100, quantiles=100, slack=None
            ),
            "sw1": variant("Use the distance SW_1 in place of SW_2.", sliced, distance="l1"),
        },
        search_space={"head__embedding__embedding__directions": [50, 200, 500]},
    ),
)
