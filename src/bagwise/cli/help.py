"""Layout of --help: sections of options, and words that stay whole in a terminal of any width."""

from __future__ import annotations

import re
import textwrap

from typer.core import TyperCommand, TyperGroup

NAMES_WIDTH = 26  # of the column of names; a longer name has a line of its own


class Command(TyperCommand):
    """A command whose help lists options in sections: those of a shared kind, then "Options"."""

    def parse_args(self, ctx, args):
        ctx.meta["typed"] = list(args)
        return super().parse_args(ctx, args)

    def format_help_text(self, ctx, formatter):
        for paragraph in (self.help or "").split("\n\n"):
            formatter.write("\n" + wrap(paragraph, formatter.width, "  ") + "\n")

    def format_options(self, ctx, formatter):
        sections: dict[str, list] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            title = "Arguments" if parameter.param_type_name == "argument" else "Options"
            title = getattr(parameter, "rich_help_panel", None) or title
            sections.setdefault(title, []).append(parameter.get_help_record(ctx))
        for title, records in sections.items():
            write_section(formatter, title, [record for record in records if record])


class Group(TyperGroup):
    """The program, whose help lists its commands with the first paragraph of their help."""

    format_help_text = Command.format_help_text

    def format_options(self, ctx, formatter):
        Command.format_options(self, ctx, formatter)
        commands = [(name, self.get_command(ctx, name).help or "") for name in self.list_commands(ctx)]
        write_section(formatter, "Commands", [(name, text.partition("\n\n")[0]) for name, text in commands])


def write_section(formatter, title: str, records: list[tuple[str, str]]) -> None:
    """Write names and their descriptions in two columns."""
    if not records:
        return
    formatter.write(f"\n{title}:\n")
    indent = min(NAMES_WIDTH, 4 + max(len(names) for names, _ in records))
    for names, text in records:
        names = "  " + re.sub(r"<list\[(\w+)\]>", r"<\1>", names)
        text = wrap(text, formatter.width, " " * indent)
        is_short = len(names) <= indent - 2
        formatter.write((names.ljust(indent) + text.lstrip() if is_short else f"{names}\n{text}") + "\n")


def wrap(text: str, width: int, indent: str) -> str:
    """Wrap a text at blanks only, so that the names of options stay whole."""
    lines = textwrap.wrap(text, width - len(indent), break_long_words=False, break_on_hyphens=False)
    return textwrap.indent("\n".join(lines), indent)
