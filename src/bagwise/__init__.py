"""bagwise: multiple instance regression. Every sample is a bag of feature vectors and has one real target.

>>> import bagwise as bw
>>> bags, y = bw.datasets.make_gaussian(40, instances=10)
>>> model = bw.method("aggregated").fit(bags, y)
>>> len(model.predict(bags))
40
"""

import sys as _sys

__version__ = "0.2.0"

__all__ = [
    "BagKFold",
    "BagPipeline",
    "Bags",
    "EmbeddingRidge",
    "Explanation",
    "Importance",
    "Intervals",
    "MultiTarget",
    "Novelty",
    "OutOfFold",
    "Results",
    "SubsetPredictions",
    "check_bag_estimator",
    "check_table",
    "cluster",
    "datasets",
    "evaluate",
    "explain",
    "fit_scan",
    "from_anndata",
    "from_arrays",
    "from_awkward",
    "from_cube",
    "from_folder",
    "from_padded",
    "from_raster",
    "from_table",
    "importance",
    "learning_curve",
    "load",
    "load_model",
    "method",
    "method_card",
    "method_names",
    "novelty",
    "predict_scan",
    "predict_subset",
    "save_model",
    "save_npz",
    "scan",
    "to_anndata",
]

TYPE_CHECKING = False  # type checkers read it as true, as that of `typing`, whose import takes longer than ours
# The same names twice. Type checkers and editors read the first. Python follows the second, which imports a
# name when it is first used, so that `import bagwise` stays quick. A test compares them.
if TYPE_CHECKING:
    from bagwise import (
        auto as auto,
        bags as bags,
        datasets,
        embeddings as embeddings,
        evaluation as evaluation,
        execution as execution,
        explanations as explanations,
        instances as instances,
        intervals as intervals,
        io as io,
        kernels as kernels,
        methods as methods,
        model_files as model_files,
        out_of_core as out_of_core,
        regressors as regressors,
        reports as reports,
        testing as testing,
    )
    from bagwise.bags import BagKFold, Bags, from_arrays, from_awkward, from_padded
    from bagwise.evaluation import Results, evaluate, learning_curve
    from bagwise.execution import cluster
    from bagwise.explanations import (
        Explanation,
        Importance,
        Novelty,
        SubsetPredictions,
        explain,
        importance,
        novelty,
        predict_subset,
    )
    from bagwise.instances import OutOfFold
    from bagwise.intervals import Intervals
    from bagwise.io import (
        check_table,
        from_anndata,
        from_cube,
        from_folder,
        from_raster,
        from_table,
        geo as geo,
        load,
        save_npz,
        to_anndata,
    )
    from bagwise.methods import method, method_card, method_names
    from bagwise.model_files import load_model, save_model
    from bagwise.out_of_core import fit_scan, predict_scan, scan
    from bagwise.regressors import BagPipeline, EmbeddingRidge, MultiTarget
    from bagwise.reports import plots as plots
    from bagwise.testing import check_bag_estimator
else:
    from bagwise.first_use import exported as _exported

    _PACKAGES = (
        *("auto", "bags", "datasets", "embeddings", "evaluation", "execution", "explanations", "instances"),
        *("intervals", "io", "kernels", "methods", "model_files", "out_of_core", "regressors", "reports", "testing"),
    )
    _NAMES = {
        "bags": ("BagKFold", "Bags", "from_arrays", "from_awkward", "from_padded"),
        "evaluation": ("Results", "evaluate", "learning_curve"),
        "execution": ("cluster",),
        "explanations": (
            *("Explanation", "Importance", "Novelty", "SubsetPredictions"),
            *("explain", "importance", "novelty", "predict_subset"),
        ),
        "instances": ("OutOfFold",),
        "intervals": ("Intervals",),
        "io": (
            *("check_table", "from_anndata", "from_cube", "from_folder", "from_raster", "from_table", "load"),
            *("save_npz", "to_anndata"),
        ),
        "methods": ("method", "method_card", "method_names"),
        "model_files": ("load_model", "save_model"),
        "out_of_core": ("fit_scan", "predict_scan", "scan"),
        "regressors": ("BagPipeline", "EmbeddingRidge", "MultiTarget"),
        "testing": ("check_bag_estimator",),
    }
    __getattr__, __dir__ = _exported(
        __name__,
        _NAMES,
        aliases={
            **{name: f"bagwise.{name}" for name in _PACKAGES},
            "geo": "bagwise.io.geo",
            "plots": "bagwise.reports.plots",
        },
        renamed={
            "card": "method_card",
            "inspect_table": "check_table",
            "open_model": "load_model",
            "save": "save_model",
        },
        locked=True,
    )


# Whatever task of ours a worker of joblib is sent, it imports this first.
_processes = _sys.modules.get("multiprocessing.process")  # there in every worker, and not worth an import elsewhere
if _processes is not None and type(_processes.current_process()).__name__.startswith("Loky"):
    from bagwise.execution.tasks import end_with as _end_with

    _end_with(_processes.parent_process().pid)
