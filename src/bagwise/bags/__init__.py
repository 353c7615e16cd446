"""The container `Bags`, bags from arrays, checks of the input of `fit` and `predict`, folds, reductions over bags."""

from bagwise.first_use import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
