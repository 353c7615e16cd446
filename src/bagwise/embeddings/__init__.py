"""One row per bag: pools, and the kernel mean."""

from bagwise.embeddings.gram import mean_gram
from bagwise.embeddings.kernel_mean import KernelMean
from bagwise.embeddings.landmarks import LandmarkMean
from bagwise.embeddings.pools import Pool

__all__ = ["KernelMean", "LandmarkMean", "Pool", "mean_gram"]
