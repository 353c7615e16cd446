"""Who runs independent tasks: this process, several processes, a Dask cluster. The numbers are the same."""

from typing import TYPE_CHECKING

from bagwise.first_use import exported

if TYPE_CHECKING:
    from bagwise.execution.dask_cluster import Dask
    from bagwise.execution.joblib_backend import cluster, executor_for
    from bagwise.execution.local import Lost, Processes, Serial

__all__ = ["Dask", "Lost", "Processes", "Serial", "cluster", "executor_for"]

__getattr__, __dir__ = exported(
    __name__,
    {
        "dask_cluster": ("Dask",),
        "joblib_backend": ("cluster", "executor_for"),
        "local": ("Lost", "Processes", "Serial"),
    },
)
