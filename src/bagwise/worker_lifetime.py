"""Worker processes end with the process that started them, however that ended."""

from __future__ import annotations

import os
import sys
import time
from threading import Thread

PATIENCE = 1.0  # seconds between two looks


def end_with_parent() -> None:
    """In a worker of joblib, begin to look whether its parent is alive; elsewhere, nothing.

    A parent that is killed cannot tell its workers. They would finish what they do, for nobody, and then wait for more
    for five minutes. Where a process keeps the number of its parent for life (Windows), they still do.

    A signal at the parent's death (Linux) may come too early: it is sent when the thread that started the worker ends.
    """
    processes = sys.modules.get("multiprocessing.process")  # there in every worker, and not worth an import elsewhere
    if processes is None or not type(processes.current_process()).__name__.startswith("Loky"):
        return
    Thread(target=_watch, args=(processes.parent_process().pid,), name="bagwise-parent", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PATIENCE)
    os._exit(1)  # at once: there is nobody to report to
