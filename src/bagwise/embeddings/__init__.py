"""One row per bag: pools, and the kernel mean."""

from bagwise.embeddings.feature_mean import FeatureMean, NystroemMean
from bagwise.embeddings.gram import mean_gram
from bagwise.embeddings.kernel_mean import KernelMean
from bagwise.embeddings.landmarks import LandmarkMean
from bagwise.embeddings.phase import PhaseMean
from bagwise.embeddings.pools import Pool
from bagwise.embeddings.quantiles import QuantileRows, SlicedQuantiles
from bagwise.embeddings.second_kernel import SecondKernel
from bagwise.embeddings.similarity import MinusDistance, Similarity
from bagwise.embeddings.statistics import Statistics

__all__ = [
    "FeatureMean",
    "KernelMean",
    "LandmarkMean",
    "MinusDistance",
    "NystroemMean",
    "PhaseMean",
    "Pool",
    "QuantileRows",
    "SecondKernel",
    "Similarity",
    "SlicedQuantiles",
    "Statistics",
    "mean_gram",
]
