"""What comes back instead of a result when whoever ran a task died twice."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Lost:
    """A task whose worker died, was given one more try, and died again."""

    reason: str
