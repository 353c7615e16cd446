"""`bagwise demo`: simulated satellite pixels, four methods compared by `evaluate`, a table and a picture."""

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
    """Simulate aerosol bags, compare four methods on the same folds, and write a table and a picture."""
    import bagwise as bw
    from bagwise.cli.console import messages_of, result_console
    from bagwise.cli.evaluate import print_scores
    from bagwise.io.atomic_files import replace_file
    from bagwise.io.table_output import write_table

    console = result_console()
    with messages_of("demo") as messages:
        o.refuse_folder(out)
        data, y = bw.datasets.make_aerosol(bags, instances=instances, ragged=True, random_state=seed)
        console.print(f"Simulated satellite pixels around ground stations: {data}.")
        console.print(f"Target: aerosol optical depth, {y.min():.2f} to {y.max():.2f}, deviation {y.std():.3f}.\n")
        how = {"repeats": 1, "folds": folds, "random_state": seed, "tune": False, "n_jobs": -1, "name": "aerosol"}
        with messages.evaluation_progress("rmse") as progress:
            results = bw.evaluate(data, y, METHODS, **how, progress=progress)
        if results.failures:
            raise ValueError("{0}, fold {2}: {3}".format(*results.failures[0]))
        print_scores(results, console)
        held_out = {name: _by_bag(results.prediction_rows(name), data.ids) for name in METHODS}
        columns = {"bag": data.ids.tolist(), "instances": data.sizes.tolist(), "target": y.tolist()}
        write_table(out / "predictions.csv", columns | held_out)
        console.print(f"\nWrote {out / 'predictions.csv'}")
        try:
            from bagwise.reports.plots import demo_picture
        except ImportError as error:
            console.print(f"No picture: {error}")
            return
        model = bw.method("instance-kme:single", random_state=seed, n_jobs=-1).fit(data, y)
        replace_file(out / "demo.png", lambda path: demo_picture(path, data, y, held_out["instance-kme"], model))
        console.print(f"Wrote {out / 'demo.png'}")


def _by_bag(rows: list[dict], ids) -> list[float]:
    found = {row["bag"]: row["prediction"] for row in rows}
    return [found[bag] for bag in ids.tolist()]
