"""The set-up step for the browser says what it does, and is never an error."""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("install_browser.sh")


def programs(folder, **bodies):
    for name, body in bodies.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)


def set_up(folder):
    """What the script prints where only the programs in this folder exist."""
    (folder / "timeout").symlink_to(shutil.which("timeout"))
    done = subprocess.run([shutil.which("sh"), SCRIPT], env={"PATH": str(folder)}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_browser_that_is_there_is_named(tmp_path):
    programs(tmp_path, chromium="", chromedriver="")
    assert set_up(tmp_path) == f"browser: {tmp_path}/chromium\n"


@pytest.mark.parametrize(("user", "tool"), [("1000", "apt-get"), ("0", "another-tool")])
def test_nothing_is_installed_where_it_may_not_be(tmp_path, user, tool):
    programs(tmp_path, id=f"echo {user}", **{tool: f"echo called >{tmp_path}/called"})
    assert "only root with apt-get can install one" in set_up(tmp_path)
    assert not (tmp_path / "called").exists()


def test_an_install_that_fails_is_told_after_a_second_try(tmp_path):
    programs(tmp_path, id="echo 0", **{"apt-get": f'echo "$@" >>{tmp_path}/calls; exit 100'})
    said = set_up(tmp_path).splitlines()
    assert said[0] == "browser: none; installing it with: apt-get install chromium chromium-driver"
    assert said[1] == "browser: it could not be installed; its tests are skipped"
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [next(word for word in call.split() if word in ("install", "update")) for call in calls] == [
        "install",
        "update",
        "install",
    ]
