"""How a verb speaks: messages and progress on stderr, one line for an error, nothing but results on stdout."""

from __future__ import annotations

import re
import shlex
import warnings
from contextlib import contextmanager, nullcontext
from traceback import clear_frames

import typer

# What is wrong with the data or the request: one message, no traceback.
EXPECTED = (ValueError, TypeError, ImportError, OSError)


# Keywords of `bagwise.load` and their options.
OPTIONS = {name: name for name in ("bag", "target", "groups", "ignore", "missing", "weights", "level")}
OPTIONS |= {"features": "feature", "bag_features": "bag-feature", "fill_values": "fill-value"}
KEYWORDS = re.compile(rf"\b({'|'.join(OPTIONS)})=('([\w-]+)'|(?![=\w\[]))")


FILL_VALUES = re.compile(r"\bfill_values=\[([^\]]*)\]")


class Voice:
    """Says things on stderr, unless it is to be quiet."""

    def __init__(self, verb: str, *, quiet: bool):
        from bagwise.cli.terminal import Terminal

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
        from bagwise.protocol.progress import Display

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
    from bagwise.cli.terminal import Terminal

    console = Terminal()
    return console if console.is_terminal else Terminal(width=10_000)


def tell(text: str, *, err: bool = False) -> None:
    """A result in words, as it stands."""
    from bagwise.cli.terminal import Terminal

    Terminal(stderr=err, highlight=False).print(text, markup=False, soft_wrap=True)


def as_options(text: str) -> str:
    """A message of the library in the words of the command line: ``missing='keep'`` is ``--missing keep`` there.

    Examples
    --------
    >>> as_options("bag= is needed; load with missing='drop-instances', or features=")
    '--bag is needed; load with --missing drop-instances, or --feature'
    >>> as_options("fill_values=[-9999, -999] makes it missing")
    '--fill-value -9999 --fill-value -999 makes it missing'
    """
    text = FILL_VALUES.sub(lambda found: " ".join(f"--fill-value {one}" for one in found[1].split(", ")), text)
    return KEYWORDS.sub(lambda found: f"--{OPTIONS[found[1]]}" + (f" {found[3]}" if found[3] else ""), text)


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
            voice.say(f"Note: {message}", style="yellow")

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        try:
            yield voice
        except EXPECTED as error:
            voice.complain(str(error))
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
