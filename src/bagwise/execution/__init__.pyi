from bagwise.execution.dask_cluster import Dask as Dask, cluster as cluster, executor_for as executor_for
from bagwise.execution.tasks import Lost as Lost, Processes as Processes, Serial as Serial

__all__ = ["Dask", "Lost", "Processes", "Serial", "cluster", "executor_for"]
