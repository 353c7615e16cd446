"""A run that goes on where it stopped: `--resume`, and the word on what is kept when one is stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

Resume = Annotated[
    bool,
    typer.Option("--resume", help="Refuse if nothing was begun in --out; the same command goes on without it, too."),
]


def refuse_unbegun(out: Path) -> None:
    """Refuse a folder in which there is nothing to go on with."""
    if not finished(out) and not _files(out, "plan.json"):
        raise ValueError(f"nothing was begun in {out} that --resume could go on with; leave it out to begin there")


def finished(out: Path) -> int:
    """How many cells are kept, in the folder or, where it holds several data sets, in the folders inside."""
    return len(_files(out, "cells/[!.]*.json"))


def _files(out: Path, pattern: str) -> list[Path]:
    return [path for one in (pattern, f"*/{pattern}") for path in out.glob(one)]


@contextmanager
def stoppable(voice, out: Path) -> Iterator[None]:
    """Inside, Ctrl-C says in one line what is kept, and ends the program with exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        n = finished(out)
        kept = f"{n} finished {'cell is' if n == 1 else 'cells are'} kept in {out}"
        voice.complain(f"stopped; {kept}, and the same command goes on from there")
        raise typer.Exit(130) from None
