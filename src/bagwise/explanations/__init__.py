"""What stands behind a prediction: which instance and which feature matter, for whom, and whether to trust it."""

from typing import TYPE_CHECKING

from bagwise.first_use import exported

if TYPE_CHECKING:
    from bagwise.explanations.explanation import Explanation, explain
    from bagwise.explanations.novelty_verdicts import Novelty, novelty

__all__ = ["Explanation", "Novelty", "explain", "novelty"]

__getattr__, __dir__ = exported(
    __name__,
    {
        "explanation": ("Explanation", "explain"),
        "novelty_verdicts": ("Novelty", "novelty"),
    },
)
