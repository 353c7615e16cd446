"""Who runs independent tasks: this process, several processes, a Dask cluster. The numbers are the same."""

from bagwise.execution.dask_cluster import Dask
from bagwise.execution.joblib_backend import cluster, executor_for
from bagwise.execution.local import Lost, Processes, Serial

__all__ = ["Dask", "Lost", "Processes", "Serial", "cluster", "executor_for"]
