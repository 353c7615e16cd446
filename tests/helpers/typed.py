"""The evaluation commands as an app for tests."""

import typer

from bagwise.cli.evaluate import evaluate, learning_curve
from bagwise.cli.reproduce import reproduce

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(evaluate)
app.command()(learning_curve)
app.command()(reproduce)
