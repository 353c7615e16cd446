"""Tasks for worker processes, light to import."""

import os


def square(task, deadly):
    """The square of a number; the deadly one kills the process that runs it."""
    if task == deadly:
        os.kill(os.getpid(), 9)
    return task**2
