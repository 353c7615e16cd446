"""What is printed is fit for where it goes: an ASCII terminal or pipe, and names that would steer a terminal."""

import csv
import io
import json
import os
import re
import subprocess
import sys

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from bagwise.cli import app
from bagwise.cli.console import Messages, Terminal
from bagwise.testing.contract_checks import sample

ASCII = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
HOSTILE = "\x1b]0;owned\x07"


def table(path, *, site="Stra\u00dfe ", name="r\u00f6t"):
    rng = np.random.default_rng(0)
    y = np.repeat(rng.normal(size=12), 4)
    frame = pd.DataFrame({"site": [f"{site}{k // 4}" for k in range(48)], name: y + rng.normal(size=48), "aod": y})
    frame.to_csv(path, index=False)
    return ["--bag", "site", "--target", "aod"]


# Commands one after the other in one new interpreter, whose start takes longer than most of them. After each its exit
# code, on both streams.
TYPED = """
import json, sys
from bagwise.cli import run
for words in json.loads(sys.argv[1]):
    sys.argv, code = ["bagwise", *words], 0
    try:
        run()
    except SystemExit as end:
        code = end.code or 0
    for stream in (sys.stdout, sys.stderr):
        print(f"<{code}>", file=stream, flush=True)
"""


def typed(commands: list, cwd) -> list[tuple[int, bytes, bytes]]:
    """Exit code, standard output and standard error of every command."""
    words = json.dumps([[*map(str, command)] for command in commands])
    command, environment = [sys.executable, "-c", TYPED, words], os.environ | ASCII
    done = subprocess.run(command, cwd=cwd, capture_output=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    out, err = (re.split(rb"<(\d)>\n", text) for text in (done.stdout, done.stderr))
    return list(zip(map(int, out[1::2]), out[:-1:2], err[:-1:2], strict=True))


def test_every_verb_prints_to_an_ascii_pipe(tmp_path):
    """Names in a message, ids in a table and signs of our own ended in a traceback."""
    columns = table(tmp_path / "t.csv")
    fitting = ["--method", "aggregated", "--no-intervals"]
    commands = {
        "check": ["check", "t.csv", *columns],
        "error": ["check", "t.csv", "--bag", "sight"],
        "fit": ["fit", "t.csv", *columns, *fitting, "--out", "m.bagwise"],
        "predict": ["predict", "m.bagwise", "t.csv"],
        "evaluate": ["evaluate", "t.csv", *columns, *fitting[:2], "--repeats", 2, "--folds", 2, "--out", "run"],
        "report": ["report", "run", "--no-explorer"],
        "datasets": ["datasets"],
        "methods": ["methods"],
    }
    said = dict(zip(commands, typed(commands.values(), cwd=tmp_path), strict=True))
    for name, (code, out, err) in said.items():
        assert code == (name == "error"), (name, err)
        assert (out + err).isascii() and b"Traceback" not in err, (name, out, err)
    assert rb"Features: r\xf6t;" in said["check"][1]
    assert rb"r\xf6t" in said["error"][1]
    assert b"~ folds" in said["evaluate"][1]
    rows = list(csv.reader(io.StringIO(said["predict"][1].decode())))
    assert [row[0] for row in rows[1:]] == [rf"Stra\xdfe {k}" for k in range(12)]


def test_names_and_ids_do_not_steer_the_terminal(tmp_path):
    columns = table(tmp_path / "t.csv", site=HOSTILE, name=f"red{HOSTILE}\u202e")
    said = CliRunner().invoke(app, ["check", str(tmp_path / "t.csv"), *columns]).output
    assert r"Features: red\x1b]0;owned\u202e;" in said and "\x1b" not in said and "\u202e" not in said
    said = CliRunner().invoke(app, ["check", str(tmp_path / "t.csv"), "--bag", "sight"]).output
    assert r"red\x1b]0;owned" in said and "\x1b" not in said


def test_ids_on_a_terminal_are_shown_and_in_a_pipe_are_as_they_are(tmp_path, monkeypatch):
    from bagwise.cli.predict import print_csv

    for terminal, expected in ((True, r"a\x1b[2J"), (False, "a\x1b[2J")):
        stream = io.StringIO()
        stream.isatty = lambda terminal=terminal: terminal
        monkeypatch.setattr(sys, "stdout", stream)
        print_csv({"bag": ["a\x1b[2J"], "prediction": [1.0]}, False)
        assert stream.getvalue() == f"bag,prediction\n{expected},1.0\n"


def test_styles_reach_the_terminal_and_names_between_colons_stay():
    stream = io.StringIO()
    console = Terminal(file=stream, force_terminal=True, color_system="standard", highlight=False)
    console.print("a\x1b[5m", style="red", markup=False)
    console.print("bag :warning: of :a:")
    assert stream.getvalue() == "\x1b[31ma\\x1b[5m\x1b[0m\nbag :warning: of :a:\n"


def test_an_error_without_words_is_told_by_its_name(tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_text("site,x,y\n1,2,3\n")
    monkeypatch.setattr("bagwise.check_table", lambda *_, **__: (_ for _ in ()).throw(TimeoutError))
    run = CliRunner().invoke(app, ["check", str(tmp_path / "t.csv"), "--bag", "site"])
    assert run.exit_code == 1 and run.output == "bagwise check: TimeoutError\n"


def test_a_progress_bar_takes_the_bags_in_parts(monkeypatch):
    monkeypatch.setattr("bagwise.cli.console.INSTANCES_PER_STEP", 40)
    monkeypatch.setattr(Messages, "is_live", True)
    bags, _ = sample(30)
    parts = list(Messages("predict", quiet=False).parts(bags, "explaining"))
    assert len(parts) == 4 and [bag_id for part in parts for bag_id in part.ids] == bags.ids.tolist()
    monkeypatch.setattr(Messages, "is_live", False)
    assert list(Messages("predict", quiet=True).parts(bags, "explaining")) == [bags]
