"""The names in model files: those of our classes, stable whatever module a class lives in; and all a file may name.

A file says ``bagwise.RidgePath``; the table below says where that class is now. So a class can move, or be renamed,
without breaking a file: its line changes, its name does not. A class that is not in the table cannot be in a file.
Files of format 2 named modules, as they were then; a second table gives those classes their names.

Which types a model file may name. The list is ours and fixed; a file cannot add to it.

Allowed are the classes of bagwise that have a name in `names`, estimators of the scikit-learn packages below and the
few inner types they are made of, numpy arrays, scalars and element-wise functions, and plain containers. Left out on
purpose are packages and modules whose compiled code trusts the sizes of fitted arrays (``svm``, ``cluster``,
``neighbors``, isolation forests). Objects are made without calling their constructor, and their state is set from parts
that have passed the same rule.

Training bags, which a kernel compares new ones with, are the exception. Holding `Bags` is the proof that they are
valid. So a file holds their parts in a tuple, and opening it gives them to the constructor, which checks them as it
does those of a user.
"""

from __future__ import annotations

import inspect
from importlib import import_module

import numpy as np
from sklearn.base import BaseEstimator

from bagwise.bags import Bags
from bagwise.model_files.archive import Refused

OURS = "bagwise"

# Module: the names of its classes, in one text. "Name=Class" where the class goes by another name in files.
_PLACES = {
    "auto.auto_regressor": "AutoRegressor",
    "auto.cross_validation": "LearningCurve=Curve",
    "auto.members": "MeanTarget",
    "auto.preparation": "Components CovariateRouting=Routing MonotoneTarget ThinBags",
    "bags.folds": "BagKFold",
    "bags.checks": "TrainingProfile",
    "embeddings.feature_mean": "FeatureMean MinusDistance NystroemMean PhaseMean Similarity",
    "embeddings.kernel_mean": "ChebyshevInterpolant=Interpolant KernelMean",
    "embeddings.landmarks": "LandmarkMean",
    "embeddings.second_kernel": "SecondKernel",
    "embeddings.summaries": "CovariatesBeside Pool QuantileRows SlicedQuantiles Statistics",
    "bags.imputation": "Imputation",
    "instances.networks.cpu": "NetworkEnsemble",
    "instances.networks.estimator": "NetworkRegressor",
    "instances.out_of_fold": "EachInstance FoldMean OutOfFold OutOfFoldUnion",
    "instances.random_feature_ridge": "ColumnScaler RandomFeatureRidge",
    "intervals.calibration": "FoldModels LeftOutRidgePath=LeavingOut LeftOutHead LeftOutRidge RidgeSmoother=Smoother",
    "intervals.conformal": "Intervals",
    "intervals.scales": "BagQuantiles BagScale ConstantScale=Constant FittedScale=Fitted "
    "FoldQuantiles ModelScale=ModelStd",
    "kernels.bandwidths": "MarginalPseudolikelihood MedianDistance",
    "kernels.formulas": "Cauchy Exponential FourierFeatures Gaussian InverseMultiquadric Linear Matern32 "
    "Matern52 NystroemFeatures Polynomial PrintedInverse RationalQuadratic Student",
    "model_files.names": "Bags=make_bags",
    "regressors.additive": "AdditiveRegressor",
    "regressors.attention.attention_regressor": "AttentionRegressor AttentionInputs=Inputs AttentionScale=Scale",
    "regressors.attention.network": "AttentionMember=Member AttentionNetwork=Network",
    "regressors.attention.attention_kme": "AttentionWeighted",
    "regressors.bayesian.aggregate_gp": "AggregateGP",
    "regressors.bayesian.evidence_ridge": "Evidence EvidenceRidge TargetScale",
    "regressors.bayesian.prime_instances": "BayesianPrime",
    "regressors.bayesian.sampled_shrinkage": "SampledShrinkage",
    "regressors.bayesian.shrinkage": "ShrinkageCoordinates=Coordinates Shrinkage",
    "regressors.pipeline": "BagPipeline MultiTarget PoolPredictions",
    "regressors.embedding_ridge": "EmbeddingRidge PredictionBlend",
    "regressors.iterative_weights": "Gate Mixture Primary Pruning Reweighting",
    "regressors.ridge_path": "RidgePath",
    "regressors.exemplars": "ClusterRegressor SalienceRegressor",
    "regressors.row_regressors": "BoostedTrees LassoPath",
}

# The same, for files of format 2: the modules as they were.
_FORMER = {
    "automatic.curve": "LearningCurve=Curve",
    "automatic.members": "MeanTarget",
    "automatic.preparing": "Components ThinBags",
    "automatic.regressor": "AutoRegressor",
    "automatic.routing": "CovariateRouting=Routing",
    "automatic.targets": "MonotoneTarget",
    "embeddings.chebyshev": "ChebyshevInterpolant=Interpolant",
    "embeddings.covariates": "CovariatesBeside",
    "embeddings.feature_mean": "FeatureMean NystroemMean",
    "embeddings.kernel_mean": "KernelMean",
    "embeddings.landmarks": "LandmarkMean",
    "embeddings.phase": "PhaseMean",
    "embeddings.pools": "Pool",
    "embeddings.quantiles": "QuantileRows SlicedQuantiles",
    "embeddings.second_kernel": "SecondKernel",
    "embeddings.similarity": "MinusDistance Similarity",
    "embeddings.statistics": "Statistics",
    "heads.boosted_trees": "BoostedTrees",
    "heads.lasso_path": "LassoPath",
    "heads.ridge_path": "RidgePath",
    "instances.folds": "BagKFold",
    "instances.network": "NetworkRegressor",
    "instances.network_ensemble": "NetworkEnsemble",
    "instances.out_of_fold": "EachInstance FoldMean OutOfFold",
    "instances.random_feature_ridge": "RandomFeatureRidge",
    "instances.random_features": "FourierFeatures NystroemFeatures",
    "intervals.closed_form": "LeftOutRidgePath=LeavingOut LeftOutHead LeftOutRidge RidgeSmoother=Smoother",
    "intervals.fold_scales": "ConstantScale=Constant FittedScale=Fitted ModelScale=ModelStd",
    "intervals.left_out": "FoldModels",
    "intervals.regressor": "Intervals",
    "intervals.scales": "BagScale",
    "kernels.bandwidth": "MarginalPseudolikelihood MedianDistance",
    "kernels.formulas": "Cauchy Exponential Gaussian InverseMultiquadric Linear Matern32 "
    "Matern52 Polynomial PrintedInverse RationalQuadratic Student",
    "regressors.attention": "AttentionRegressor",
    "regressors.attention_inputs": "AttentionInputs=Inputs AttentionScale=Scale",
    "regressors.attention_members": "AttentionMember=Member",
    "regressors.attention_network": "AttentionNetwork=Network",
    "regressors.attention_weighted": "AttentionWeighted",
    "regressors.bayesian": "Evidence EvidenceRidge",
    "regressors.bayesian_prime": "BayesianPrime",
    "regressors.clusters": "ClusterRegressor",
    "regressors.embedding_ridge": "EmbeddingRidge",
    "regressors.gate": "Gate",
    "regressors.mixture": "Mixture",
    "regressors.pipeline": "BagPipeline",
    "regressors.pool_predictions": "PoolPredictions",
    "regressors.predictive": "TargetScale",
    "regressors.reweighting": "Reweighting",
    "regressors.salience": "SalienceRegressor",
    "regressors.sampled_shrinkage": "SampledShrinkage",
    "regressors.shrinkage": "Shrinkage",
    "regressors.shrinkage_model": "ShrinkageCoordinates=Coordinates",
    "regressors.weightings": "Primary Pruning",
    "saving.stored_bags": "Bags=make_bags",
}


def _table(modules: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Name in files -> (module, class)."""
    found = {}
    for module, names in modules.items():
        for entry in names.split():
            name, _, kind = entry.partition("=")
            found[name] = (f"{OURS}.{module}", kind or name)
    return found


PLACES = _table(_PLACES)
NAMES = {place: name for name, place in PLACES.items()}
_OLD = {place: name for name, place in _table(_FORMER).items()}


def stable_name(module: str, kind: str) -> str | None:
    """The name in files of a class of ours; None if it has none, so that it cannot be saved.

    Examples
    --------
    >>> stable_name("bagwise.regressors.ridge_path", "RidgePath")
    'RidgePath'
    """
    return NAMES.get((module, kind))


def place_of(module: str, name: str) -> tuple[str, str] | None:
    """Where a class is that a file names: by its stable name, or (in format 2) by the module it was in.

    Examples
    --------
    >>> place_of("bagwise", "RidgePath") == place_of("bagwise.heads.ridge_path", "RidgePath")
    True
    >>> place_of("bagwise.regressors.ridge_path", "RidgePath") is None  # modules are no longer named
    True
    """
    if module == OURS:
        return PLACES.get(name)
    return PLACES.get(_OLD.get((module, name), ""))


CONSTRUCTOR = "ConstructorFromReduceNode"  # the kind of node that calls what it names, with the parts
LEFT_OUT = ("compared", "folds_checked", "kept", "id_name", "target_name", "categories")  # of new bags alone
PARTS = tuple(name for name in Bags.__slots__ if name not in LEFT_OUT)


def make_bags(
    instances, offsets, ids, groups, feature_names, has_missing, weights, covariates, covariate_names, missing="keep"
) -> Bags:
    """Bags from the parts of Bags, in the order of their slots, each checked again.

    Examples
    --------
    >>> import bagwise as bw
    >>> bags = bw.from_arrays([[[1.0], [2.0]], [[3.0]]], ids=["a", "b"])
    >>> make_bags(*(getattr(bags, name) for name in PARTS)) == bags
    True
    """
    known = {"groups": groups, "feature_names": feature_names, "missing": "refuse" if missing == "imputed" else missing}
    beside = {"weights": weights, "covariates": covariates, "covariate_names": covariate_names}
    return Bags(instances, offsets, ids, **known, **beside)


PACKAGES = (
    *("compose", "cross_decomposition", "decomposition", "dummy", "ensemble", "feature_selection", "gaussian_process"),
    *("impute", "kernel_approximation", "kernel_ridge", "linear_model", "mixture", "model_selection"),
    *("neural_network", "pipeline", "preprocessing", "random_projection", "tree"),
)
LOSSES = ("HalfSquaredError", "AbsoluteError", "HuberLoss", "PinballLoss", "HalfPoissonLoss", "HalfGammaLoss")
METRICS = ("r2_score", "mean_squared_error", "root_mean_squared_error", "mean_absolute_error", "median_absolute_error")
SCORES = ("f_regression", "r_regression")  # by which columns are selected
# Inner parts of boosted trees, networks and grid searches: no estimators, but fitted ones hold them.
INNER = {
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn.metrics._scorer._Scorer",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "sklearn._loss.link.IdentityLink",
    "sklearn._loss.link.LogLink",
    "sklearn._loss.link.Interval",
    "sklearn.ensemble._hist_gradient_boosting.binning._BinMapper",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    *(f"sklearn._loss.loss.{loss}" for loss in LOSSES),
}
UNSAFE = {"tests", "_iforest"}  # modules inside the packages: isolation trees are given rows that nobody compares
UFUNCS = (
    "numpy",
    "numpy._core._multiarray_umath",
)  # where element-wise functions say that they live; numpy 2.0 names the second
BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
SCALARS = (
    *("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("bool", "str_"),
)
_NUMBERS = {f"numpy.{name}" for name in SCALARS}
_KEYS = {f"builtins.{name}" for name in ("str", "int", "float", "bool")}

# What each kind of node may name; kinds that are not here (bound methods, partials, operators, bytes)
# are refused whatever they name. The one constructor that is called is that of Bags.
ALLOWED = {
    "JsonNode": {"builtins.str"},
    "DictNode": {"builtins.dict", "sklearn.utils._bunch.Bunch"},
    "ListNode": {"builtins.list"},
    "TupleNode": {"builtins.tuple"},
    "SetNode": {"builtins.set"},
    "SliceNode": {"builtins.slice"},
    "TypeNode": _KEYS | _NUMBERS,
    "NdArrayNode": {"numpy.ndarray"} | _NUMBERS,
    "DTypeNode": {"numpy.dtype"},
    "MaskedArrayNode": {"numpy.ma.MaskedArray"},
    "RandomStateNode": {"numpy.random.mtrand.RandomState"},
    "RandomGeneratorNode": {"numpy.random._generator.Generator"},
    "LossNode": {f"sklearn._loss._loss.Cy{loss}" for loss in LOSSES},
    "TreeNode": {"sklearn.tree._tree.Tree"},
    CONSTRUCTOR: {f"{__name__}.make_bags"},
}


class NotAllowed(Refused):
    """A type that a model file may not hold."""

    def __init__(self, name: str):
        self.name = name
        ours = name.partition(".")[0] in ("bagwise", "sklearn")
        hint = "; install the versions that saved it, which read_header tells" if ours else ""
        super().__init__(f"it names {name}, which is no part of a bagwise model here, so nothing was loaded{hint}")


def is_allowed(loader: str, module: str, name: str) -> bool:
    """Whether a node of the kind ``loader`` may name ``module.name``; nothing is imported before its module is known.

    Examples
    --------
    >>> is_allowed("ObjectNode", "sklearn.linear_model._ridge", "Ridge")
    True
    >>> is_allowed("ObjectNode", "os", "system"), is_allowed("FunctionNode", "os", "system")
    (False, False)
    >>> is_allowed("FunctionNode", "numpy", "log"), is_allowed("FunctionNode", "numpy", "fromfile")
    (True, False)
    """
    if loader == "ObjectNode":
        return _is_allowed_class(module, name)
    if loader == "FunctionNode":
        return _is_allowed_function(module, name)
    return f"{module}.{name}" in ALLOWED.get(loader, ())


def _is_allowed_function(module: str, name: str) -> bool:
    if module in UFUNCS:
        return isinstance(getattr(np, name, None), np.ufunc)
    known = {"sklearn.metrics._regression": METRICS, "sklearn.feature_selection._univariate_selection": SCORES}
    return name in known.get(module, ())


def _is_allowed_class(module: str, name: str) -> bool:
    if f"{module}.{name}" in INNER:
        return True
    package, _, rest = module.partition(".")
    part, *inside = rest.split(".")
    if set(inside) & UNSAFE or not all(name.isidentifier() for name in inside):
        return False
    if package == OURS:
        return (module, name) in NAMES and _defined_in(module, name) is not None
    if package == "sklearn" and part in PACKAGES:
        found = _defined_in(module, name)
        return found is not None and issubclass(found, _stored_by_scikit_learn())
    return False


def _defined_in(module: str, name: str) -> type | None:
    """The class ``name`` that ``module`` itself defines: not one it imported from elsewhere, not a function."""
    try:
        found = vars(import_module(module)).get(name)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith(module.partition(".")[0]):
            return None
        raise ImportError(f"this model needs {error.name}; install it, then open the model again") from error
    return found if inspect.isclass(found) and found.__module__ == module else None


def _stored_by_scikit_learn() -> tuple[type, ...]:
    from sklearn.gaussian_process.kernels import Kernel
    from sklearn.model_selection import BaseCrossValidator, BaseShuffleSplit

    return BaseEstimator, Kernel, BaseCrossValidator, BaseShuffleSplit
