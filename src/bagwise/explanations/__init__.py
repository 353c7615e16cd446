"""What stands behind a prediction: which instance and which feature matter, for whom, and whether to trust it."""

from bagwise.first_use import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
