"""`bagwise demo`: simulated satellite pixels, four methods on the same folds, a table and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bagwise.cli import options as o

METHODS = ("instance-mean", "instance-median", "aggregated", "instance-kme")


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the table and the picture. Example: --out demo")] = Path("demo"),
    bags: Annotated[int, typer.Option(min=1, help="Number of simulated bags. Example: --bags 200")] = 200,
    instances: Annotated[int, typer.Option(min=1, help="Pixels in a bag. Example: --instances 50")] = 50,
    folds: Annotated[int, typer.Option(min=2, help="Folds of bags to score on. Example: --folds 5")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulation and the methods. Example: --seed 0")] = 0,
) -> None:
    """Simulate aerosol bags, compare four methods on the same folds, and leave a table and a picture."""
    import bagwise as bw
    from bagwise.cli import comparison
    from bagwise.cli.speaking import speaking
    from bagwise.cli.terminal import Terminal
    from bagwise.writing import replace_file

    console = Terminal()
    with speaking("demo", quiet=False):
        o.refuse_folder(out)
        data, y = bw.datasets.make_aerosol(bags, instances=instances, ragged=True, random_state=seed)
        console.print(f"Simulated satellite pixels around ground stations: {data}.")
        console.print(f"Target: aerosol optical depth, {y.min():.2f} to {y.max():.2f}, deviation {y.std():.3f}.\n")
        scores = comparison.compare(data, y, METHODS, folds=folds, seed=seed, console=console)
        console.print(comparison.table(scores, reference="instance-mean"))
        out.mkdir(parents=True, exist_ok=True)
        replace_file(out / "predictions.csv", lambda path: comparison.write_predictions(path, data, y, scores))
        console.print(f"\nWrote {out / 'predictions.csv'}")
        _picture(out / "demo.png", data, y, scores, seed, console)


def _picture(path: Path, data, y, scores, seed: int, console) -> None:
    import bagwise as bw
    from bagwise.writing import replace_file

    try:
        from bagwise.reports.pictures import demo_picture
    except ImportError as error:
        console.print(f"No picture: {error}")
        return
    model = bw.method("instance-kme", random_state=seed, n_jobs=-1).fit(data, y)
    replace_file(path, lambda target: demo_picture(target, data, y, scores["instance-kme"], model))
    console.print(f"Wrote {path}")
