"""Simulations and published benchmarks, regenerated: every function gives `(bags, y)` from a seed.

`make_instance_map` gives the true values of the instances as well.
"""

from bagwise.first_use import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
