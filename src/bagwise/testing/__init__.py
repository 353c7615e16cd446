"""For tests: contract checks for bag estimators, a collection of awkward bags, naive references."""

from bagwise.first_use import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
