"""Write the reference files again: ``write_reference.py [values [METHOD ...]] [signatures]``.

Without arguments both; with names of methods, the values of those alone. Do so only when numbers or signatures are
meant to change, and say so in CHANGES.md. The values are computed once more on each of the KERNELS, for how far they
differ there (minutes, mostly compiling).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from reference_cases import (
    SIGNATURES,
    VALUES,
    answers,
    data_sets,
    distance,
    fingerprint,
    fitted,
    gives_std,
    method_cases,
    signatures,
    split,
    write,
)

# Environments that take other code on one and the same CPU.
KERNELS = (
    {"OPENBLAS_CORETYPE": "Haswell"},
    {"OPENBLAS_CORETYPE": "Nehalem", "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX"},
    {"OPENBLAS_CORETYPE": "Prescott", "NUMBA_CPU_NAME": "generic"},
)


def values(names: list[str]) -> dict:
    """The answers of these methods (all, if none are named) on every set."""
    cases = [(data, case) for data in data_sets() for case in names or method_cases()]
    return {
        f"{data} {case}": answers(fitted(case, data), split(case, data)[2], std=gives_std(case)) for data, case in cases
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


if __name__ == "__main__":
    asked = sys.argv[1:] or ["values", "signatures"]
    if asked[0] == "elsewhere":
        Path(asked[1]).write_text(json.dumps(values(asked[2:])))
    if "values" in asked:
        write_values([case for case in asked if case not in ("values", "signatures")])
    if "signatures" in asked:
        write(SIGNATURES, signatures())
