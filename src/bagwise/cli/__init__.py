"""The command line. Each module has its commands in ``VERBS``; they import inside, so that --help is quick."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pkgutil import iter_modules
from typing import Annotated

import typer

from bagwise import __version__
from bagwise.cli.help import Command, Group

app = typer.Typer(name="bagwise", cls=Group, rich_markup_mode=None, pretty_exceptions_enable=False)
# The order in --help; other commands follow
ORDER = ("demo", "check", "fit", "predict", "importance", "evaluate", "learning_curve", "report", "reproduce")


modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
verbs = [verb for module in modules for verb in getattr(module, "VERBS", ())]
for verb in sorted(verbs, key=lambda verb: (*ORDER, verb.__name__).index(verb.__name__)):
    app.command(cls=Command)(verb)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback(no_args_is_help=True)
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Predict one number per bag of feature vectors (multiple instance regression)."""


def run() -> None:
    """Run the program; an output that cannot be written, such as on a full disk, is one line and not a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # of characters that the encoding lacks
    try:
        app()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the interpreter tries again when it ends
        print(f"bagwise: the output cannot be written ({error.strerror})", file=sys.stderr)
        sys.exit(1)


__all__ = ["app", "run"]
