from bagwise.execution.dask_cluster import Dask as Dask, cluster as cluster
from bagwise.execution.tasks import Lost as Lost, Processes as Processes, Serial as Serial, executor_for as executor_for

__all__ = ["Dask", "Lost", "Processes", "Serial", "cluster", "executor_for"]
