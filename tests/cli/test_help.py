"""--help, completion in a shell, and the list of methods."""

import os
import re
import subprocess
import sys

import pytest
import typer
from tests.helpers.typed import done, refused, run

import bagwise as bw
from bagwise.cli import app

PROGRAM = typer.main.get_command(app)
COMMANDS = PROGRAM.commands


@pytest.mark.parametrize("verb", [None, *COMMANDS])
def test_help_breaks_no_word(verb):
    command = PROGRAM if verb is None else COMMANDS[verb]
    texts = [
        command.context_class(command, info_name="bagwise", terminal_width=width).get_help() for width in (60, 80, 500)
    ]
    assert len({frozenset(text.split()) for text in texts}) == 1
    for width, text in zip((60, 80), texts, strict=False):
        assert max(map(len, text.splitlines())) <= width


def test_every_option_has_help_and_names_methods_that_exist():
    texts = [(f"{name} {one.name}", one.help) for name, command in COMMANDS.items() for one in command.params]
    assert [name for name, text in texts if not text] == []
    texts = [text for _, text in texts] + [command.help for command in COMMANDS.values()]
    lists = [names for text in texts for names in re.findall(r"--methods? ([\w:,.-]*\w)", text)]
    names = {name for text in lists for name in text.split(",")}
    assert {"instance-kme", "instance-kme:paper"} <= names
    for name in names:
        bw.method(name)


def test_a_shell_completes_the_names_of_methods():
    names = sorted(name for name in bw.method_names() if name.startswith("instance-"))
    command = [sys.executable, "-c", "from bagwise.cli import app; app(prog_name='bagwise')"]
    for typed, prefix in (("fit --method ", ""), ("evaluate --methods ", "blr,")):
        words = {"COMP_WORDS": f"bagwise {typed}{prefix}instance-", "COMP_CWORD": "3"}
        words |= {"_BAGWISE_COMPLETE": "complete_bash"}
        answer = subprocess.run(command, env=os.environ | words, capture_output=True, text=True, check=True).stdout
        assert sorted(answer.split()) == [prefix + name for name in names]


def test_methods_lists_the_recommended_ones_first():
    lines = done("methods").stdout.splitlines()
    listed = [line.split()[0] for line in lines if re.match(r"  \S", line)]
    assert listed[:3] == ["auto", "instance-kme", "input-kme"] and sorted(listed) == sorted(bw.method_names())
    assert "Uriot (2019)" in run("methods", "instance-kme").output
    assert run("methods", "statistics:linear").stdout == run("methods", "statistics").stdout
    refused("methods", "instance-kne", words="did you mean 'instance-kme'", code=2)


def test_help_and_import_load_nothing_heavy():
    heavy = {"numba", "sklearn", "torch", "pandas", "pyarrow", "matplotlib"}
    code = f"import sys, bagwise, bagwise.cli; print(*sorted({heavy} & sys.modules.keys()))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == []
