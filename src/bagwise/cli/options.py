"""Options that several verbs share, each with its help in one place."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Tables = Annotated[
    list[str],
    typer.Argument(
        help="A long table, a row per instance: .csv .tsv .parquet .feather .mat .npz; several, or a 'part-*.csv'."
    ),
]
Bag = Annotated[str | None, typer.Option(help="Column of bag ids. Example: --bag site")]
Target = Annotated[str | None, typer.Option(help="Column of targets. Example: --target aod")]
Groups = Annotated[str | None, typer.Option(help="Column of what bags share. Example: --groups patient")]
Features = Annotated[
    list[str] | None,
    typer.Option("--feature", help="Column to learn from; default every numeric one. Example: --feature red"),
]
Ignore = Annotated[list[str] | None, typer.Option(help="Column that is no feature. Example: --ignore year")]
Missing = Annotated[str, typer.Option(help="Rows with missing values: refuse, drop-instances or keep.")]
Weights = Annotated[str | None, typer.Option(help="Column of instance weights. Example: --weights area")]
BagFeatures = Annotated[
    list[str] | None,
    typer.Option(
        "--bag-feature", help="Column that describes the bag, not the instance; or auto. Example: --bag-feature sza"
    ),
]
Jobs = Annotated[int, typer.Option(help="Cores to use; -1 for all. Example: --n-jobs 2")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same answer. Example: --seed 0")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress and no messages; errors only.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def columns(**named) -> dict:
    """The options that were given, by the names `bagwise.load` has for them."""
    if named.get("bag_features") == ["auto"]:
        named["bag_features"] = "auto"
    return {name: value for name, value in named.items() if value is not None}


def sources(tables: list[str]) -> list[str] | str:
    return tables[0] if len(tables) == 1 else list(tables)


def places(tables: list[str]) -> list[str]:
    """Where the files are, to be written down."""
    from bagwise.bags.several import find_files

    return [str(path.resolve()) for path in find_files(tables)]


def stem(tables: list[str]) -> str:
    """What a data set is called: the name of its file."""
    return Path(tables[0]).name.split(".")[0].rstrip("*-_?") or "table"
