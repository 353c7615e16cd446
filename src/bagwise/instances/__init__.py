"""One number per instance: out-of-fold prediction, and the regressors of instances."""

from bagwise.first_use import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
