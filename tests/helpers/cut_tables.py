"""Methods that are fitted on all bags of a scan, and one table cut in many ways."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bagwise as bw
from bagwise.kernels.formulas import FourierFeatures
from bagwise.methods import method
from bagwise.scale.passes import Passes
from bagwise.scale.training_data import TrainingData

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


def with_value(table, column, row, value):
    """Replace one value of a table."""
    values = table[column].to_numpy(zero_copy_only=False).copy()
    values[row] = value
    return table.set_column(table.column_names.index(column), column, pa.array(values))


def rows_read(scan) -> pa.Table:
    """Return all rows that a scan reads, as one table in the order of the rows."""
    if scan.files:
        return pa.concat_tables([chunk.table() for chunk in scan.chunks])
    tables = []
    for bags in (chunk.bags for chunk in scan.chunks):
        columns = dict(zip(scan.feature_names, bags.instances.T, strict=True))
        ids = bags.ids[bags.expand(np.arange(len(bags)))]
        tables.append(pa.table(columns | {scan.bag: ids.tolist(), "__row__": bags.kept["row"]}))
    return pa.concat_tables(tables).sort_by("__row__")


def bags_read(scan):
    """Return all bags of a scan in the order in which they first appear, and their targets."""
    with Passes() as passes:
        data = TrainingData.of(scan, passes)
        order = np.argsort(data.first, kind="stable")
        bags = data.gather(np.ones(len(data), dtype=bool))[order]
        return bags, None if data.y is None else data.y[order]


def scanned(source, **options):
    return bw.scan(source, bag="bag", target="y", ignore=["site"], **options)
