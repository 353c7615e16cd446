"""A run that goes on where it stopped: `--resume`, and the word on what is kept when one is stopped.

What is printed, made fit for where it goes: no sign that a terminal would obey, none that it cannot show.

How a verb speaks: messages and progress on stderr, one line for an error, nothing but results on stdout.

How a verb that runs cells ends: what failed is told, and the exit code says that something did.
"""

from __future__ import annotations

import shlex
import sys
import unicodedata
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from traceback import clear_frames
from typing import Annotated

import typer
from rich.console import Console
from rich.segment import Segment

# Signs of our own, where the output knows only ASCII; one for one, or a table would not be as wide as it was measured.
# All others, which come from data, are written as escapes there.
ASCII = str.maketrans("±²×–—", "~2x--")


class Terminal(Console):
    """A console that shows control characters of names and ids instead of sending them."""

    def render(self, renderable, options=None):
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(self._shown(segment.text), segment.style)

    def _shown(self, text: str) -> str:
        text = without_controls(text)
        return text if self.encoding.startswith("utf") or text.isascii() else text.translate(ASCII)


def without_controls(text: str) -> str:
    r"""The text, with an escape for every sign that steers a terminal or cannot be seen; line breaks and tabs stay.

    Examples
    --------
    >>> print(without_controls("a\x1b[31mb\u202ec"))
    a\x1b[31mb\u202ec
    """
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(sign: str) -> str:
    if sign in "\n\t" or unicodedata.category(sign) not in ("Cc", "Cf", "Cs", "Zl", "Zp"):
        return sign
    return sign.encode("ascii", "backslashreplace").decode() if ord(sign) > 127 else f"\\x{ord(sign):02x}"


def forgive_encoding() -> None:
    """From now on what standard output and error cannot encode is written as an escape, not refused."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


# What is wrong with the data or the request: one message, no traceback.
EXPECTED = (ValueError, TypeError, ImportError, OSError)


# Options that are not called as the parameter: they are given once for every value.
OPTIONS = {"features": "feature", "bag_features": "bag-feature", "fill_values": "fill-value"}


class Voice:
    """Says things on stderr, unless it is to be quiet."""

    def __init__(self, verb: str, *, quiet: bool):

        self.verb, self.quiet, self.console = verb, quiet, Terminal(stderr=True, highlight=False)

    def say(self, text: str, style: str | None = None) -> None:
        if not self.quiet:
            self.console.print(as_options(text), style=style, markup=False, soft_wrap=True)

    def complain(self, text: str) -> None:
        self.console.print(f"bagwise {self.verb}: {as_options(text)}", style="red", markup=False, soft_wrap=True)

    def progress(self, metric: str):
        """A live display, when there is a terminal to show it on."""
        if self.quiet or not self.console.is_terminal:
            return nullcontext(False)
        from bagwise.evaluation.progress import Display

        return Display(console=self.console, metric=metric)

    def fitting(self, model, name: str):
        """The method's own display if it has one, else a sign of life."""
        shown = [key for key in model.get_params() if key == "progress" or key.endswith("__progress")]
        if shown and not self.quiet and self.console.is_terminal:
            model.set_params(**dict.fromkeys(shown, True))
            return nullcontext()
        return self.waiting(f"fitting {name}")

    def waiting(self, what: str):
        """A sign of life with the time that passed, when there is a terminal to show it on."""
        if self.quiet or not self.console.is_terminal:
            return nullcontext()
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        progress = Progress(
            SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=self.console, transient=True
        )
        progress.add_task(what, total=None)
        return progress


def stdout():
    """Where results are printed. A pipe or a file has no width: there nothing is folded or cut."""

    console = Terminal()
    return console if console.is_terminal else Terminal(width=10_000)


def tell(text: str, *, err: bool = False) -> None:
    """A result in words, as it stands."""

    Terminal(stderr=err, highlight=False).print(text, markup=False, soft_wrap=True)


def as_options(text: str) -> str:
    """A message of the library with its parameters as options: ``missing='keep'`` is ``--missing keep`` here.

    Examples
    --------
    >>> from bagwise.bags.validation import Message, Parameter
    >>> as_options(Message(Parameter("bag"), " is needed; load with ", Parameter("missing", "drop-instances")))
    '--bag is needed; load with --missing drop-instances'
    >>> as_options(Message(Parameter("fill_values", [-9999, -999]), " makes it missing"))
    '--fill-value -9999 --fill-value -999 makes it missing'
    """
    return "".join(part if isinstance(part, str) else _option(part) for part in getattr(text, "parts", [text]))


def _option(parameter) -> str:
    name = "--" + OPTIONS.get(parameter.name, parameter.name.replace("_", "-"))
    values = parameter.value if isinstance(parameter.value, list) else [parameter.value]
    return " ".join(name if value is None else f"{name} {value}" for value in values)


def as_typed(context: typer.Context, *, but: tuple[str, ...] = ()) -> str:
    """The command that was typed, to be written down: every argument and option that was given, and no default."""
    words = context.command_path.split()
    for parameter in context.command.params:
        if parameter.name in but or context.get_parameter_source(parameter.name).name != "COMMANDLINE":
            continue
        value = context.params[parameter.name]
        for one in value if isinstance(value, list | tuple) else [value]:
            words += _words(parameter, one)
    return shlex.join(words)


def _words(parameter, value) -> list[str]:
    if parameter.param_type_name == "argument":
        return [str(value)]
    if isinstance(value, bool):
        return [(parameter.opts if value else parameter.secondary_opts)[0]]
    return [parameter.opts[0], str(value)]


@contextmanager
def speaking(verb: str, *, quiet: bool):
    """A voice; inside, warnings become messages and expected errors end the program with one line and exit code 1."""
    voice, said = Voice(verb, quiet=quiet), set()

    def show(message, category, *_):
        if category is UserWarning and str(message) not in said:  # ours; libraries warn by classes of their own
            said.add(str(message))
            voice.say("Note: " + message.args[0], style="yellow")

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        try:
            yield voice
        except EXPECTED as error:
            # the last argument of an error that carries a parameter is its message
            voice.complain(error.args[-1] if hasattr(error, "parameter") else str(error))
            raise typer.Exit(1) from error
        except MemoryError as error:
            clear_frames(error.__traceback__)  # lets go of what filled the memory: speaking takes some too
            tell(f"bagwise {verb}: {_short_of_memory(error)}", err=True)
            raise typer.Exit(1) from None


def _short_of_memory(error: MemoryError) -> str:
    what = " ".join(str(error).split()).rstrip(".")
    if "not enough memory" in what:  # one of ours, which says what to do
        return what
    return (
        f"there is not enough memory{what and f' ({what})'}; use fewer rows, columns or processes, or a larger machine"
    )


def tell_failures(voice, *runs, files: str = "results.csv") -> None:
    """Name the first failed cell of some `Results` and where all are to be found; then the exit code is 1."""
    failures = [(results, *one) for results in runs for one in results.failures]
    if not failures:
        return
    results, method, repeat, fold, error = failures[0]
    data = f"{results.record['data']['name']}, " if len(runs) > 1 else ""
    cells = sum(len(one.record["cells"]) for one in runs)
    voice.complain(
        f"{len(failures)} of {cells} cells failed. The first is {data}{method}, repeat {repeat}, fold {fold}: {error}\n"
        f"All are in {files}; --retry-failed runs them again."
    )
    raise typer.Exit(1)


Resume = Annotated[
    bool,
    typer.Option("--resume", help="Refuse if nothing was begun in --out; the same command goes on without it, too."),
]


def refuse_unbegun(out: Path) -> None:
    """Refuse a folder in which there is nothing to go on with."""
    if not finished(out) and not _files(out, "plan.json"):
        raise ValueError(f"nothing was begun in {out} that --resume could go on with; leave it out to begin there")


def finished(out: Path) -> int:
    """How many cells are kept, in the folder or, where it holds several data sets, in the folders inside."""
    return len(_files(out, "cells/[!.]*.json"))


def _files(out: Path, pattern: str) -> list[Path]:
    return [path for one in (pattern, f"*/{pattern}") for path in out.glob(one)]


@contextmanager
def stoppable(voice, out: Path) -> Iterator[None]:
    """Inside, Ctrl-C says in one line what is kept, and ends the program with exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        n = finished(out)
        kept = f"{n} finished {'cell is' if n == 1 else 'cells are'} kept in {out}"
        voice.complain(f"stopped; {kept}, and the same command goes on from there")
        raise typer.Exit(130) from None
