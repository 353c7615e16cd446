"""Tasks and a method that kill the process which runs them; light to import, for the workers do."""

import os
import signal
import time


def mortal(task, lives, folder):
    """Its own name; but the first so many tries kill the process. Every try is noted in a file."""
    with open(folder / task, "a") as log:
        log.write("x")
    if len((folder / task).read_text()) <= lives[task]:
        os.kill(os.getpid(), signal.SIGKILL)
    return task


def tireless(task, folder):
    """Write on and on to a file of its own, for ten minutes."""
    with open(folder / f"{task}", "a") as log:
        for _ in range(12_000):
            log.write("x")
            log.flush()
            time.sleep(0.05)


# A method of the catalogue that dies where bag 0 is among the training bags: in one of two folds.
COMMAND = """
import sys
import bagwise as bw
from bagwise.methods import Card
from bagwise.methods.catalogue import register
from bagwise.testing.contract_checks import sample
from tests.helpers.deadly_method import Deadly

register(Card("deadly", "dies", "-", "-", "-", {"default": lambda *, random_state=0, n_jobs=None: Deadly()}))
bw.save_npz(sys.argv[1], *sample(20))
from bagwise.cli import app
app(f"evaluate {sys.argv[1]} --method deadly --out {sys.argv[2]} --folds 2 --repeats 1 --n-jobs 2".split())
"""
