"""The catalogue of methods: `method(name)` makes an unfitted estimator."""

from bagwise.methods import baselines, bayesian, distributions, instance_kme, reweighted
from bagwise.methods.catalogue import CATALOGUE, Card, method, method_card, method_names
from bagwise.methods.multi_target import MultiTarget

__all__ = [
    "CATALOGUE",
    "Card",
    "MultiTarget",
    "baselines",
    "bayesian",
    "method_card",
    "distributions",
    "instance_kme",
    "method",
    "method_names",
    "reweighted",
]
