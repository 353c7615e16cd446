"""Progress displays for terminals and notebooks, based on rich; in notebooks ipywidgets is optional."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from io import StringIO
from time import perf_counter

from rich.console import Console
from rich.progress import Progress, ProgressColumn, Task
from rich.text import Text

UPDATE_SECONDS = 0.2  # time between two updates of the text line in a notebook
LINE_WIDTH = 100  # characters of the text line in a notebook


def is_watched() -> bool:
    """Return whether standard error is a terminal or the process runs in a notebook."""
    console = Console(stderr=True)
    return console.is_terminal or console.is_jupyter


def progress_display(*columns, console: Console | None = None) -> Progress:
    """Return a progress display on standard error, which is removed at the end.

    In a notebook without ipywidgets, where the display of rich would warn at each refresh, it is a line of text that
    is updated in place. Outside of terminals and notebooks nothing is shown.
    """
    console = console or Console(stderr=True)
    if console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None):
        return Progress(*columns, console=console, transient=True)
    return _TextLine(*columns, console=console)


class Line(ProgressColumn):
    """The text that a function returns for a task, as one line, which a narrow terminal cuts off."""

    def __init__(self, text: Callable[[Task], str]):
        super().__init__()
        self.text = text

    def render(self, task: Task) -> Text:
        return Text(self.text(task), no_wrap=True, overflow="ellipsis")


class _TextLine(Progress):
    """Progress shown as a line of text by IPython, without the live display of rich."""

    handle = None  # display handle of IPython, once the line is shown
    last_update = -UPDATE_SECONDS

    def start(self) -> None:
        pass

    def stop(self) -> None:
        if self.handle is not None:
            self.handle.update({"text/plain": ""}, raw=True)

    def update(self, *arguments, **options) -> None:
        super().update(*arguments, **options)
        self._show()

    def advance(self, *arguments, **options) -> None:
        super().advance(*arguments, **options)
        self._show()

    def _show(self) -> None:
        if not self.console.is_jupyter or perf_counter() - self.last_update < UPDATE_SECONDS:
            return
        from IPython.display import display

        self.last_update = perf_counter()
        text_console = Console(file=StringIO(), width=LINE_WIDTH, force_jupyter=False)
        with text_console.capture() as capture:
            text_console.print(self.get_renderable())
        text = {"text/plain": capture.get().rstrip()}
        if self.handle is None:
            self.handle = display(text, raw=True, display_id=True)
        else:
            self.handle.update(text, raw=True)
