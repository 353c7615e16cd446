"""bagwise: multiple instance regression. Each sample is a bag of feature vectors and has one real target.

>>> import bagwise as bw
>>> bags, y = bw.datasets.make_gaussian(40, instances=10)
>>> model = bw.method("aggregated").fit(bags, y)
>>> len(model.predict(bags))
40
"""

import sys as _sys

from bagwise.first_use import attach_stub as _attach_stub

__version__ = "0.2.0"
__getattr__, __dir__, __all__ = _attach_stub(__name__, __file__, locked=True)


# A worker process of joblib must end with its parent. It imports this module first, whichever of our tasks it gets.
_processes = _sys.modules.get("multiprocessing.process")  # loaded in each worker, and too slow to import elsewhere
if _processes is not None and type(_processes.current_process()).__name__.startswith("Loky"):
    from bagwise.execution.tasks import end_with as _end_with

    _end_with(_processes.parent_process().pid)
