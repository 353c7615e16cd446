"""Terminal output of all commands: results on stdout, messages, progress and one-line errors on stderr.

Control characters in names and ids are escaped, and so are characters that the output encoding lacks.
"""

from __future__ import annotations

import logging
import shlex
import sys
import warnings
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from pathlib import Path
from traceback import clear_frames

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


class Terminal(Console):
    """Console that escapes control characters of names and ids, and prints ":a:" unchanged."""

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


def escape_unencodable() -> None:
    """Set standard output and error to escape characters that they cannot encode."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def print_text(text: str, *, stderr: bool = False) -> None:
    """Print text without markup."""
    Terminal(stderr=stderr, highlight=False).print(text, markup=False, soft_wrap=True)


def as_options(text: str) -> str:
    """Return a message of the library with its parameters as options: ``missing='keep'`` becomes ``--missing keep``.

    Examples
    --------
    >>> from bagwise.bags.validation import Message, Parameter
    >>> as_options(Message(Parameter("bag"), " is needed; load with ", Parameter("missing", "drop-instances")))
    '--bag is needed; load with --missing drop-instances'
    >>> as_options(Message(Parameter("fill_values", [-9999, -999]), " makes it missing"))
    '--fill-value -9999 --fill-value -999 makes it missing'
    >>> print(as_options(Message(Parameter("categories", ["Land cover"]), " uses it as a category")))
    --categories 'Land cover' uses it as a category
    """

    def option(parameter) -> str:
        name = "--" + OPTIONS.get(parameter.name, parameter.name.replace("_", "-"))
        values = parameter.value if isinstance(parameter.value, list) else [parameter.value]
        return " ".join(name if value is None else f"{name} {shlex.quote(str(value))}" for value in values)

    return "".join(part if isinstance(part, str) else option(part) for part in getattr(text, "parts", [text]))


def command_text(context: typer.Context, *, exclude: tuple[str, ...] = ()) -> str:
    """Return the command line, for the record of a run, with only the options that the user typed."""
    parts = context.command_path.split()
    for parameter in context.command.params:
        if parameter.name in exclude or context.get_parameter_source(parameter.name).name != "COMMANDLINE":
            continue
        value = context.params[parameter.name]
        for item in value if isinstance(value, list | tuple) else [value]:
            if isinstance(item, bool):
                parts.append((parameter.opts if item else parameter.secondary_opts)[0])
            else:
                parts += [*([] if parameter.param_type_name == "argument" else parameter.opts[:1]), str(item)]
    return shlex.join(parts)


class Messages:
    """Writer of the messages and progress of a command to stderr; with ``quiet``, of errors only."""

    def __init__(self, verb: str, *, quiet: bool):
        self.verb, self.quiet, self.console = verb, quiet, Terminal(stderr=True, highlight=False)

    def show(self, text: str, style: str | None = None) -> None:
        if not self.quiet:
            self.console.print(as_options(text), style=style, markup=False, soft_wrap=True)

    def show_data(self, name: str, bags) -> None:
        """Show the size of a data set: "pixels: 120 bags of 13 to 99 instances"."""
        self.show(f"{name}: {str(bags).removeprefix('Bags: ')}.")

    def error(self, text: str) -> None:
        self.console.print(f"bagwise {self.verb}: {as_options(text)}", style="red", markup=False, soft_wrap=True)

    @property
    def is_live(self) -> bool:
        """Whether progress is shown: on a terminal, without --quiet."""
        return not self.quiet and self.console.is_terminal

    def evaluation_progress(self, metric: str):
        """Return the progress display of an evaluation, as a context manager."""
        if not self.is_live:
            return nullcontext(False)
        from bagwise.evaluation.evaluation import Display

        return Display(console=self.console, metric=metric)

    def fit_progress(self, model, name: str):
        """Return a context manager that shows the progress of the method, with its own display or a spinner."""
        shown = [key for key in model.get_params() if key == "progress" or key.endswith("__progress")]
        if shown and self.is_live:
            model.set_params(**dict.fromkeys(shown, True))
            return nullcontext()
        return self.spinner(f"fitting {name}")

    def pass_progress(self, activity: str):
        """Return the progress display of passes over a table, a context manager that returns a callback."""
        if not self.is_live:
            return nullcontext()
        from bagwise.scale.passes import PassDisplay

        return PassDisplay(activity, console=self.console)

    def parts(self, bags, activity: str) -> Iterator:
        """Yield the bags in parts of about ``INSTANCES_PER_STEP`` instances, with a progress bar on a terminal."""
        if not self.is_live:
            yield bags
            return
        from rich.progress import track

        cuts = sorted(
            {
                bisect_left(bags.offsets, k * INSTANCES_PER_STEP)
                for k in range(bags.n_instances // INSTANCES_PER_STEP + 1)
            }
            | {len(bags)}
        )
        slices = [slice(*pair) for pair in pairwise(cuts)]
        yield from (bags[part] for part in track(slices, activity, console=self.console, transient=True))

    def spinner(self, activity: str):
        """Return a spinner with the activity and the elapsed time, as a context manager."""
        if not self.is_live:
            return nullcontext()
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
        progress = Progress(*columns, console=self.console, transient=True)
        progress.add_task(activity, total=None)
        return progress


@contextmanager
def logged_to(messages: Messages) -> Iterator[None]:
    """Show log records of the logger ``bagwise`` as messages within the context."""
    handler, logger = logging.Handler(), logging.getLogger("bagwise")
    handler.emit = lambda record: messages.show(record.getMessage())  # type: ignore[method-assign]
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


@contextmanager
def messages_of(verb: str, *, quiet: bool = False) -> Iterator[Messages]:
    """Show warnings of bagwise as messages within the context, and exit with code 1 and one line on expected errors."""
    messages, shown = Messages(verb, quiet=quiet), set()

    def show(message, category, *_):
        if (
            category is UserWarning and str(message) not in shown
        ):  # bagwise issues plain UserWarning, other libraries subclasses
            shown.add(str(message))
            messages.show("Note: " + message.args[0], style="yellow")

    with logged_to(messages), warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        try:
            yield messages
        except EXPECTED as error:
            # The message of an error with a parameter is its last argument.
            messages.error(error.args[-1] if hasattr(error, "parameter") else str(error) or type(error).__name__)
            raise typer.Exit(1) from error
        except MemoryError as error:
            clear_frames(error.__traceback__)  # releases memory, which printing needs
            text = " ".join(str(error).split()).rstrip(".")
            if "not enough memory" not in text:  # errors raised by bagwise already say what to do
                text = f"there is not enough memory{text and f' ({text})'}; "
                text += "use fewer rows, columns or processes, or a larger machine"
            print_text(f"bagwise {verb}: {text}", stderr=True)
            raise typer.Exit(1) from None


def file_size(path: Path) -> str:
    """Return the size of a file as text."""
    n_bytes = path.stat().st_size
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 1e6 else f"{n_bytes / 1e3:.0f} kB"


# Interrupted and failed runs --------------------------------------------------------------------------------------


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
