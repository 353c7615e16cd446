"""`bagwise report`: what an evaluation found, as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    run: Annotated[Path, typer.Argument(help="Folder of an evaluation, finished or not. Example: runs/aod")],
    out: Annotated[Path | None, typer.Option(help="File to write. Default RUN/report.html. Example: aod.html")] = None,
    data: Annotated[Path | None, typer.Option(help="Where the table is now, if it moved. Example: aod.csv")] = None,
    explorer: Annotated[
        bool, typer.Option(help="Fit the best method on all bags, to show instances. Example: --no-explorer")
    ] = True,
    quiet: Annotated[bool, typer.Option(help="No progress and no messages.")] = False,
) -> None:
    """Write the results of an evaluation as one HTML file: tables, plots and a bag explorer.

    Example: bagwise report runs/aod --out aod.html
    """
    from bagwise.cli.console import messages_of

    with messages_of("report", quiet=quiet) as messages:
        from bagwise.cli.options import refuse_outputs
        from bagwise.reports import write_report

        refuse_outputs(out or (run / "report.html" if run.is_dir() else None), endings=(".html", ".htm"))
        with messages.spinner("Writing the report"):
            path = write_report(run, out or run / "report.html", data=data, explore=explorer, tell=messages.show)
    messages.show(f"Wrote {path} ({path.stat().st_size / 1e6:.1f} MB)")
