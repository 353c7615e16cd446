"""What is kept as reference: cases, the numbers a model gives, public signatures, and where numbers come from.

Only public names are used, so that code can move without a change here. `write_reference.py` writes the files.
"""

from __future__ import annotations

import inspect
import json
import pkgutil
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

import bagwise as bw

HERE = Path(__file__).parent
VALUES, SIGNATURES = HERE / "values.json", HERE / "signatures.json"

# How far answers may be from those kept, on the kernels that wrote them: networks learn in single precision, and chains
# amplify the last digit. Elsewhere rounding differs: answers may differ by MARGIN times the largest difference that was
# seen between kernels, and by FLOOR at least. Where that was more than CHAOTIC nothing is compared elsewhere.
STRICT, MARGIN, FLOOR, CHAOTIC = 1e-6, 100.0, 2e-6, 1e-3

# Fewer folds than the 50 of the paper, smaller networks, shorter chains: the code is the same.
SHORT = {
    "instance-kme:paper": {"instances__folds": 4, "instances__regressor__epochs": 10},
    "instance-kme:notebook": {"instances__folds": 4, "instances__regressor__epochs": 5},
    "additive": {"folds": 2, "epochs": 30},
    "additive:sum": {"folds": 2, "epochs": 30},
    "attention": {"restarts": 2, "epochs": 30},
    "attention:gated": {"restarts": 2, "epochs": 30},
    "attention:moments": {"restarts": 2, "epochs": 30},
    "instance-kme-attention": {"attention__restarts": 1, "attention__epochs": 10, "instances__folds": 4},
    "instance-kme-attention:loss": {"attention__restarts": 1, "attention__epochs": 10, "instances__folds": 4},
    "instance-kme-attention:embedding": {"attention__restarts": 1, "attention__epochs": 10, "instances__folds": 4},
    "shrinkage": {"folds": 3},
    "shrinkage:nonstationary": {"folds": 3},
    "shrinkage:between": {"folds": 3},
    "bdr": {"shrinkage__folds": 2, "draws": 50, "warmup": 50},
    "bdr:nonstationary": {"shrinkage__folds": 2, "draws": 50, "warmup": 50},
    "bdr:between": {"shrinkage__folds": 2, "draws": 50, "warmup": 50},
    "bmir": {"head__burn_in": 100, "head__draws": 200},
    "bmir:paper": {"head__burn_in": 300, "head__draws": 300},
    "auto": {"members": ["aggregated", "statistics:linear", "instance-mean"], "folds": 3},
}
UNWEIGHED = {  # cases that take no weights of instances
    *("attention", "instance-kme-attention", "cluster", "salience", "prime", "pruning", "em", "bmir", "miles"),
    "Intervals of prime",
}
TRAINING = 24  # bags; those behind them are new


@cache
def data_sets() -> dict:
    """Three small sets, name -> (bags, targets): equal bags of one feature; ragged bags of 16; all that bags carry."""
    rng = np.random.default_rng(7)
    sizes = rng.integers(1, 7, size=30)
    offsets = np.r_[0, np.cumsum(sizes)]
    x, covariates = rng.normal(size=(offsets[-1], 3)), rng.normal(size=(30, 2)) * [1.0, 50.0]
    bags = bw.Bags(
        x,
        offsets=offsets,
        ids=[f"bag {i}" for i in range(30)],
        groups=[f"group {i // 2}" for i in range(30)],
        feature_names=["a", "b", "c"],
        weights=rng.uniform(0.1, 3.0, size=len(x)),
        covariates=covariates,
        covariate_names=["u", "v"],
    )
    means = np.add.reduceat(np.sin(x[:, 0]) + x[:, 1], offsets[:-1]) / sizes
    return {
        "equal": bw.datasets.make_gaussian(30, instances=5, random_state=1),
        "ragged": bw.datasets.make_aerosol(30, instances=8, ragged=True, random_state=2),
        "beside": (bags, means + 0.5 * covariates[:, 0] + 0.1 * rng.normal(size=30)),
    }


def method_cases() -> list[str]:
    """ "method" for a first preset, "method:preset" for the others."""
    cases = []
    for name in bw.method_names():
        first, *others = bw.method_card(name).preset_names
        cases += [name, *(f"{name}:{preset}" for preset in others)]
    return cases


def unfitted(case: str):
    """A method, with less to do."""
    return bw.method(case).set_params(**SHORT.get(case, {}))


def fitted(case: str, data: str):
    """A method, fitted to the first bags of a set."""
    bags, y = split(case, data)[:2]
    with quiet():
        return unfitted(case).fit(bags, y)


def split(case: str, data: str):
    """The bags and targets to train on, and new bags."""
    bags, y = data_sets()[data]
    if case.partition(":")[0] in UNWEIGHED and bags.weights is not None:
        bags = bags.without_weights()
    return bags[:TRAINING], y[:TRAINING], bags[TRAINING:]


def answers(model, bags, *, std: bool = False) -> dict[str, list[float]]:
    """What a model tells of bags: predictions, deviations and intervals if it has them, and what instances matter."""
    with quiet():
        found = {"predict": model.predict(bags)}
        if std:
            found["std"] = model.predict(bags, return_std=True)[1]
        if hasattr(model, "predict_interval"):
            found["interval"] = model.predict_interval(bags)
        explained = bw.explain(model, bags[:2])
        for what in ("contributions", "weights", "instance_predictions", "effects"):
            found[what] = getattr(explained, what)
    return {what: np.ravel(value).tolist() for what, value in found.items() if value is not None}


def gives_std(case: str) -> bool:
    name = case.partition(":")[0]
    return name in bw.method_names() and "std" in bw.method_card(name).gives


def distance(one: dict, other: dict) -> float:
    """The largest difference between answers of the same kind, relative to how far the numbers of the kind spread."""
    if one.keys() != other.keys():
        raise AssertionError(f"answers of other kinds: {', '.join(one)}, and {', '.join(other)}")
    return max(float(np.abs(np.subtract(one[what], other[what])).max() / _spread(other[what])) for what in other)


def _spread(values) -> float:
    values = np.asarray(values)
    return float(np.ptp(values) or np.abs(values).max() or 1.0)


@contextmanager
def quiet():
    """One thread, and no warnings: the sets are too small for some methods."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@cache
def fingerprint() -> dict[str, str]:
    """What decides how numbers are rounded: the linear algebra, the code that numba makes, and the versions."""
    import llvmlite.binding
    import numba

    bw.method("aggregated").fit(*data_sets()["equal"])  # the libraries are loaded
    found = {
        "linear algebra": " ".join(sorted({i["architecture"] for i in threadpool_info() if i.get("architecture")})),
        "numba": f"{numba.config.CPU_NAME or llvmlite.binding.get_host_cpu_name()}",
        "numpy": " ".join(np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])),
    }
    return found | {f"version of {name}": version(name) for name in ("numpy", "scipy", "scikit-learn", "numba")}


def tolerance(kept: dict, case: str) -> float | None:
    """How far the answers of a case may be from those kept; None for any distance."""
    if fingerprint() == kept["fingerprint"]:
        return STRICT
    seen = kept.get("between kernels", {}).get(case, 0.0)
    return max(FLOOR, MARGIN * seen) if seen < CHAOTIC else None


def signatures() -> dict[str, str]:
    """Every public name of the package and of its subpackages, and the public methods of the classes -> signature.

    Names are those users write: a class keeps its line when it moves from one subpackage to another.
    """
    found = dict(_signatures_of(bw, "bw."))
    for module in pkgutil.iter_modules(bw.__path__):
        if module.ispkg and not module.name.startswith("_"):
            found.update(_signatures_of(import_module(f"bagwise.{module.name}"), ""))
    found.update(_signatures_of(bw.plots, ""))
    return dict(sorted(found.items()))


def _signatures_of(package, prefix: str) -> Iterator[tuple[str, str]]:
    for name in getattr(package, "__all__", ()):
        value = getattr(package, name)
        if not callable(value):
            yield f"{prefix}{name}", "module" if inspect.ismodule(value) else type(value).__name__
            continue
        yield f"{prefix}{name}", _signature(value)
        if inspect.isclass(value) and not prefix:
            yield from _methods_of(value)


def _methods_of(kind: type) -> Iterator[tuple[str, str]]:
    for name, value in inspect.getmembers_static(kind):
        function = getattr(value, "fget", getattr(value, "__func__", value))
        if name.startswith("_") or not getattr(function, "__module__", "").startswith("bagwise"):
            continue
        if isinstance(value, property):
            yield f"{kind.__name__}.{name}", "property"
        elif inspect.isfunction(function):
            yield f"{kind.__name__}.{name}", _signature(function)


def _signature(value) -> str:
    """As text; addresses and the modules that types live in are left out."""
    text = re.sub(r" at 0x[0-9a-f]+", "", str(inspect.signature(value)))
    return re.sub(r"\bbagwise(\.[a-z_0-9]+)+\.", "", text)


def read(path: Path) -> dict:
    return json.loads(path.read_text())


def write(path: Path, content: dict) -> None:
    """JSON, a line per entry, so that a difference can be read."""
    path.write_text(_lines(content) + "\n")


def _lines(content: dict, indent: str = "") -> str:
    rows = []
    for key, value in content.items():
        nested = isinstance(value, dict) and key in ("cases", "fingerprint", "between kernels")
        text = _lines(value, indent + " ") if nested else json.dumps(value, ensure_ascii=False)
        rows.append(f"{indent} {json.dumps(key, ensure_ascii=False)}: {text}")
    return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
