"""The command line: one small file per verb. Heavy imports happen inside the verbs, so that --help is quick."""

import typer

from bagwise.cli.check import check
from bagwise.cli.datasets import datasets
from bagwise.cli.demo import demo
from bagwise.cli.evaluate import evaluate
from bagwise.cli.fit import fit
from bagwise.cli.methods import methods
from bagwise.cli.predict import predict
from bagwise.cli.report import report
from bagwise.cli.reproduce import reproduce

app = typer.Typer(
    name="bagwise",
    help="Multiple instance regression: bags of feature vectors in, one number per bag out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for verb in (demo, check, fit, predict, evaluate, report, reproduce, methods, datasets):
    app.command()(verb)


@app.callback()
def main() -> None:
    """Multiple instance regression: bags of feature vectors in, one number per bag out."""


__all__ = ["app"]
