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
