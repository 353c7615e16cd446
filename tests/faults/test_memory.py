"""With too little memory a command ends with a message, without traceback or crash.

The limit is set on the address space, as `ulimit -v` does, a little above what the command needs for a small table.
Much below that the libraries cannot even be loaded, and what happens then is theirs to say.
"""

import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.breaking import ENVIRONMENT

import bagwise as bw

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the peak")
COMMAND = """
import sys
from pathlib import Path
from bagwise.cli import app
try:
    app(sys.argv[1:])
finally:
    print("peak", next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmPeak:")))
"""
MB = 2**20


def run(*arguments, limit: int | None = None):
    return subprocess.run(
        [sys.executable, "-c", COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=120,
        env=ENVIRONMENT | {"ARROW_DEFAULT_MEMORY_POOL": "system"},  # its own reserves a gigabyte of addresses at once
        preexec_fn=limit and (lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))),
    )  # fmt: skip


def table(path, n_bags, size):
    rng = np.random.default_rng(0)
    instances = rng.normal(size=(n_bags * size, 4))
    bags = bw.Bags(instances, np.arange(0, n_bags * size + 1, size))
    bw.save_npz(path, bags, rng.normal(size=n_bags))
    return path


def in_too_little(words, small, large, spare: int):
    """Run the command on the large table, limited to the peak of the small one plus ``spare`` bytes."""
    done = run(*words(small))
    assert done.returncode == 0, done.stderr
    peak = 1024 * int(done.stdout.split()[-1])
    return run(*words(large), limit=peak + spare)


def said_so(done):
    assert done.returncode == 1, (done.returncode, done.stderr)
    assert "memory" in done.stderr.lower() and "Traceback" not in done.stderr
    return done.stderr.strip().splitlines()


@pytest.mark.parametrize("verb", ["check", pytest.param("evaluate", marks=pytest.mark.slow)])
def test_a_table_that_does_not_fit(tmp_path, verb):
    def words(path):
        more = ["--method", "aggregated", "--repeats", "1", "--out", tmp_path / path.stem]
        return [verb, path, *(more if verb == "evaluate" else [])]

    # 96 MB; for evaluate 320, as it imports after it has read, so that there is more memory while it reads.
    rows = 300_000 if verb == "check" else 1_000_000
    small, large = table(tmp_path / "small.npz", 10, 10), table(tmp_path / "large.npz", 10, rows)
    (line,) = said_so(in_too_little(words, small, large, 48 * MB))
    assert line.startswith(f"bagwise {verb}: there is not enough memory ") and "fewer " in line


@pytest.mark.slow
def test_a_method_that_needs_more_than_there_is(tmp_path):
    """The table fits, the cells fail one by one, and the run ends normally."""
    small, large = table(tmp_path / "small.npz", 40, 1), table(tmp_path / "large.npz", 5000, 1)
    words = ["--method", "input-kme", "--repeats", 1, "--folds", 2, "--no-tune"]
    lines = said_so(
        in_too_little(lambda path: ["evaluate", path, *words, "--out", tmp_path / path.stem], small, large, 64 * MB)
    )
    told = next(line for line in lines if "The first is" in line)
    assert "2 of 2 cells failed. The first is input-kme, repeat 0, fold 0: " in told and "MemoryError" in told
