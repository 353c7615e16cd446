"""A live line for those who wait: members done, the best so far."""

from __future__ import annotations

from contextlib import contextmanager


@contextmanager
def watching(show: bool, total: int):
    """A function to call with the name of what is next, and the best so far; silent unless ``show``."""
    if not show:
        yield lambda name, best="": None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("[bold]members"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, TextColumn("{task.description}", markup=False), transient=True) as progress:
        task, count = progress.add_task("", total=total), iter(range(total + 1))
        yield lambda name, best="": progress.update(task, completed=next(count, total), description=f"{name}  {best}")
