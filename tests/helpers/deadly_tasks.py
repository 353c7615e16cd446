"""Tasks that kill their process; light to import, because workers import this file."""

import os
import signal
import time


def mortal(task, lives, folder):
    """Return its name, but kill the process in the first attempts; attempts are counted in a file."""
    with open(folder / task, "a") as log:
        log.write("x")
    if len((folder / task).read_text()) <= lives[task]:
        os.kill(os.getpid(), signal.SIGKILL)
    return task


def tireless(task, folder):
    """Append to a separate file for ten minutes."""
    with open(folder / f"{task}", "a") as log:
        for _ in range(12_000):
            log.write("x")
            log.flush()
            time.sleep(0.05)


# A method of the catalogue that dies where bag 0 is not among the training bags: in one of two folds.
COMMAND = """
import sys
import bagwise as bw
from bagwise.methods import Card
from bagwise.methods.catalogue import register
from bagwise.testing.contract_checks import sample
from tests.helpers.toy_estimators import Failing

register(Card("deadly", "dies", "-", "-", "-", {"default": lambda *, random_state=0, n_jobs=None: Failing(0, "die")}))
bw.save_npz(sys.argv[1], *sample(20))
from bagwise.cli import app
app(f"evaluate {sys.argv[1]} --method deadly --out {sys.argv[2]} --folds 2 --repeats 1 --n-jobs 2".split())
"""
