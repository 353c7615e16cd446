"""Reading a table to learn from, and saying what looks wrong with it."""

from __future__ import annotations

import warnings

from bagwise.cli import options as o


def load(tables: list[str], columns: dict, voice):
    """Bags and targets. Doubts that `bagwise check` would have are voiced on the way, from one reading of the files."""
    import bagwise as bw
    from bagwise.bags.files import read_table

    named = {name: value for name, value in columns.items() if name not in ("missing", "fill_values")}
    frame = read_table(o.sources(tables), **named)
    source = o.sources(tables) if frame is None else frame
    # what a frame is warned of stands among the doubts below
    with warnings.catch_warnings(action=None if frame is None else "ignore", category=UserWarning):
        bags, y = bw.load(source, **columns)
    if y is None:
        raise ValueError("there is no target to learn: name its column with --target")
    voice.say(f"{o.stem(tables)}: {bags}.")
    if frame is not None and not voice.quiet:
        _doubt(bw.inspect_table(frame, **columns), voice)
    return bags, y


def _doubt(found, voice) -> None:
    for finding in found.findings:
        if finding.level == "warning" or "not numeric" in finding.text:
            voice.say(f"Note: {finding.text}", style="yellow")
