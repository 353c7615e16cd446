"""The command line in tests: run a command, expect success, or expect one message."""

import csv
from pathlib import Path

import pandas as pd
from typer.testing import CliRunner

from bagwise.cli import app
from bagwise.testing.contract_checks import sample


def run(*arguments, **options):
    """Run `bagwise` with these arguments in this process."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], prog_name="bagwise", **options)


def done(*arguments):
    """Run a command that succeeds."""
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def refused(*arguments, words, code=1):
    """Run a command that ends with an error that has these words, and return its whole output on one line."""
    result = run(*arguments)
    output = " ".join(result.output.replace("│", " ").split())
    assert result.exit_code == code and words in output and "Traceback" not in output, result.output
    return output


def rows_of(source) -> list[dict[str, str]]:
    """Return the rows of a csv file, or of the text of one."""
    text = source.read_text() if isinstance(source, Path) else source
    return list(csv.DictReader(text.splitlines()))


def sample_frame(n_bags, *, random_state=0):
    """Return a table of instances: bags in `site`, targets in `aod`, features a, b, c."""
    bags, y = sample(n_bags, random_state=random_state)
    frame = pd.DataFrame(bags.instances, columns=list("abc"))
    return frame.assign(site=bags.expand(bags.ids), aod=bags.expand(y))
