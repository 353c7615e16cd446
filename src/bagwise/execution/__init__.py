"""Who runs independent tasks: this process, several processes, a Dask cluster. The numbers are the same."""

from bagwise.execution.cluster import Dask
from bagwise.execution.local import Processes, Serial
from bagwise.execution.outcome import Lost

__all__ = ["Dask", "Lost", "Processes", "Serial"]
