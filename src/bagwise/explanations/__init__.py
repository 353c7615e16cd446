"""Explain predictions: contributions of instances, importance of features, subgroups, and novelty of bags."""

from bagwise.first_use import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
