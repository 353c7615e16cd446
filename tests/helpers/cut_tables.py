"""Methods that can be fitted out of core, and one table in different chunks."""

import numpy as np
import pyarrow.parquet as pq
import pytest

import bagwise as bw
from bagwise.kernels.formulas import FourierFeatures
from bagwise.methods import method

METHODS = ["aggregate-gp", "aggregated", "blr:rows", "input-kme:fourier", "instance-kme:ridge", "statistics:moments"]
# What the methods share is tried with two of them, one without and one with an instance stage; the slow run takes all.
SHARED = [
    pytest.param(name, marks=[] if name in ("aggregated", "instance-kme:ridge") else pytest.mark.slow)
    for name in METHODS
]


def small(name):
    """Return the method with few random features and settings, because the tests do not depend on their number."""
    base, _, preset = name.partition(":")
    model = method(base, preset=preset or None)
    for key, value in model.get_params().items():
        if isinstance(value, FourierFeatures):
            model.set_params(**{f"{key}__n_features": 40})
    return model.set_params(grid={"bandwidth": [0.5, 1.0]}) if base == "aggregate-gp" else model


def cut(table, folder, seed):
    """Write the rows in a different order, in files and row groups of any length, with bags split between them."""
    rng = np.random.default_rng(seed)
    shuffled = table.take(rng.permutation(table.num_rows)) if seed % 2 else table
    borders = np.sort(rng.choice(np.arange(1, table.num_rows), size=rng.integers(1, 6), replace=False))
    for k, (start, stop) in enumerate(zip([0, *borders], [*borders, table.num_rows], strict=True)):
        part = shuffled.slice(start, stop - start)
        pq.write_table(part, folder / f"part-{k}.parquet", row_group_size=int(rng.integers(1, 400)))
    return folder


def scanned(source, **options):
    return bw.scan(source, bag="bag", target="y", ignore=["site"], **options)
