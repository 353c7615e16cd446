"""Terminal output of all commands: results on stdout, messages, progress and one-line errors on stderr.

Control characters in names and ids are escaped, and so are characters that the output encoding lacks.
"""

from __future__ import annotations

import logging
import re
import shlex
import warnings
from ast import literal_eval
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from traceback import clear_frames

import numpy as np
import typer
from rich.console import Console
from rich.segment import Segment

from bagwise.cli.options import CELLS

# Replacements on ASCII terminals: one character each, so that tables stay aligned.
ASCII = str.maketrans("±²×–—", "~2x--")
INSTANCES_PER_STEP = 5_000  # of a progress bar
# Errors of the data or the command, shown as one message without a traceback.
EXPECTED = (ValueError, TypeError, ImportError, OSError)
# Options whose name is not that of the parameter; most are singular, as they are repeated for several values.
OPTIONS = {
    "label_column": "by",
    "features": "feature",
    "bag_features": "bag-feature",
    "fill_values": "fill-value",
    "fold": "fold-column",
}

# A parameter in Python form, with or without a value: its name, "=", and a number, a text or a list of them.
NAMES = (*OPTIONS, "array", "bag", "categories", "dates", "decimal", "folds", "groups", "ignore", "keep", "likelihood")
NAMES += ("missing", "target", "targets", "time", "unmatched", "weights")
VALUE = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:e[-+]?\d+)?"""
PARAMETER = re.compile(rf"\b({'|'.join(NAMES)})=(\[(?:{VALUE})(?:, (?:{VALUE}))*\]|{VALUE})?(?![\w(\[{{])")


class Terminal(Console):
    """Console that escapes control characters of names and ids, and replaces no ":a:" by an emoji."""

    def __init__(self, **options):
        super().__init__(emoji=False, **options)

    def render(self, renderable, options=None):
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(self._shown(segment.text), segment.style)

    def _shown(self, text: str) -> str:
        if not text.replace("\n", "").isprintable():
            from bagwise.io.table_output import without_controls

            text = without_controls(text)
        return text if self.encoding.startswith("utf") or text.isascii() else text.translate(ASCII)


def print_text(text: str, *, stderr: bool = False) -> None:
    """Print text without markup."""
    Terminal(stderr=stderr, highlight=False).print(text, markup=False, soft_wrap=True)


def as_options(text: str) -> str:
    """Return a message of the library with its parameters as options: ``missing='keep'`` becomes ``--missing keep``.

    Examples
    --------
    >>> as_options("bag= is needed; load with missing='drop-instances'")
    '--bag is needed; load with --missing drop-instances'
    >>> as_options("fill_values=[-9999, -999] makes it missing")
    '--fill-value -9999 --fill-value -999 makes it missing'
    >>> as_options("load with features=list(estimator.feature_names_in_)")
    'load with features=list(estimator.feature_names_in_)'
    """

    def option(parameter: re.Match) -> str:
        name = "--" + OPTIONS.get(parameter[1], parameter[1].replace("_", "-"))
        value = literal_eval(parameter[2] or "None")
        values = value if isinstance(value, list) else [value]
        return " ".join(name if value is None else f"{name} {shlex.quote(str(value))}" for value in values)

    return PARAMETER.sub(option, text)


def command_text(context: typer.Context) -> str:
    """Return the command line as typed, for the record of a run, without --resume."""
    typed = [*context.command_path.split(), *context.meta["typed"]]
    return shlex.join(part for part in typed if part != "--resume")


class Messages:
    """Writer of the messages and progress of a command to stderr; with ``quiet``, of errors only."""

    def __init__(self, verb: str, *, quiet: bool):
        self.verb, self.quiet, self.console = verb, quiet, Terminal(stderr=True, highlight=False)

    def show(self, text: str, style: str | None = None) -> None:
        if not self.quiet:
            self.console.print(as_options(text), style=style, markup=False, soft_wrap=True)

    def note(self, text: str) -> None:
        self.show("Note: " + text, style="yellow")

    def show_data(self, name: str, bags) -> None:
        """Show the size of a data set: "pixels: 120 bags of 13 to 99 instances"."""
        self.show(f"{name}: {str(bags).removeprefix('Bags: ')}.")

    def error(self, text: str) -> None:
        self.console.print(f"bagwise {self.verb}: {as_options(text)}", style="red", markup=False, soft_wrap=True)

    @property
    def is_live(self) -> bool:
        """Whether progress is shown: on a terminal, without --quiet."""
        return not self.quiet and self.console.is_terminal

    # The methods below return context managers that do nothing unless progress is shown.

    def evaluation_progress(self, metric: str):
        """Show the progress of an evaluation."""
        if not self.is_live:
            return nullcontext(False)
        from bagwise.evaluation.evaluation import Display

        return Display(console=self.console, metric=metric)

    def fit_progress(self, model, name: str):
        """Show the progress of a method, with its own display or a spinner."""
        shown = [key for key in model.get_params() if key == "progress" or key.endswith("__progress")]
        if shown and self.is_live:
            model.set_params(**dict.fromkeys(shown, True))
            return nullcontext()
        return self.spinner(f"fitting {name}")

    def pass_progress(self, activity: str):
        """Show the progress of passes over a table; the context manager yields a callback, or None."""
        if not self.is_live:
            return nullcontext()
        from bagwise.scale.passes import PassDisplay

        return PassDisplay(activity, console=self.console)

    def spinner(self, activity: str):
        """Show a spinner with the activity and the elapsed time."""
        if not self.is_live:
            return nullcontext()
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
        progress = Progress(*columns, console=self.console, transient=True)
        progress.add_task(activity, total=None)
        return progress

    def parts(self, bags, activity: str) -> Iterator:
        """Yield the bags in parts of about ``INSTANCES_PER_STEP`` instances, with a progress bar on a terminal."""
        if not self.is_live:
            yield bags
            return
        from rich.progress import track

        n_parts = min(len(bags), -(-bags.n_instances // INSTANCES_PER_STEP))
        parts = np.array_split(np.arange(len(bags)), n_parts)
        yield from (bags[part] for part in track(parts, activity, console=self.console, transient=True))


@contextmanager
def messages_of(verb: str, *, quiet: bool = False) -> Iterator[Messages]:
    """Show warnings and log records of bagwise within the context, and exit with one line on expected errors."""
    messages, shown = Messages(verb, quiet=quiet), set()
    handler, logger = logging.Handler(), logging.getLogger("bagwise")
    handler.emit = lambda record: messages.show(record.getMessage())
    level = logger.level

    def show(message, category, *_):
        # bagwise issues plain UserWarning, other libraries subclasses
        if category is UserWarning and str(message) not in shown:
            shown.add(str(message))
            messages.note(message.args[0])

    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        try:
            yield messages
        except EXPECTED as error:
            messages.error(str(error) or type(error).__name__)
            raise typer.Exit(1) from error
        except MemoryError as error:
            clear_frames(error.__traceback__)  # releases memory, which printing needs
            text = " ".join(str(error).split()).rstrip(".")
            if "not enough memory" not in text:  # errors raised by bagwise already say what to do
                text = f"there is not enough memory{text and f' ({text})'}; "
                text += "use fewer rows, columns or processes, or a larger machine"
            print_text(f"bagwise {verb}: {text}", stderr=True)
            raise typer.Exit(1) from None
        finally:
            logger.removeHandler(handler)
            logger.setLevel(level)


def file_size(path: Path) -> str:
    """Return the size of a file as text."""
    n_bytes = path.stat().st_size
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 1e6 else f"{n_bytes / 1e3:.0f} kB"


def exit_if_failed(messages: Messages, *runs, files: str = "results.csv") -> None:
    """Show the first error of failed cells and the files that list all errors, and exit with code 1."""
    failures = [(results, *failure) for results in runs for failure in results.failures]
    if not failures:
        return
    results, method, repeat, fold, error = failures[0]
    data = f"{results.record['data']['name']}, " if len(runs) > 1 else ""
    cells = sum(len(results.record["cells"]) for results in runs)
    messages.error(
        f"{len(failures)} of {cells} cells failed. The first is {data}{method}, repeat {repeat}, fold {fold}: {error}\n"
        f"All are in {files}; --retry-failed runs them again."
    )
    raise typer.Exit(1)


@contextmanager
def interruptible(messages: Messages, out: Path | None, *, noun: str = "cell") -> Iterator[None]:
    """Show how much finished work is stored after Ctrl-C, and exit with code 130."""
    try:
        yield
    except KeyboardInterrupt:
        if out is None:
            messages.error("Stopped. Nothing is stored. With --work DIR, finished fits are stored and reused.")
            raise typer.Exit(130) from None
        n = sum(1 for _ in out.rglob(CELLS))
        stored = f"{n} finished {noun} is" if n == 1 else f"{n} finished {noun}s are"
        if any(path.is_dir() for path in out.glob("cells/*")):  # a table larger than memory
            stored = "finished passes are"
        messages.error(f"Stopped; {stored} stored in {out}. The same command continues from there.")
        raise typer.Exit(130) from None
