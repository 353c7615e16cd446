"""`bagwise methods`: the catalogue."""

from __future__ import annotations

from typing import Annotated

import typer

from bagwise.cli.options import known_methods


def methods(
    name: Annotated[
        str | None,
        typer.Argument(callback=known_methods, help="One method, to see its whole card. Example: instance-kme"),
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="The whole catalogue as a page of documentation.")
    ] = False,
) -> None:
    """List the methods, or show the card of one."""
    from rich.table import Table

    from bagwise.cli.console import Terminal
    from bagwise.methods.catalogue import CATALOGUE, find

    if markdown:
        from bagwise.reports.method_cards import methods_page

        print(methods_page(), end="")
        return
    console = Terminal()
    if name is not None:
        found, _ = find(name)
        for what in ("name", "idea", "assumes", "cites", "cost"):
            console.print(f"[bold]{what:8}[/bold] {getattr(found, what)}")
        console.print(f"[bold]presets [/bold] {', '.join(found.preset_names)}")
        return
    table = Table("method", "idea", box=None, padding=(0, 2, 0, 0))
    for found in CATALOGUE.values():
        table.add_row(found.name, found.idea)
    console.print(table)
