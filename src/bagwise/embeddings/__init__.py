"""One row per bag: kernel means, feature means, landmarks, quantiles, summaries, similarities."""

from typing import TYPE_CHECKING

from bagwise.first_use import exported

if TYPE_CHECKING:
    from bagwise.embeddings.feature_mean import FeatureMean, MinusDistance, NystroemMean, PhaseMean, Similarity
    from bagwise.embeddings.kernel_mean import KernelMean, mean_gram
    from bagwise.embeddings.landmarks import LandmarkMean
    from bagwise.embeddings.second_kernel import SecondKernel
    from bagwise.embeddings.summaries import Pool, QuantileRows, SlicedQuantiles, Statistics

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

__getattr__, __dir__ = exported(
    __name__,
    {
        "feature_mean": ("FeatureMean", "MinusDistance", "NystroemMean", "PhaseMean", "Similarity"),
        "kernel_mean": ("KernelMean", "mean_gram"),
        "landmarks": ("LandmarkMean",),
        "second_kernel": ("SecondKernel",),
        "summaries": ("Pool", "QuantileRows", "SlicedQuantiles", "Statistics"),
    },
)
