"""bagwise: multiple instance regression. Every sample is a bag of feature vectors and has one real target."""

from bagwise.bags import Bags, from_arrays, from_awkward, from_padded

__version__ = "0.1.0"
