"""bagwise: multiple instance regression. Every sample is a bag of feature vectors and has one real target.

>>> import bagwise as bw
>>> bags, y = bw.datasets.make_gaussian(40, instances=10)
>>> model = bw.method("aggregated").fit(bags, y)
>>> len(model.predict(bags))
40
"""

from importlib import import_module

from bagwise.first_use import lock as _first_use
from bagwise.orphans import end_with_parent

__version__ = "0.1.0"

# Names and the rooms they live in. Loaded when first used: `import bagwise` stays quick.
_ROOMS = {
    "bagwise.bags": (
        *("Bags", "from_arrays", "from_awkward", "from_padded", "from_table", "inspect_table", "load", "save_npz"),
    ),
    "bagwise.execution": ("cluster",),
    "bagwise.explaining": ("Explanation", "explain"),
    "bagwise.geo": ("from_raster",),
    "bagwise.intervals": ("Intervals",),
    "bagwise.lake": ("scan",),
    "bagwise.methods": ("card", "method", "method_names"),
    "bagwise.protocol": ("Results", "evaluate"),
    "bagwise.saving": ("open_model", "save"),
    "bagwise.sums": ("fit_scan", "predict_scan"),
}
_HOME = {name: room for room, names in _ROOMS.items() for name in names}
_MODULES = (
    *("bags", "datasets", "embeddings", "execution", "heads", "instances", "kernels", "methods", "protocol"),
    *(
        "automatic",
        "explaining",
        "geo",
        "intervals",
        "lake",
        "plots",
        "regressors",
        "reports",
        "saving",
        "sums",
        "testing",
    ),
)

__all__ = sorted([*_HOME, "datasets"])


def __getattr__(name):
    if name in _HOME:
        with _first_use:
            value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        with _first_use:
            return import_module(f"bagwise.{name}")
    raise AttributeError(f"module 'bagwise' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_HOME, *_MODULES])


end_with_parent()  # whatever task of ours a worker is sent, it imports this first
