"""`bagwise demo`: fit the default method on simulated satellite pixels, and show what it does."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from bagwise.cli import options as o

NEW = 20  # bags that are not learned from, for the next command
STORY = """{bags} ground stations with {pixels:,} satellite pixels around them, {features} numbers per pixel.
The target is the aerosol optical depth above each station, {low:.2f} to {high:.2f}.
"""
MEANING = """
At a station that it has not seen, auto is typically off by {error:.3g}; always predicting the mean of the
targets would be off by {mean:.3g}."""


def demo(
    out: Annotated[Path, o.option("Folder for the tables and the model. Example: --out demo")] = Path("demo"),
    bags: Annotated[int, o.option("Number of simulated stations. Example: --bags 200", min=20)] = 200,
    instances: Annotated[int, o.option("Mean number of pixels per station.", min=1)] = 50,
    time_budget: Annotated[float, o.option("Seconds for auto. Example: --time-budget 30", min=0.1)] = 120,
    seed: Annotated[int, o.option("Seed of the simulation and the methods. Example: --seed 0", min=0)] = 0,
) -> None:
    """Fit auto on simulated satellite pixels, print the errors of the methods that it compares, and save the model."""
    import bagwise as bw
    from bagwise.cli.console import file_size, messages_of, print_text
    from bagwise.cli.data_files import write_bags
    from bagwise.io.table_output import as_text

    pixels, new_pixels, file = (out / name for name in ("pixels.csv", "new_pixels.csv", "model.bagwise"))
    with messages_of("demo") as messages:
        o.refuse_folder(out)
        simulated, y = bw.datasets.make_aerosol(bags + NEW, instances=instances, ragged=True, random_state=seed)
        write_bags(pixels, simulated[:bags], y[:bags])
        write_bags(new_pixels, simulated[bags:], y[bags:])
        columns = {"bag": "bag", "target": "target"}
        training, target = bw.load(pixels, **columns)
        about = {"bags": bags, "pixels": training.n_instances, "features": training.n_features}
        print_text(STORY.format(**about, low=target.min(), high=target.max()))
        model = bw.Intervals(bw.method("auto", time_budget=time_budget, random_state=seed, n_jobs=-1))
        with messages.fit_progress(model, "auto"):
            model.fit(training, target)
        header = bw.model_files.describe_training(training, target) | {"columns": columns}
        bw.save_model(model, file, method="auto", training=header)
        auto = model.method_
        rows = [row for row in auto.trials_ if row["error"] == row["error"]]
        rows = sorted(rows, key=lambda row: row["error"])
        methods = ["auto", *("mean of the targets" if row["member"] == "mean" else row["member"] for row in rows)]
        seconds = [auto.seconds_, *(row["seconds"] for row in rows)]
        errors = [auto.scores_["error"], *(row["error"] for row in rows)]
        table = {"method": methods, "error": errors, "seconds": seconds}
        table = {name: [f"{value:.3g}" for value in table[name]] for name in ("error", "seconds")}
        print_text(as_text({"method": methods} | table))
        print_text(MEANING.format(error=errors[0], mean=auto.scores_["mean_error"]))
    print_text(f"\nWrote {pixels}, {new_pixels}, {file} ({file_size(file)})")
    print_text(f"Next: bagwise predict {file} {new_pixels} --target target")


VERBS = (demo,)
