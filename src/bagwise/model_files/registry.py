"""Which types a model file may name. The list is ours and fixed; a file cannot add to it.

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
from bagwise.model_files.names import NAMES as NAMES_OF_OURS
from bagwise.model_files.names import OURS

CONSTRUCTOR = "ConstructorFromReduceNode"  # the kind of node that calls what it names, with the parts
LEFT_OUT = ("compared", "kept", "id_name", "target_name", "categories")  # of new bags alone
PARTS = tuple(name for name in Bags.__slots__ if name not in LEFT_OUT)


def make_bags(
    instances, offsets, ids, groups, feature_names, has_missing, weights, covariates, covariate_names
) -> Bags:
    """Bags from the parts of Bags, in the order of their slots, each checked again.

    Examples
    --------
    >>> import bagwise as bw
    >>> bags = bw.from_arrays([[[1.0], [2.0]], [[3.0]]], ids=["a", "b"])
    >>> make_bags(*(getattr(bags, name) for name in PARTS)) == bags
    True
    """
    return Bags(
        instances,
        offsets,
        ids,
        groups=groups,
        feature_names=feature_names,
        missing="keep" if has_missing else "refuse",
        weights=weights,
        covariates=covariates,
        covariate_names=covariate_names,
    )


PACKAGES = (
    *("compose", "cross_decomposition", "decomposition", "dummy", "ensemble", "feature_selection", "gaussian_process"),
    *("impute", "kernel_approximation", "kernel_ridge", "linear_model", "mixture", "model_selection"),
    *("neural_network", "pipeline", "preprocessing", "random_projection", "tree"),
)
LOSSES = ("HalfSquaredError", "AbsoluteError", "HuberLoss", "PinballLoss", "HalfPoissonLoss", "HalfGammaLoss")
METRICS = ("r2_score", "mean_squared_error", "root_mean_squared_error", "mean_absolute_error", "median_absolute_error")
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
NAMES = {
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
    return f"{module}.{name}" in NAMES.get(loader, ())


def _is_allowed_function(module: str, name: str) -> bool:
    if module in UFUNCS:
        return isinstance(getattr(np, name, None), np.ufunc)
    return module == "sklearn.metrics._regression" and name in METRICS


def _is_allowed_class(module: str, name: str) -> bool:
    if f"{module}.{name}" in INNER:
        return True
    package, _, rest = module.partition(".")
    part, *inside = rest.split(".")
    if set(inside) & UNSAFE or not all(name.isidentifier() for name in inside):
        return False
    if package == OURS:
        return (module, name) in NAMES_OF_OURS and _defined_in(module, name) is not None
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
