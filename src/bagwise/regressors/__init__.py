"""From rows or bags to targets: ridge and lasso paths, trees, and methods whose algorithm is a loop."""

from bagwise.first_use import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
