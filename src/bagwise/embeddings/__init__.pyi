from bagwise.embeddings.feature_mean import (
    FeatureMean as FeatureMean,
    LandmarkMean as LandmarkMean,
    MinusDistance as MinusDistance,
    NystroemMean as NystroemMean,
    PhaseMean as PhaseMean,
    Similarity as Similarity,
)
from bagwise.embeddings.kernel_mean import KernelMean as KernelMean, mean_gram as mean_gram
from bagwise.embeddings.second_kernel import SecondKernel as SecondKernel
from bagwise.embeddings.summaries import (
    Pool as Pool,
    SlicedQuantiles as SlicedQuantiles,
    Statistics as Statistics,
)

__all__ = [
    "FeatureMean",
    "KernelMean",
    "LandmarkMean",
    "MinusDistance",
    "NystroemMean",
    "PhaseMean",
    "Pool",
    "SecondKernel",
    "Similarity",
    "SlicedQuantiles",
    "Statistics",
    "mean_gram",
]
