from bagwise import (
    auto as auto,
    bags as bags,
    datasets as datasets,
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
    scale as scale,
    regressors as regressors,
    reports as reports,
    testing as testing,
)
from bagwise.bags import (
    BagKFold as BagKFold,
    Bags as Bags,
    Validation as Validation,
    from_arrays as from_arrays,
    from_awkward as from_awkward,
    from_padded as from_padded,
)
from bagwise.evaluation import Results as Results, evaluate as evaluate, learning_curve as learning_curve
from bagwise.execution import cluster as cluster
from bagwise.explanations import (
    Explanation as Explanation,
    Importance as Importance,
    Novelty as Novelty,
    SubsetPredictions as SubsetPredictions,
    explain as explain,
    importance as importance,
    novelty as novelty,
    predict_subset as predict_subset,
)
from bagwise.instances import OutOfFold as OutOfFold
from bagwise.intervals import Intervals as Intervals
from bagwise.io import (
    check_table as check_table,
    from_anndata as from_anndata,
    from_cube as from_cube,
    from_folder as from_folder,
    from_raster as from_raster,
    from_sequences as from_sequences,
    from_smiles as from_smiles,
    geo as geo,
    load as load,
    save_npz as save_npz,
    to_anndata as to_anndata,
)
from bagwise.methods import (
    MultiTarget as MultiTarget,
    method as method,
    method_card as method_card,
    method_names as method_names,
)
from bagwise.model_files import load_model as load_model, save_model as save_model
from bagwise.regressors import BagPipeline as BagPipeline, EmbeddingRidge as EmbeddingRidge
from bagwise.reports import plots as plots
from bagwise.scale import fit_scan as fit_scan, predict_scan as predict_scan, scan as scan
from bagwise.testing import check_bag_estimator as check_bag_estimator

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
    "Validation",
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
    "from_sequences",
    "from_smiles",
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
__version__: str
