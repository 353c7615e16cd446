"""`bagwise datasets`: simulations to try things on, as tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bagwise.cli import options as o


def _known(name: str | None) -> str | None:
    from bagwise.datasets.simulations import simulation

    try:
        if name is not None:
            simulation(name)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return name


def datasets(
    name: Annotated[str | None, typer.Argument(callback=_known, help="One of the list. Example: aerosol")] = None,
    out: Annotated[Path | None, typer.Option(help="Where to write it: .csv .parquet or .npz. Example: aod.csv")] = None,
    bags: Annotated[int, typer.Option(min=1, help="Number of bags. Example: --bags 200")] = 200,
    seed: o.Seed = 0,
) -> None:
    """List the simulated data sets, or write one as a table with the columns bag, target and the features.

    Example: bagwise datasets aerosol --bags 300 --out aod.csv
    """
    from rich.table import Table

    from bagwise.cli.console import Terminal, messages_of
    from bagwise.datasets.simulations import SIMULATIONS, simulate

    if name is None:
        shown = Table("data set", "what it is", box=None, padding=(0, 2, 0, 0))
        for one, (_, what) in SIMULATIONS.items():
            shown.add_row(one, what)
        Terminal().print(shown)
        return
    with messages_of("datasets") as messages:
        o.refuse_outputs(out, endings=(".csv", ".parquet", ".npz"))
        data, y = simulate(name, bags, random_state=seed)
        if out is None:
            messages.show(f"{name}: {data}; targets {y.min():.3g} to {y.max():.3g}. Write it with --out FILE.csv")
            return
        _write(out, data, y)
        messages.show(f"Wrote {out}: {data}.")


def _write(out: Path, data, y) -> None:
    import bagwise as bw
    from bagwise.io.table_output import write_table

    if out.suffix == ".npz":
        bw.save_npz(out, data, y)
        return
    names = data.feature_names or [f"x{j + 1}" for j in range(data.n_features)]
    columns = {"bag": data.expand(data.ids).tolist(), "target": data.expand(y).tolist()}
    write_table(out, columns | {n: c.tolist() for n, c in zip(names, data.instances.T, strict=True)})
