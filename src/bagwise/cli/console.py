"""What the verbs share: messages and progress on stderr, results on stdout, one line for an error, the exit code.

Text is shown, never obeyed: control characters of names and ids are escaped, and so is what an output cannot encode.
"""

from __future__ import annotations

import shlex
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from traceback import clear_frames

import typer
from rich.console import Console
from rich.segment import Segment

from bagwise.cli.options import CELLS

# Signs of our own where the output knows only ASCII, one for one: a table keeps the width that was measured.
ASCII = str.maketrans("±²×–—", "~2x--")
# What is wrong with the data or the request: one message, no traceback.
EXPECTED = (ValueError, TypeError, ImportError, OSError)
# Options that are not called as the parameter: they are given once for every value.
OPTIONS = {"label_column": "by", "features": "feature", "bag_features": "bag-feature", "fill_values": "fill-value"}


class Terminal(Console):
    """A console that shows control characters of names and ids instead of sending them, and ":a:" as it stands."""

    def __init__(self, **options):
        super().__init__(emoji=False, **options)

    def render(self, renderable, options=None):
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(self._shown(segment.text), segment.style)

    def _shown(self, text: str) -> str:
        if not text.replace("\n", "").isprintable():  # rarely: most commands print without the imports of io
            from bagwise.io.table_output import without_controls

            text = without_controls(text)
        return text if self.encoding.startswith("utf") or text.isascii() else text.translate(ASCII)


def escape_unencodable() -> None:
    """From now on standard output and error write an escape for what they cannot encode."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def result_console() -> Terminal:
    """Where results are printed. A pipe or a file has no width: there nothing is folded or cut."""
    console = Terminal()
    return console if console.is_terminal else Terminal(width=10_000)


def print_text(text: str, *, stderr: bool = False) -> None:
    """Print a result that is text, as it is."""
    Terminal(stderr=stderr, highlight=False).print(text, markup=False, soft_wrap=True)


def as_options(text: str) -> str:
    """A message of the library with its parameters as options: ``missing='keep'`` is ``--missing keep`` here.

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
    """The command as it was typed, to be recorded: every argument and option that was given, and no default."""
    parts = context.command_path.split()
    for parameter in context.command.params:
        if parameter.name in but or context.get_parameter_source(parameter.name).name != "COMMANDLINE":
            continue
        value = context.params[parameter.name]
        for one in value if isinstance(value, list | tuple) else [value]:
            if isinstance(one, bool):
                parts.append((parameter.opts if one else parameter.secondary_opts)[0])
            else:
                parts += [*([] if parameter.param_type_name == "argument" else parameter.opts[:1]), str(one)]
    return shlex.join(parts)


class Messages:
    """Messages and progress of a verb, on stderr; ``quiet`` leaves errors only."""

    def __init__(self, verb: str, *, quiet: bool):
        self.verb, self.quiet, self.console = verb, quiet, Terminal(stderr=True, highlight=False)

    def show(self, text: str, style: str | None = None) -> None:
        if not self.quiet:
            self.console.print(as_options(text), style=style, markup=False, soft_wrap=True)

    def error(self, text: str) -> None:
        self.console.print(f"bagwise {self.verb}: {as_options(text)}", style="red", markup=False, soft_wrap=True)

    @property
    def is_live(self) -> bool:
        """Whether progress is shown: there is a terminal, and nobody asked for quiet."""
        return not self.quiet and self.console.is_terminal

    def evaluation_progress(self, metric: str):
        """The display of an evaluation, as a context."""
        if not self.is_live:
            return nullcontext(False)
        from bagwise.evaluation.evaluation import Display

        return Display(console=self.console, metric=metric)

    def fit_progress(self, model, name: str):
        """The method's own display if it has one, else a spinner."""
        shown = [key for key in model.get_params() if key == "progress" or key.endswith("__progress")]
        if shown and self.is_live:
            model.set_params(**dict.fromkeys(shown, True))
            return nullcontext()
        return self.spinner(f"fitting {name}")

    def pass_progress(self, activity: str):
        """What is being done, and how far a pass over a table is, as a context; it gives what is told the steps."""
        if not self.is_live:
            return nullcontext()
        from bagwise.out_of_core.passes import PassDisplay

        return PassDisplay(activity, console=self.console)

    def spinner(self, activity: str):
        """What is being done and for how long, as a context."""
        if not self.is_live:
            return nullcontext()
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
        progress = Progress(*columns, console=self.console, transient=True)
        progress.add_task(activity, total=None)
        return progress


@contextmanager
def messages_of(verb: str, *, quiet: bool = False) -> Iterator[Messages]:
    """The messages of a verb. Inside, our warnings are messages; an expected error is one line and exit code 1."""
    messages, shown = Messages(verb, quiet=quiet), set()

    def show(message, category, *_):
        if category is UserWarning and str(message) not in shown:  # ours; libraries warn by classes of their own
            shown.add(str(message))
            messages.show("Note: " + message.args[0], style="yellow")

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        try:
            yield messages
        except EXPECTED as error:
            # The last argument of an error that carries a parameter is its message.
            messages.error(error.args[-1] if hasattr(error, "parameter") else str(error) or type(error).__name__)
            raise typer.Exit(1) from error
        except MemoryError as error:
            clear_frames(error.__traceback__)  # releases what filled the memory: printing takes some too
            what = " ".join(str(error).split()).rstrip(".")
            if "not enough memory" not in what:  # ours give advice of their own
                what = f"there is not enough memory{what and f' ({what})'}; "
                what += "use fewer rows, columns or processes, or a larger machine"
            print_text(f"bagwise {verb}: {what}", stderr=True)
            raise typer.Exit(1) from None


# Runs that are kept cell by cell --------------------------------------------------------------------------------------


def exit_if_failed(messages: Messages, *runs, files: str = "results.csv") -> None:
    """Name the first failed cell of some `Results` and the files that list all; the exit code is then 1."""
    failures = [(results, *one) for results in runs for one in results.failures]
    if not failures:
        return
    results, method, repeat, fold, error = failures[0]
    data = f"{results.record['data']['name']}, " if len(runs) > 1 else ""
    cells = sum(len(one.record["cells"]) for one in runs)
    messages.error(
        f"{len(failures)} of {cells} cells failed. The first is {data}{method}, repeat {repeat}, fold {fold}: {error}\n"
        f"All are in {files}; --retry-failed runs them again."
    )
    raise typer.Exit(1)


@contextmanager
def interruptible(messages: Messages, out: Path | None, *, noun: str = "cell") -> Iterator[None]:
    """Inside, Ctrl-C ends the program with exit code 130 and one line on what is kept."""
    try:
        yield
    except KeyboardInterrupt:
        if out is None:
            messages.error("stopped; nothing is kept: --work keeps finished fits")
            raise typer.Exit(130) from None
        n = sum(1 for _ in out.rglob(CELLS))
        kept = f"{n} finished {noun} is" if n == 1 else f"{n} finished {noun}s are"
        if (out / "fit.json").exists():  # of a table that is read chunk by chunk
            kept = "what the passes have found is"
        messages.error(f"stopped; {kept} kept in {out}, and the same command goes on from there")
        raise typer.Exit(130) from None
