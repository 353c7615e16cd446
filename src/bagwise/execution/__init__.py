"""Who runs independent tasks: this process, several processes, a Dask cluster. The numbers are the same."""

from typing import TYPE_CHECKING

from bagwise.first_use import exported

if TYPE_CHECKING:
    from bagwise.execution.dask_cluster import Dask, cluster, executor_for
    from bagwise.execution.tasks import Lost, Processes, Serial

__all__ = ["Dask", "Lost", "Processes", "Serial", "cluster", "executor_for"]

__getattr__, __dir__ = exported(
    __name__,
    {
        "dask_cluster": ("Dask", "cluster", "executor_for"),
        "tasks": ("Lost", "Processes", "Serial"),
    },
)
