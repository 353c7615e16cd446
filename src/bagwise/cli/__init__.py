"""The command line: one small file per verb. Heavy imports happen inside the verbs, so that --help is quick."""

import typer

from bagwise.cli.demo import demo
from bagwise.cli.methods import methods

app = typer.Typer(
    name="bagwise",
    help="Multiple instance regression: bags of feature vectors in, one number per bag out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.command()(methods)


@app.callback()
def main() -> None:
    """Multiple instance regression: bags of feature vectors in, one number per bag out."""


__all__ = ["app"]
