"""The catalogue of methods: `method(name)` builds an unfitted estimator.

Each module of this package registers its methods when it is imported, and all of them are imported here.
"""

from importlib import import_module
from pkgutil import iter_modules

from bagwise.methods.catalogue import CATALOGUE, Card, method, method_card, method_names
from bagwise.methods.multi_target import MultiTarget

__all__ = ["CATALOGUE", "Card", "MultiTarget", "method", "method_card", "method_names"]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
