"""What a large table takes in memory while it is loaded, measured in a process of its own."""

import subprocess
import sys

import pytest

MAKE = """
import sys
import numpy as np, pyarrow as pa, pyarrow.parquet as pq

def text(codes, labels):
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(labels)).cast(pa.string())

rows, rng = 10_000_000, np.random.default_rng(0)
bag = rng.integers(0, rows // 100, rows)  # in no order
columns = {"plot": text(bag, [f"plot-{k:06d}" for k in range(rows // 100)])}
columns["crop"] = text(rng.integers(0, 3, rows), ["wheat", "maize", "rye"])
columns |= {f"x{j}": pa.array(rng.normal(size=rows)) for j in range(4)} | {"yield": pa.array(np.sin(1.0 * bag))}
pq.write_table(pa.table(columns), sys.argv[1])
print(pa.table(columns).nbytes)
"""
LOAD = """
import resource, sys, warnings
import pyarrow.parquet, scipy.sparse
import bagwise as bw

bw.load  # imports what it needs
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with warnings.catch_warnings(action="ignore"):
    bags, y = bw.load(sys.argv[1], bag="plot", target="yield")
print(1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has another unit elsewhere")
def test_a_large_table_takes_three_times_its_size(tmp_path):
    def run(code):
        command = [sys.executable, "-c", code, str(tmp_path / "large.parquet")]
        return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    size, taken = run(MAKE), run(LOAD)
    assert taken < 3 * size, f"{taken / size:.2f} times"
