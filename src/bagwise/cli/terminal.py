"""What is printed, made fit for where it goes: no sign that a terminal would obey, none that it cannot show."""

from __future__ import annotations

import sys
import unicodedata

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
