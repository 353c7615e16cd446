"""`bagwise importance`: measure how much the error increases if a column is permuted across bags."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from bagwise.cli import options as o
from bagwise.metrics import POINT_METRICS


@o.reading_a_table(options={name: o.LIKE_TRAINING[name] for name in ("bag", "targets", "decimal")})
def importance(
    context: typer.Context,
    model: o.ModelFile,
    table: o.Tables,
    target: Annotated[o.Text, o.option("Column of targets. Default: that of fit.")] = None,
    group: Annotated[o.Texts, o.option("Columns that are permuted together. Example: --group angles=sza,vza")] = None,
    part: Annotated[o.Texts, o.option("What to permute: whole, mean or spread. Default: each.")] = None,
    metric: Annotated[Literal[*POINT_METRICS], o.metric_option("The error metric", POINT_METRICS)] = "rmse",
    repeats: Annotated[int, o.option("Number of permutations of each column.", min=1)] = 5,
    out: Annotated[Path | None, o.option("The table as .csv or .parquet. Example: --out importance.csv")] = None,
    groups: Annotated[o.Text, o.option("Column of groups. Default: that of fit.")] = None,
    n_jobs: o.Jobs = None,
    seed: o.Seed = 0,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Measure how much the error increases if a column is permuted across bags.

    Pass new bags or, if the model has intervals (the default of `bagwise fit`), the training table. Each training bag
    is then predicted by a model that was fitted without it.

    Example: bagwise importance aod.bagwise pixels.csv --group angles=sza,vza
    """
    import bagwise as bw
    from bagwise.cli.console import messages_of, print_text
    from bagwise.io.table_output import to_rows, write_table
    from bagwise.model_files.training_columns import columns_at_fit, load_like_training

    with messages_of("importance", quiet=quiet) as messages:
        o.refuse_outputs(out, inputs=[model, *o.files(table)], endings=(".csv", ".parquet"))
        fitted, header = bw.load_model(model), bw.model_files.read_header(model)
        columns = columns_at_fit(header, table, more=("target", "groups")) | o.columns(context)
        if hasattr(fitted, "target_names_"):
            if columns["target"] not in fitted.target_names_:
                names = ", ".join(fitted.target_names_)
                raise ValueError(f"The model has the targets {names}. Select one with --target.")
            fitted = fitted.estimators_[fitted.target_names_.index(columns["target"])]
        bags, y = load_like_training(header, table, columns, columns.pop("targets", None))
        o.refuse_no_target(y)
        messages.show_data(o.stem(table), bags)
        options = {"metric": metric, "repeats": repeats, "random_state": seed, "n_jobs": n_jobs}
        options |= {"parts": list(part)} if part else {}
        options |= {"progress": None if messages.is_live else False}
        measured = bw.importance(fitted, bags, y, groups=groups_of(group), **options)
        if not measured.held_out:
            messages.show("The model has no fold models for these bags, so the final model predicts them.")
        if out is not None:
            write_table(out, measured.as_dict())
            messages.show(f"Wrote {out}")
    if as_json:
        summary = {"metric": measured.metric, "baseline": measured.baseline, "held_out": measured.held_out}
        typer.echo(json.dumps(summary | {"importance": to_rows(measured.as_dict())}, indent=1))
    elif out is None:
        print_text(measured.summary())


def groups_of(texts: o.Texts) -> dict[str, list[str]] | None:
    """Parse groups of columns such as angles=sza,vza."""
    groups = {}
    for text in texts or []:
        name, sign, columns = text.partition("=")
        if not sign or not name or not columns:
            raise ValueError(f"--group {text} cannot be parsed. Write a name and its columns, as in angles=sza,vza.")
        groups[name] = [column.strip() for column in columns.split(",")]
    return groups or None


VERBS = (importance,)
