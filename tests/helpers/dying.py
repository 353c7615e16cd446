"""Workers that die during a task; light to import, because workers import this file."""

import os
import signal
from pathlib import Path

from bagwise.execution import Dask


class DyingOnce:
    """Function of tasks that kills its process at the first attempt of one task."""

    def __init__(self, function, number: int, mark: Path):
        self.function, self.number, self.mark, self.name = function, number, mark, function.name

    def __call__(self, task, *shared):
        if int(task[0].name) == self.number:
            try:
                self.mark.touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return self.function(task, *shared)


class Deadly(Dask):
    """Cluster that loses a worker during one pass.

    Attributes
    ----------
    passes : the names of all passes, in order
    """

    def __init__(self, client, deadly: str, mark: Path, number: int = 3):
        super().__init__(client)
        self.deadly, self.mark, self.number, self.passes = deadly, mark, number, []

    def run(self, function, tasks, shared=()):
        return super().run(self._perhaps_dying(function, shared), tasks, shared)

    def _perhaps_dying(self, function, shared):
        self.passes.append(function.name)
        return DyingOnce(function, self.number, self.mark) if self.passes[-1] == self.deadly else function
