"""Which instance matters: contributions, weights, and what a prediction would be without an instance."""

from typing import TYPE_CHECKING

from bagwise.first_use import exported

if TYPE_CHECKING:
    from bagwise.explanations.explanation import Explanation, explain

__all__ = ["Explanation", "explain"]

__getattr__, __dir__ = exported(
    __name__,
    {
        "explanation": ("Explanation", "explain"),
    },
)
