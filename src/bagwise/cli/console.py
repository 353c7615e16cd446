"""Terminal output of all commands: results on stdout, messages, progress and one-line errors on stderr.

Control characters of names and ids are escaped, and so are characters that an output cannot encode.
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

# Replacements where the output is ASCII, one character each, so that the width of a table stays.
ASCII = str.maketrans("±²×–—", "~2x--")
PART = 5_000  # instances between two steps of a progress bar
# Errors of the data or the command, shown as one message without a traceback.
EXPECTED = (ValueError, TypeError, ImportError, OSError)
# Parameter -> option, where the names differ: these options are given once per value.
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
        if not text.replace("\n", "").isprintable():  # imported here, because most commands print without it
            from bagwise.io.table_output import without_controls

            text = without_controls(text)
        return text if self.encoding.startswith("utf") or text.isascii() else text.translate(ASCII)


def escape_unencodable() -> None:
    """Make standard output and error write an escape for characters that they cannot encode."""
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


def command_text(context: typer.Context, *, but: tuple[str, ...] = ()) -> str:
    """Return the command as it was typed, to be recorded, without options that have their default."""
    parts = context.command_path.split()
    for parameter in context.command.params:
        if parameter.name in but or context.get_parameter_source(parameter.name).name != "COMMANDLINE":
            continue
        value = context.params[parameter.name]
        for item in value if isinstance(value, list | tuple) else [value]:
            if isinstance(item, bool):
                parts.append((parameter.opts if item else parameter.secondary_opts)[0])
            else:
                parts += [*([] if parameter.param_type_name == "argument" else parameter.opts[:1]), str(item)]
    return shlex.join(parts)


class Messages:
    """Messages and progress of a command on stderr; with ``quiet``, errors only."""

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
        """Return the display of an evaluation, as a context."""
        if not self.is_live:
            return nullcontext(False)
        from bagwise.evaluation.evaluation import Display

        return Display(console=self.console, metric=metric)

    def fit_progress(self, model, name: str):
        """Return the display of the method if it has one, else a spinner."""
        shown = [key for key in model.get_params() if key == "progress" or key.endswith("__progress")]
        if shown and self.is_live:
            model.set_params(**dict.fromkeys(shown, True))
            return nullcontext()
        return self.spinner(f"fitting {name}")

    def pass_progress(self, activity: str):
        """Return the display of passes over a table, as a context that returns a callback for steps."""
        if not self.is_live:
            return nullcontext()
        from bagwise.scale.passes import PassDisplay

        return PassDisplay(activity, console=self.console)

    def parts(self, bags, activity: str) -> Iterator:
        """Yield the bags in parts of some instances, with a progress bar; in one part if no progress is shown."""
        if not self.is_live:
            yield bags
            return
        from rich.progress import track

        cuts = sorted({bisect_left(bags.offsets, k * PART) for k in range(bags.n_instances // PART + 1)} | {len(bags)})
        slices = [slice(*pair) for pair in pairwise(cuts)]
        yield from (bags[part] for part in track(slices, activity, console=self.console, transient=True))

    def spinner(self, activity: str):
        """Return a spinner with the activity and its seconds, as a context."""
        if not self.is_live:
            return nullcontext()
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
        progress = Progress(*columns, console=self.console, transient=True)
        progress.add_task(activity, total=None)
        return progress


@contextmanager
def logged_to(messages: Messages) -> Iterator[None]:
    """Show what the library logs under the name ``bagwise`` as messages inside."""
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
    """Show our warnings as messages inside; an expected error becomes one line and exit code 1."""
    messages, shown = Messages(verb, quiet=quiet), set()

    def show(message, category, *_):
        if category is UserWarning and str(message) not in shown:  # ours; libraries use classes of their own
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
            if "not enough memory" not in text:  # ours have advice of their own
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
    """Show the first failed cell of the `Results` and the files that list all, and exit with code 1."""
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
    """Turn Ctrl-C into exit code 130 and one line on the finished work that is stored."""
    try:
        yield
    except KeyboardInterrupt:
        if out is None:
            messages.error("stopped, and nothing is stored; with --work DIR, finished fits are")
            raise typer.Exit(130) from None
        n = sum(1 for _ in out.rglob(CELLS))
        stored = f"{n} finished {noun} is" if n == 1 else f"{n} finished {noun}s are"
        if any(path.is_dir() for path in out.glob("cells/*")):  # a table read chunk by chunk
            stored = "finished passes are"
        messages.error(f"stopped; {stored} kept in {out}, and the same command continues from there")
        raise typer.Exit(130) from None
