"""Similarity of two instances: kernels by formula, rules for their bandwidth, random features."""

from bagwise.first_use import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
