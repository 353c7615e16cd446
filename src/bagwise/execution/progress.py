"""Progress displays: one of rich in a terminal, and in a notebook with or without ipywidgets."""

from __future__ import annotations

from importlib.util import find_spec
from io import StringIO
from time import perf_counter

from rich.console import Console
from rich.progress import Progress

SECONDS = 0.2  # between two updates of a line in a notebook
WIDTH = 100  # of that line


def is_watched() -> bool:
    """Return whether somebody can see a progress display: in a terminal or a notebook."""
    console = Console(stderr=True)
    return console.is_terminal or console.is_jupyter


def progress_display(*columns, console: Console | None = None) -> Progress:
    """Return a progress display on standard error that disappears when it ends.

    In a notebook without ipywidgets it is a line of text that is updated in place, where rich would warn at each
    refresh. Outside of terminals and notebooks nothing is shown.
    """
    console = console or Console(stderr=True)
    if console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None):
        return Progress(*columns, console=console, transient=True)
    return _LineOfText(*columns, console=console)


class _LineOfText(Progress):
    """Progress that IPython displays as text; rich's own display is never started."""

    handle = None  # of the displayed line
    shown = -SECONDS  # when it was last updated

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
        if not self.console.is_jupyter or perf_counter() - self.shown < SECONDS:
            return
        from IPython.display import display

        self.shown = perf_counter()
        page = Console(file=StringIO(), width=WIDTH, force_jupyter=False)
        with page.capture() as capture:
            page.print(self.get_renderable())
        text = {"text/plain": capture.get().rstrip()}
        if self.handle is None:
            self.handle = display(text, raw=True, display_id=True)
        else:
            self.handle.update(text, raw=True)
