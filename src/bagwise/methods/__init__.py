"""The catalogue of methods: `method(name)` makes an unfitted estimator."""

from bagwise.methods import baselines, instance_kme
from bagwise.methods.catalogue import CATALOGUE, Card, card, method, methods

__all__ = ["CATALOGUE", "Card", "baselines", "card", "instance_kme", "method", "methods"]
