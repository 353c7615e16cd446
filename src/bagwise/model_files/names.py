"""The names that a model file may use: stable names of our classes, and a fixed list of other types.

A file says ``bagwise.RidgePath``. The public estimators of the packages in `PARTS_OF_METHODS` go by their public names,
and a table says where other classes are. So a class can move, and files stay readable. A file names no other class of
ours.

Other allowed types are estimators of the scikit-learn packages below and the few inner types they consist of, numpy
arrays, scalars and element-wise functions, and plain containers. Packages and modules whose compiled code trusts the
sizes of fitted arrays (``svm``, ``cluster``, ``neighbors``, isolation forests) are not allowed. Objects are made
without calling their constructor, and their state is set from parts that have passed the same rule.

The exceptions are values that only a constructor can make or check: bags, slices, dtypes, masked arrays and random
generators. A file holds the arguments, and the ``make_`` functions below build the value.
"""

from __future__ import annotations

import inspect
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
    "auto.learning_curve": "LearningCurve=Curve",
    "auto.members": "MeanTarget",
    "auto.preparation": "Components ThinBags",
    "auto.screened_ridge": "ScreenedRidge",
    "auto.target_transforms": "MonotoneTarget",
    "bags.folds": "BagKFold Folds Validation",
    "bags.checks": "TrainingProfile",
    "embeddings.kernel_mean": "ChebyshevInterpolant=Interpolant",
    "embeddings.summaries": "CovariatesBeside",
    "bags.imputation": "Imputation",
    "instances.networks.cpu": "NetworkEnsemble",
    "instances.out_of_fold": "FoldMean",
    "intervals.calibration": "FoldModels LeftOutRidgePath=LeavingOut LeftOutHead LeftOutRidge RidgeSmoother=Smoother",
    "intervals.conformal": "Intervals",
    "intervals.scales": "BagQuantiles BagScale ConstantScale=Constant FittedScale=Fitted "
    "FoldQuantiles ModelScale=ModelStd",
    "model_files.names": "Bags=make_bags DType=make_dtype Generator=make_generator MaskedArray=make_masked "
    "RandomState=make_random_state Slice=make_slice",
    "methods.multi_target": "MultiTarget",
    "regressors.attention.attention_regressor": "AttentionInputs=Inputs AttentionScale=Scale",
    "regressors.attention.network": "AttentionMember=Member AttentionNetwork=Network",
    "regressors.bayesian.evidence_ridge": "Evidence TargetScale",
    "regressors.bayesian.shrinkage": "ShrinkageCoordinates=Coordinates",
}


def _read_table(modules: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Return name in files -> (module, class)."""
    places = {}
    for module, names in modules.items():
        for entry in names.split():
            name, _, kind = entry.partition("=")
            places[name] = (f"{OURS}.{module}", kind or name)
    return places


def _read_stubs(packages: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    """Return public name -> (module, name) of the names that these packages offer."""
    stubs = [read_stub(Path(__file__).parents[1] / package / "__init__.pyi") for package in packages]
    return {name: (module, name) for sources, _ in stubs for name, module in sources.items()}


LISTED = _read_table(_PLACES)
PLACES = _read_stubs(PARTS_OF_METHODS) | LISTED
NAMES = {place: name for name, place in PLACES.items()}


def stable_name(module: str, kind: str) -> str | None:
    """Return the name of a class of ours in files; None if it has none and cannot be saved.

    Examples
    --------
    >>> stable_name("bagwise.regressors.ridge_path", "RidgePath")
    'RidgePath'
    """
    return NAMES.get((module, kind))


# Values that a constructor makes --------------------------------------------------------------------------------------

# The slots of training bags that are stored.
PARTS = (
    *("instances", "offsets", "ids", "groups", "feature_names", "weights", "covariates", "covariate_names", "missing"),
)


def make_bags(instances, offsets, ids, groups, feature_names, weights, covariates, covariate_names, missing) -> Bags:
    """Return `Bags` made of its parts, each validated again.

    Examples
    --------
    >>> import bagwise as bw
    >>> bags = bw.from_arrays([[[1.0], [2.0]], [[3.0]]], ids=["a", "b"])
    >>> make_bags(*(getattr(bags, name) for name in PARTS)) == bags
    True
    """
    options = {
        "groups": groups,
        "feature_names": feature_names,
        "missing": "refuse" if missing == "imputed" else missing,
    }
    options |= {"weights": weights, "covariates": covariates, "covariate_names": covariate_names}
    return Bags(instances, offsets, ids, **options)


def make_slice(start, stop, step) -> slice:
    return slice(start, stop, step)


def make_dtype(empty: np.ndarray) -> np.dtype:
    return empty.dtype


def make_masked(data: np.ndarray, mask: np.ndarray) -> np.ma.MaskedArray:
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
    | {f"sklearn._loss._loss.Cy{loss}" for loss in LOSSES},
}


class NotAllowed(Refused):
    """A type that a model file may not hold."""

    def __init__(self, name: str):
        self.name = name
        ours = name.partition(".")[0] in ("bagwise", "sklearn")
        hint = "; install the versions that saved it, which read_header returns" if ours else ""
        super().__init__(f"it names {name}, which is no part of a bagwise model here, so nothing was loaded{hint}")


def is_allowed(kind: str, module: str, name: str) -> bool:
    """Return whether a node of this kind may name ``module.name``; no module outside the lists is imported.

    Examples
    --------
    >>> is_allowed("ObjectNode", "sklearn.linear_model._ridge", "Ridge")
    True
    >>> is_allowed("ObjectNode", "os", "system"), is_allowed("FunctionNode", "os", "system")
    (False, False)
    >>> is_allowed("FunctionNode", "numpy", "log"), is_allowed("FunctionNode", "numpy", "fromfile")
    (True, False)
    """
    if kind == "ObjectNode":
        return _is_allowed_class(module, name)
    if kind == "FunctionNode":
        return _is_allowed_function(module, name)
    return f"{module}.{name}" in ALLOWED.get(kind, ())


def _is_allowed_function(module: str, name: str) -> bool:
    if module in UFUNCS:
        return isinstance(getattr(np, name, None), np.ufunc)
    functions = {"sklearn.metrics._regression": METRICS, "sklearn.feature_selection._univariate_selection": SCORES}
    return name in functions.get(module, ())


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
        kind = _class_defined_in(module, name)
        return kind is not None and issubclass(kind, _types_of_scikit_learn())
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


def _types_of_scikit_learn() -> tuple[type, ...]:
    from sklearn.gaussian_process.kernels import Kernel
    from sklearn.model_selection import BaseCrossValidator, BaseShuffleSplit

    return BaseEstimator, Kernel, BaseCrossValidator, BaseShuffleSplit
