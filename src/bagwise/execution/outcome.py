"""What comes back instead of a result: an error in the task, or the death of whoever ran it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Lost:
    """A task whose worker died, was given one more try, and died again."""

    reason: str


@dataclass(frozen=True)
class Failed:
    """A task that raised an error."""

    error: Exception
