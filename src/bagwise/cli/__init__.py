"""The command line: one small file per verb. Heavy imports happen inside the verbs, so that --help is quick."""

import os
import sys
from typing import Annotated

import typer

from bagwise import __version__
from bagwise.cli.data_files import arrays, check, datasets, raster
from bagwise.cli.evaluate import demo, evaluate, learning_curve, report
from bagwise.cli.fit import fit
from bagwise.cli.importance import importance
from bagwise.cli.methods import methods
from bagwise.cli.predict import predict
from bagwise.cli.reproduce import reproduce

app = typer.Typer(
    name="bagwise",
    help="Multiple instance regression: bags of feature vectors in, one number per bag out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for verb in (
    *(demo, check, fit, predict, importance, evaluate, learning_curve),
    *(report, reproduce, methods, datasets, raster, arrays),
):
    app.command()(verb)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Multiple instance regression: bags of feature vectors in, one number per bag out."""


def run() -> None:
    """The program. An output that cannot be written, a full disk for one, is one line and not a traceback."""
    from bagwise.cli.console import escape_unencodable

    escape_unencodable()
    try:
        app()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter tries again when it ends
        print(f"bagwise: the output cannot be written ({error.strerror})", file=sys.stderr)
        sys.exit(1)


__all__ = ["app", "run"]
