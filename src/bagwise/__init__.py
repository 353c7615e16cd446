"""bagwise: multiple instance regression. Every sample is a bag of feature vectors and has one real target.

>>> import bagwise as bw
>>> bags, y = bw.datasets.make_gaussian(40, instances=10)
>>> model = bw.method("aggregated").fit(bags, y)
>>> len(model.predict(bags))
40
"""

from importlib import import_module

from bagwise.first_use import lock as _first_use
from bagwise.worker_lifetime import end_with_parent

__version__ = "0.1.0"

# Names and the packages they live in. Loaded when first used: `import bagwise` stays quick.
_ROOMS = {
    "bagwise.bags": ("Bags", "from_arrays", "from_awkward", "from_padded"),
    "bagwise.io": ("from_raster", "from_table", "inspect_table", "load", "save_npz"),
    "bagwise.execution": ("cluster",),
    "bagwise.explanations": ("Explanation", "explain"),
    "bagwise.intervals": ("Intervals",),
    "bagwise.methods": ("card", "method", "method_names"),
    "bagwise.evaluation": ("Results", "evaluate"),
    "bagwise.model_files": ("open_model", "save"),
    "bagwise.out_of_core": ("fit_scan", "predict_scan", "scan"),
}
_HOME = {name: room for room, names in _ROOMS.items() for name in names}
_MODULES = (
    *("auto", "bags", "datasets", "embeddings", "evaluation", "execution", "explanations", "instances", "intervals"),
    *("io", "kernels", "methods", "model_files", "out_of_core", "regressors", "reports", "testing"),
)

__all__ = sorted([*_HOME, "datasets"])


def __getattr__(name):
    if name in _HOME:
        with _first_use:
            value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    if name == "plots":
        return import_module("bagwise.reports.plots")
    if name in _MODULES:  # without the lock, for a module of ours may ask while it is imported
        return import_module(f"bagwise.{name}")
    raise AttributeError(f"module 'bagwise' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_HOME, *_MODULES, "plots"])


end_with_parent()  # whatever task of ours a worker is sent, it imports this first
