"""Fits whose process ends before they finish. As a script: a fit that kills its own process."""

import os
import signal
import sys

import bagwise as bw
from bagwise.execution import Serial
from bagwise.scale import fit_scan


class Ended(BaseException):
    """Stand-in for the end of the process, which code in it cannot catch."""


def raise_end():
    raise Ended


class Ending(Serial):
    """Executor in this process that stops before a task of a pass.

    Attributes
    ----------
    tasks : how many tasks of each pass were begun, by name
    """

    def __init__(self, at: str | None = None, number: int = 0, end=raise_end):
        self.at, self.number, self.end = at, number, end
        self.tasks: dict[str, int] = {}

    def run(self, function, tasks, shared=()):
        return super().run(function, self._counted(function.name, tasks), shared)

    def _counted(self, name, tasks):
        self.tasks.setdefault(name, 0)
        for task in tasks:
            if name == self.at and self.tasks[name] == self.number:
                self.end()
            self.tasks[name] += 1
            yield task


if __name__ == "__main__":
    from tests.helpers.cut_tables import scanned, small

    source, work, name, at, number = sys.argv[1:]
    killed = Ending(at, int(number), lambda: os.kill(os.getpid(), signal.SIGKILL))
    model = fit_scan(scanned(source, chunk_rows=350), small(name), executor=killed, work=work)
    bw.save_model(model, f"{work}.bagwise")
