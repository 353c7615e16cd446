"""`bagwise arrays`: a folder with a file of arrays per bag, and a table of the bags, in; bags in one file out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from bagwise.cli import options as o


def arrays(
    folder: Annotated[Path, typer.Argument(help="A folder with a .npy, .npz or .h5 file per bag. Example: slides")],
    out: Annotated[Path, typer.Option(help="The bags as .npz. Example: --out slides.npz")],
    table: Annotated[
        Path | None, typer.Option(help="A table with a row per bag: ids and targets. Example: --table clinical.csv")
    ] = None,
    bag: o.Bag = None,
    target: Annotated[str | None, typer.Option(help="Column of targets. Example: --target survival")] = None,
    groups: o.Groups = None,
    bag_feature: Annotated[
        list[str] | None, typer.Option(help="Column of numbers that describes the bag. Example: --bag-feature age")
    ] = None,
    array: Annotated[
        str | None, typer.Option(help="The array of a file that holds several. Example: --array features")
    ] = None,
    unmatched: Annotated[
        Literal["refuse", "drop"], typer.Option(help="What happens to rows without a file, and files without a row.")
    ] = "refuse",
    missing: Annotated[
        Literal["refuse", "impute", "keep"], typer.Option(help="Whether missing values are refused or kept.")
    ] = "refuse",
    quiet: o.Quiet = False,
) -> None:
    """Put the arrays of a folder and the targets of a table into one file that fit, evaluate and predict read.

    Example: bagwise arrays slides --table clinical.csv --bag slide --target survival --out slides.npz
    """
    import bagwise as bw
    from bagwise.cli.console import messages_of

    with messages_of("arrays", quiet=quiet) as messages:
        o.refuse_outputs(out, inputs=[table] if table else [], endings=(".npz",))
        if out.resolve().parent == folder.resolve():
            raise ValueError(f"{out.name} would be a bag of its own in {folder}; write it to another folder")
        roles = {"bag": bag, "target": target, "groups": groups, "bag_features": list(bag_feature or []) or None}
        with messages.spinner("reading arrays"):
            bags, y = bw.from_folder(folder, table, **roles, array=array, unmatched=unmatched, missing=missing)
            bw.save_npz(out, bags, y)
        messages.show(f"Wrote {out}: {bags}{'' if y is None else ', with targets'}.")
