"""Which instance matters: contributions, weights, and what a prediction would be without an instance."""

from bagwise.explanations.explanation import Explanation, explain

__all__ = ["Explanation", "explain"]
