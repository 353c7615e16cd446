"""How a verb speaks: messages and progress on stderr, one line for an error, nothing but results on stdout."""

from __future__ import annotations

import warnings
from contextlib import contextmanager, nullcontext

import typer

# What is wrong with the data or the request: one message, no traceback.
EXPECTED = (ValueError, TypeError, ImportError, OSError)


class Voice:
    """Says things on stderr, unless it is to be quiet."""

    def __init__(self, verb: str, *, quiet: bool):
        from rich.console import Console

        self.verb, self.quiet, self.console = verb, quiet, Console(stderr=True)

    def say(self, text: str, style: str | None = None) -> None:
        if not self.quiet:
            self.console.print(text, style=style, markup=False, highlight=False)

    def complain(self, text: str) -> None:
        self.console.print(f"bagwise {self.verb}: {text}", style="red", markup=False, highlight=False)

    def progress(self, metric: str):
        """A live display, when there is a terminal to show it on."""
        if self.quiet or not self.console.is_terminal:
            return nullcontext(False)
        from bagwise.protocol.progress import Display

        return Display(console=self.console, metric=metric)


@contextmanager
def speaking(verb: str, *, quiet: bool):
    """A voice; inside, warnings become messages and expected errors end the program with one line and exit code 1."""
    voice = Voice(verb, quiet=quiet)

    def show(message, category, *_):
        if category is UserWarning:  # ours; libraries warn by classes of their own
            voice.say(f"Note: {message}", style="yellow")

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        try:
            yield voice
        except EXPECTED as error:
            voice.complain(str(error))
            raise typer.Exit(1) from error
