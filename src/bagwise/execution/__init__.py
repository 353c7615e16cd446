"""Who runs independent tasks: this process, several processes, a Dask cluster. The numbers are the same."""

from bagwise.execution.dask_cluster import Dask
from bagwise.execution.joining import cluster, executor_for
from bagwise.execution.local import Processes, Serial
from bagwise.execution.outcome import Lost

__all__ = ["Dask", "Lost", "Processes", "Serial", "cluster", "executor_for"]
