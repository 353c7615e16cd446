"""How a verb that runs cells ends: what failed is told, and the exit code says that something did."""

from __future__ import annotations

import typer


def tell_failures(voice, *runs, files: str = "results.csv") -> None:
    """Name the first failed cell of some `Results` and where all are to be found; then the exit code is 1."""
    failures = [(results, *one) for results in runs for one in results.failures]
    if not failures:
        return
    results, method, repeat, fold, error = failures[0]
    data = f"{results.record['data']['name']}, " if len(runs) > 1 else ""
    cells = sum(len(one.record["cells"]) for one in runs)
    voice.complain(
        f"{len(failures)} of {cells} cells failed. The first is {data}{method}, repeat {repeat}, fold {fold}: {error}\n"
        f"All are in {files}; --retry-failed runs them again."
    )
    raise typer.Exit(1)
