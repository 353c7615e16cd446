"""The names that a model file may use: stable names of our classes, and a fixed list of other types.

A file says ``bagwise.RidgePath``, so a class can move and files stay readable. Estimators of `PARTS_OF_METHODS` have
their public names, and a table says where other classes are. Other allowed types are estimators of the scikit-learn
packages below with their inner types, numpy arrays, scalars and element-wise functions, and plain containers; not
packages whose compiled code trusts the sizes of fitted arrays (``svm``, ``cluster``, ``neighbors``, isolation forests).

Objects are created without calling their constructor, except values that only a constructor can create or check; for
these a file holds the arguments.
"""

from __future__ import annotations

import inspect
from functools import lru_cache
from importlib import import_module
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator

from bagwise.bags import Bags
from bagwise.first_use import read_stub
from bagwise.model_files.archive import AGAIN, Refused

OURS = "bagwise"

PARTS_OF_METHODS = ("embeddings", "instances", "kernels", "regressors")

# Module -> other classes. "Name=Class" stands for a class that has another name in files.
_PLACES = {
    "auto.auto_regressor": "AutoRegressor",
    "auto.large_data": "Components ScreenedRidge ThinBags",
    "auto.learning_curve": "LearningCurve=Curve",
    "auto.members": "MeanTarget",
    "auto.target_transforms": "MonotoneTarget",
    "bags.folds": "Folds Validation",
    "bags.splitter": "BagKFold",
    "bags.training_profile": "TrainingProfile",
    "embeddings.kernel_mean": "ChebyshevInterpolant=Interpolant",
    "embeddings.summaries": "CovariatesBeside",
    "bags.imputation": "Imputation",
    "instances.networks.cpu": "NetworkEnsemble",
    "instances.out_of_fold": "FoldMean",
    "intervals.calibration": "FoldModels LeftOutRidgePath=LeavingOut LeftOutHead LeftOutRidge",
    "intervals.conformal": "Intervals",
    "intervals.scales": "BagQuantiles BagScale ConstantScale=Constant FittedScale=Fitted "
    "FoldQuantiles ModelScale=ModelStd",
    "model_files.names": "Bags=make_bags DType=make_dtype Generator=make_generator MaskedArray=make_masked "
    "RandomState=make_random_state",
    "methods.multi_target": "MultiTarget",
    "regressors.attention.attention_regressor": "AttentionInputs=Inputs AttentionScale=Scale",
    "regressors.attention.network": "AttentionMember=Member AttentionNetwork=Network",
    "regressors.bayesian.evidence_ridge": "Evidence TargetScale",
    "regressors.bayesian.shrinkage": "ShrinkageCoordinates=Coordinates",
}


# Name in files -> (module, class)
LISTED = {
    entry.partition("=")[0]: (f"{OURS}.{module}", entry.rpartition("=")[2])
    for module, entries in _PLACES.items()
    for entry in entries.split()
}
_STUBS = [read_stub(Path(__file__).parents[1] / package / "__init__.pyi")[0] for package in PARTS_OF_METHODS]
PLACES = {name: (module, name) for stub in _STUBS for name, module in stub.items()} | LISTED
NAMES = {place: name for name, place in PLACES.items()}


def stable_name(module: str, kind: str) -> str | None:
    """Return the name in files of a class of bagwise; None if it has no name and cannot be saved."""
    return NAMES.get((module, kind))


# Values that a constructor makes --------------------------------------------------------------------------------------

# The slots of training bags that are stored.
PARTS = (
    *("instances", "offsets", "ids", "groups", "feature_names", "weights", "covariates", "covariate_names", "missing"),
)


def make_bags(instances, offsets, ids, groups, feature_names, weights, covariates, covariate_names, missing) -> Bags:
    """Return `Bags` made of its parts, each validated again."""
    missing = "refuse" if missing == "imputed" else missing
    options = {"groups": groups, "feature_names": feature_names, "missing": missing, "weights": weights}
    return Bags(instances, offsets, ids, **options, covariates=covariates, covariate_names=covariate_names)


def make_dtype(empty: np.ndarray) -> np.dtype:
    return empty.dtype


def make_masked(data: np.ndarray, mask: np.ndarray) -> np.ma.MaskedArray:
    """Return a masked array; the constructor of numpy would also take a dtype, and with it allocate any size."""
    return np.ma.MaskedArray(data, mask)


def make_random_state(state: dict) -> np.random.RandomState:
    generator = np.random.RandomState()
    generator.set_state(state)
    return generator


BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")


def make_generator(state: dict, seed: dict) -> np.random.Generator:
    """Return a random generator in the given state of its bit generator and seed sequence."""
    name = state["bit_generator"]
    if name not in BIT_GENERATORS:
        raise ValueError(f"numpy.random.{name} is not a bit generator")
    if seed["pool_size"] != 4:  # numpy allocates a pool of any size it is given
        raise Refused(f"a random generator has a pool of unusual size; {AGAIN}")
    bit_generator = getattr(np.random, name)(np.random.SeedSequence(**seed))
    bit_generator.state = state
    return np.random.Generator(bit_generator)


# Allowed types --------------------------------------------------------------------------------------------------------

PACKAGES = (
    *("compose", "cross_decomposition", "decomposition", "dummy", "ensemble", "feature_selection", "gaussian_process"),
    *("impute", "kernel_approximation", "kernel_ridge", "linear_model", "mixture", "model_selection"),
    *("neural_network", "pipeline", "preprocessing", "random_projection", "tree"),
)
LOSSES = ("HalfSquaredError", "AbsoluteError", "HuberLoss", "PinballLoss", "HalfPoissonLoss", "HalfGammaLoss")
METRICS = ("r2_score", "mean_squared_error", "root_mean_squared_error", "mean_absolute_error", "median_absolute_error")
SCORES = ("f_regression", "r_regression")  # which select columns
# Parts of fitted boosted trees, networks and grid searches that are not estimators.
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
UNSAFE = {"tests", "_iforest"}  # modules of these packages; isolation trees do not check the width of their input
UFUNCS = ("numpy", "numpy._core._multiarray_umath")  # modules of element-wise functions, the second in numpy 2.0
SCALARS = (
    *("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("bool", "str_"),
)
_NUMBERS = {f"numpy.{name}" for name in SCALARS}
_KEYS = {f"builtins.{name}" for name in ("str", "int", "float", "bool")}

# Kind of node -> the types it may name. Other kinds (bound methods, partials, operators, bytes) are refused.
CONSTRUCTOR = "ConstructorNode"
ALLOWED = {
    "DictNode": {"builtins.dict", "sklearn.utils._bunch.Bunch"},
    "PairsNode": {"builtins.dict"},
    "ListNode": {"builtins.list"},
    "TupleNode": {"builtins.tuple"},
    "SetNode": {"builtins.set"},
    "TypeNode": _KEYS | _NUMBERS,
    "NdArrayNode": {"numpy.ndarray"} | _NUMBERS,
    "TreeNode": {"sklearn.tree._tree.Tree"},
    CONSTRUCTOR: {f"{module}.{name}" for module, name in NAMES if module == __name__}
    | {"builtins.slice", *(f"sklearn._loss._loss.Cy{loss}" for loss in LOSSES)},
}


class NotAllowed(Refused):
    """A type that a model file may not hold."""

    def __init__(self, name: str):
        self.name = name
        ours = name.partition(".")[0] in ("bagwise", "sklearn")
        hint = "; install the versions that saved it, which read_header returns" if ours else ""
        super().__init__(f"it names {name}, which is no part of a bagwise model here, so nothing was loaded{hint}")


@lru_cache(maxsize=10_000)
def is_allowed(kind: str, module: str, name: str) -> bool:
    """Return whether a node of this kind may name ``module.name``; no module outside the lists is imported."""
    if kind == "ObjectNode":
        return _is_allowed_class(module, name)
    if kind == "FunctionNode":
        if module in UFUNCS:
            return isinstance(getattr(np, name, None), np.ufunc)
        functions = {"sklearn.metrics._regression": METRICS, "sklearn.feature_selection._univariate_selection": SCORES}
        return name in functions.get(module, ())
    return f"{module}.{name}" in ALLOWED.get(kind, ())


def _is_allowed_class(module: str, name: str) -> bool:
    if f"{module}.{name}" in INNER:
        return True
    package, _, path = module.partition(".")
    part, *modules = path.split(".")
    if set(modules) & UNSAFE or not all(step.isidentifier() for step in modules):
        return False
    if package == OURS:
        kind = _class_defined_in(module, name) if (module, name) in NAMES else None
        return kind is not None and (NAMES[module, name] in LISTED or issubclass(kind, BaseEstimator))
    if package == "sklearn" and part in PACKAGES:
        from sklearn.gaussian_process.kernels import Kernel
        from sklearn.model_selection import BaseCrossValidator, BaseShuffleSplit

        kind = _class_defined_in(module, name)
        return kind is not None and issubclass(kind, BaseEstimator | Kernel | BaseCrossValidator | BaseShuffleSplit)
    return False


def _class_defined_in(module: str, name: str) -> type | None:
    """Return a class that the module itself defines; None for functions and for classes that it imports."""
    try:
        value = vars(import_module(module)).get(name)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith(module.partition(".")[0]):
            return None
        raise ImportError(f"this model needs {error.name}; install it, then open the model again") from error
    return value if inspect.isclass(value) and value.__module__ == module else None
