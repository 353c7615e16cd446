"""`bagwise check`: look at a table before anything is learned from it."""

from __future__ import annotations

import json
from dataclasses import replace

import typer

from bagwise.cli import options as o

STYLES = {"error": "bold red", "warning": "yellow", "note": None}


def check(
    context: typer.Context,
    table: o.Tables,
    bag: o.Bag = None,
    target: o.Target = None,
    groups: o.Groups = None,
    feature: o.Features = None,
    ignore: o.Ignore = None,
    missing: o.Missing = "refuse",
    fill_value: o.FillValues = None,
    weights: o.Weights = None,
    bag_feature: o.BagFeatures = None,
    decimal: o.Decimal = None,
    categories: o.Categories = None,
    dates: o.Dates = None,
    targets: o.Targets = None,
    as_json: o.Json = False,
) -> None:
    """Describe a table, what would be done with it, and what looks wrong; exit code 1 if it would be refused.

    Example: bagwise check pixels.csv --bag site --target aod
    """
    import bagwise as bw
    from bagwise.cli.console import Terminal, as_options, messages_of

    with messages_of("check"):
        found = bw.check_table(o.sources(table), **o.columns(context))
    found.findings = [replace(finding, text=as_options(finding.text)) for finding in found.findings]
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=1))
    else:
        console = Terminal(highlight=False, soft_wrap=True)
        for line in describe(found):
            console.print(line, markup=False)
        for finding in found.findings:
            console.print(f"{finding.level}: {finding.text}", style=STYLES[finding.level], markup=False)
        console.print(f"This table would be {'taken as it is' if found.ok else 'refused'}.", style="bold")
    raise typer.Exit(0 if found.ok else 1)


def describe(found) -> list[str]:
    """What a table holds, a line each for rows, features, covariates, target, groups and other columns."""
    if not found.rows:
        return []
    low, median, high = found.sizes
    lines = [f"{found.rows:,} rows make {found.bags:,} bags of {low:,} to {high:,} instances (median {median:g})."]
    if found.features:
        missing = sum(feature["missing"] for feature in found.features)
        names = ", ".join(feature["name"] for feature in found.features[:8])
        more = f", ... ({len(found.features)} in all)" if len(found.features) > 8 else ""
        lines.append(f"Features: {names}{more}; {missing:,} missing values.")
    if found.bag_features:
        lines.append(f"Properties of the bag: {', '.join(found.bag_features)}.")
    for target in [found.target, *found.further_targets] if found.target else []:
        lines.append("Target: {name}, {minimum:g} to {maximum:g}, median {median:g}.".format(**target))
    if found.groups is not None:
        lines.append(f"Groups: {found.groups:,}.")
    if found.left_out:
        lines.append("Left out: " + ", ".join(f"{name} ({why})" for name, why in found.left_out.items()) + ".")
    return lines
