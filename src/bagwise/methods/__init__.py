"""The catalogue of methods: `method(name)` makes an unfitted estimator."""

from bagwise.methods import attention, auto, baselines, bayesian, distributions, instance_kme, reweighted, statistics
from bagwise.methods.catalogue import CATALOGUE, Card, method, method_card, method_names

__all__ = [
    "CATALOGUE",
    "Card",
    "attention",
    "auto",
    "baselines",
    "bayesian",
    "method_card",
    "distributions",
    "instance_kme",
    "method",
    "method_names",
    "reweighted",
    "statistics",
]
