"""The directive ``{options} COMMAND``: arguments and options of a command, as the command line has them."""

from __future__ import annotations

import typer
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from bagwise.cli import app as commands


class Options(SphinxDirective):
    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        known = typer.main.get_command(commands).commands
        if self.arguments[0] not in known:
            raise self.error(f"there is no command {self.arguments[0]!r}; there are {', '.join(known)}")
        shown = [one for one in known[self.arguments[0]].params if one.name != "help"]
        return [nodes.definition_list("", *(_item(parameter) for parameter in shown))]


def _item(parameter) -> nodes.definition_list_item:
    argument = parameter.param_type_name == "argument"
    names = [parameter.name.upper()] if argument else [*parameter.opts, *parameter.secondary_opts]
    term = nodes.term("", "", *(nodes.literal(name, name) for name in names))
    about = getattr(parameter, "help", None) or ""
    default = parameter.default
    if isinstance(default, str | int | float) and not isinstance(default, bool):
        about += f" Default: {default}."
    elif parameter.required:
        about += " Required."
    return nodes.definition_list_item("", term, nodes.definition("", nodes.paragraph("", about.strip())))


def setup(app) -> dict:
    app.add_directive("options", Options)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
