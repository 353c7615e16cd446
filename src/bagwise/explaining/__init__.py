"""Which instance matters: contributions, weights, and what a prediction would be without an instance."""

from bagwise.explaining.explain import explain
from bagwise.explaining.explanation import Explanation

__all__ = ["Explanation", "explain"]
