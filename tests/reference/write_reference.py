"""Write the reference files again: ``write_reference.py [values [METHOD ...]] [signatures] [models]``.

Without arguments all three; with names of methods, the values of those alone. Do so only when numbers, signatures or
the model file are meant to change, and say so in CHANGES.md; model files are kept from the version that wrote them, so
that files of users are seen to open. The values are computed once more on each of the KERNELS, for how far they differ
there (minutes, mostly compiling).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np
from reference_cases import (
    ANSWERS,
    MODELS,
    SIGNATURES,
    VALUES,
    answers,
    data_sets,
    distance,
    fingerprint,
    fitted,
    gives_std,
    method_cases,
    public,
    quiet,
    signatures,
    split,
    unfitted,
    write,
)
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV

import bagwise as bw

# Environments that take other code on one and the same CPU.
KERNELS = (
    {"OPENBLAS_CORETYPE": "Haswell", "ATEN_CPU_CAPABILITY": "avx2"},
    {"OPENBLAS_CORETYPE": "Nehalem", "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX"},
    {"OPENBLAS_CORETYPE": "Prescott", "NUMBA_CPU_NAME": "generic", "ATEN_CPU_CAPABILITY": "default"},
)

# For model files, by the last name of the parameter.
SMALL = {
    **{"hidden": 6, "read": 6, "n_estimators": 3, "landmarks": 6, "directions": 3, "prototypes": 8, "n_features": 16},
    **{"n": 10, "max_iter": 4, "draws": 10},
}
# Targets that lead `auto` to a transform, and to the mean.
TARGETS = {"auto of skewed targets": lambda y: np.exp(3.0 * y), "auto of noise": lambda y: np.sin(1e4 * y)}


def values(names: list[str]) -> dict:
    """The answers of these methods (all, if none are named) on every set."""
    cases = [(data, case) for data in data_sets() for case in names or method_cases()]
    return {
        f"{data} {case}": answers(fitted(case, data), split(case, data)[2], std=gives_std(case)) for data, case in cases
    }


def models() -> dict:
    """Fitted models by the name of their file: every method, intervals around some, parts that no method has."""
    found = {}
    for name, model in {**{case: unfitted(case) for case in method_cases()}, **_intervals(), **_parts()}.items():
        bags, y, _ = split(name, "beside")
        y = TARGETS.get(name, lambda y: y)(y)
        with quiet():
            found[name] = model.set_params(**_small(model)).fit(bags, y)
    return found


def _small(model) -> dict:
    """The parameters that decide the size of a file, where the model has them."""
    found = {}
    for key, value in model.get_params().items():
        name = key.rpartition("__")[2]
        if name in SMALL and isinstance(value, int | tuple | str):
            found[key] = (SMALL[name],) if isinstance(value, tuple) else SMALL[name]
    return found


def _intervals() -> dict:
    pairs = [("aggregated", "cv+", "bag"), ("aggregated", "jackknife+", "none"), ("blr", "split", "std")]
    pairs += [("statistics:linear", "jackknife+", "bag"), ("prime", "cv+", "none")]
    return {
        f"Intervals of {method}: {kind}, {scale}": bw.Intervals(method, level=0.6, kind=kind, scale=scale, folds=3)
        for method, kind, scale in pairs
    }


def _parts() -> dict:
    """What the catalogue does not hold: the other kernels, embeddings, features, and parts of scikit-learn."""
    ridge, pipeline, path = public("EmbeddingRidge"), public("BagPipeline"), public("RidgePath")
    gaussian = public("Gaussian")
    kernels = ("Cauchy", "Exponential", "Linear", "Matern32", "Matern52", "Polynomial", "Student")
    kernels += ("RationalQuadratic",)
    rows = {f"KernelMean {name}": public("KernelMean")(public(name)()) for name in kernels}
    rows["Pool"], rows["NystroemMean"] = public("Pool")(("mean", "median")), public("NystroemMean")(gaussian())
    for rule in ("MarginalPseudolikelihood", "MedianDistance"):
        rows[f"KernelMean {rule}"] = public("KernelMean")(gaussian(public(rule)()))
    gram = public("KernelMean")(public("PrintedInverse")(), columns="gram")
    left_out = bw.Intervals("input-kme:linear", level=0.6, kind="jackknife+", refit=False)
    learner = public("RandomFeatureRidge")(public("NystroemFeatures")(8))
    return {
        **{name: ridge(embedding, path()) for name, embedding in rows.items()},
        "KernelMean PrintedInverse": ridge(gram, path(kernel="precomputed")),
        "NystroemFeatures": pipeline([("instances", public("OutOfFold")(learner, folds=3)), ("rows", ridge())]),
        "FoldMean": pipeline([("instances", public("OutOfFold")(Ridge(), folds=3)), ("rows", ridge())]),
        "Intervals in closed form": left_out,
        **{name: unfitted("auto") for name in TARGETS},
        "TransformedTarget": TransformedTargetRegressor(bw.method("aggregated"), check_inverse=False),
        "GridSearch": GridSearchCV(
            pipeline([("rows", public("Pool")()), ("head", HistGradientBoostingRegressor(max_iter=3))]),
            {"head__learning_rate": [0.1, 0.5]},
            cv=public("BagKFold")(3),
        ),
    }


def write_values(names: list[str]) -> None:
    """Those of the methods named, the others as they are; or all of them anew."""
    kept, others = values(names), [_elsewhere(kernel, names) for kernel in KERNELS]
    far = {case: float(f"{max(distance(other[case], kept[case]) for other in others):.1e}") for case in kept}
    before = json.loads(VALUES.read_text()) if names else {"between kernels": {}, "cases": {}}
    if names and before["fingerprint"] != fingerprint():
        raise SystemExit("the values that stay were written with other kernels of linear algebra; write all of them")
    both = {key: before[key] | new for key, new in (("between kernels", far), ("cases", kept))}
    write(VALUES, {"fingerprint": fingerprint()} | both)


def _elsewhere(kernel: dict, names: list[str]) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "values.json"
        call = [sys.executable, __file__, "elsewhere", path, *names]
        subprocess.run(call, env={**os.environ, **kernel}, check=True)
        return json.loads(path.read_text())


def write_models() -> None:
    kept, found = {}, models()
    with tempfile.TemporaryDirectory() as folder, tarfile.open(MODELS, "w:xz", preset=9) as archive:
        for name, model in found.items():
            path = Path(folder) / name
            with quiet():
                bw.save_model(model, path)
            archive.add(path, name)
            kept[name] = answers(model, split(name, "beside")[2], std=gives_std(name))
    write(ANSWERS, {"fingerprint": fingerprint(), "cases": kept})


if __name__ == "__main__":
    asked = sys.argv[1:] or ["values", "signatures", "models"]
    if asked[0] == "elsewhere":
        Path(asked[1]).write_text(json.dumps(values(asked[2:])))
    if "values" in asked:
        write_values([case for case in asked if case not in ("values", "signatures", "models")])
    if "signatures" in asked:
        write(SIGNATURES, signatures())
    if "models" in asked:
        write_models()
