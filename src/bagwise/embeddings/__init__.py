"""One row per bag: kernel means, feature means, landmarks, quantiles, summaries, similarities."""

from bagwise.first_use import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
