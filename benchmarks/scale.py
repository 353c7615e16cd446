"""Fits larger than memory, measured. `python benchmarks/scale.py --millions 5 --bag-size 10 --order random sorted`

Each row of the table is a process of its own, which fits one method to a table on disk and predicts it. CPU seconds are
those of the process and of all it starts. Another version is measured side by side with `PYTHONPATH=OTHER/src`.
`--driver-bags 10` only fits a head to 10 million bags x 256 numbers, which are generated as blocks are read.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage

import numpy as np
from joblib.externals.loky import get_reusable_executor
from scale_data import ORDERS, fresh, write
from sklearn.metrics import r2_score

import bagwise as bw
from bagwise.execution import Dask, Processes, Serial

WORKERS, LIMIT_MB, NEW_INSTANCES = 2, 900, 200_000
ENGINES = ("one", "stream", "dask")
COLUMNS = ("instances", "order", "method", "engine", "fit, CPU s", "predict, CPU s", "fit, s", "driver, MB")
COLUMNS += ("largest worker, MB", "R²")


@contextmanager
def executor_of(engine: str):
    """Yield this process, two processes, or two Dask workers that may hold 900 MB each."""
    if engine == "one":
        yield Serial()
    elif engine == "stream":
        yield Processes(WORKERS)
        get_reusable_executor().shutdown()
    else:
        from distributed import Client, LocalCluster

        options = {"n_workers": WORKERS, "threads_per_worker": 1, "memory_limit": f"{LIMIT_MB}MB"}
        with LocalCluster(**options, dashboard_address=None) as cluster, Client(cluster) as client:
            yield Dask(client)


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of those that it started and that have ended."""
    return sum(sum(getrusage(who)[:2]) for who in (RUSAGE_SELF, RUSAGE_CHILDREN))


def measure(folder: str, engine: str, method: str, bag_size: int, chunk_rows: int) -> dict:
    scan = bw.scan(folder, bag="bag", target="y", chunk_rows=chunk_rows)
    start, before = time.perf_counter(), cpu_seconds()
    with executor_of(engine) as executor:
        model = bw.fit_scan(scan, method, executor=executor)
    row = {"fit, s": time.perf_counter() - start, "fit, CPU s": cpu_seconds() - before}
    before = cpu_seconds()
    with executor_of(engine) as executor, tempfile.TemporaryDirectory(dir=Path(folder).parent) as parent:
        bw.predict_scan(model, scan, executor=executor, out=Path(parent) / "predictions")
    row |= {"predict, CPU s": cpu_seconds() - before, "driver, MB": getrusage(RUSAGE_SELF).ru_maxrss / 1e3}
    row["largest worker, MB"] = getrusage(RUSAGE_CHILDREN).ru_maxrss / 1e3
    bags, y = fresh(NEW_INSTANCES, bag_size=bag_size)
    return row | {"R²": float(r2_score(y, model.predict(bags)))}


class GeneratedRows:
    """Rows of bags that are drawn when they are read, so that nothing but the driver needs memory."""

    def __init__(self, n_rows: int, seed: int):
        self.shape, self.seed = (n_rows, 256), seed

    def __getitem__(self, rows: slice) -> np.ndarray:
        low, high, _ = rows.indices(self.shape[0])
        rng = np.random.default_rng([self.seed, low])
        return rng.standard_normal((high - low, self.shape[1]), dtype=np.float32)


def measure_driver(n_bags: int) -> None:
    """Print the memory and CPU seconds of a head that is fitted to rows in blocks."""
    from bagwise.regressors.row_blocks import RowBlocks  # here, so that a version without it can be measured

    sources = [GeneratedRows(len(part), seed) for seed, part in enumerate(np.array_split(np.arange(n_bags), 100))]
    rows, rng = RowBlocks.of(*sources), np.random.default_rng(0)
    slope, y = rng.standard_normal(256) / 16, rng.standard_normal(n_bags)
    for bags, block in rows.blocks():
        y[bags] += block @ slope
    head, before = bw.method("input-kme:fourier"), getrusage(RUSAGE_SELF).ru_maxrss / 1e3
    setting, start = head.settings()[0], cpu_seconds()
    head.remember_targets(y, None)
    head.fit_embedded(iter([(setting, head.embedding_for(setting), rows)]), y, None, None, None)
    most = getrusage(RUSAGE_SELF).ru_maxrss / 1e3
    print(
        f"{n_bags:,} bags: {cpu_seconds() - start:.0f} CPU s, at most {most:,.0f} MB, {before:,.0f} MB before the fit"
    )


def print_table(header, rows: list) -> None:
    """Print a table in Markdown."""
    print("| " + " | ".join(header) + " |\n|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |", flush=True)


def _shown(value) -> str:
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 1 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millions", type=float, nargs="+", default=[5.0], help="of instances")
    parser.add_argument("--bag-size", type=int, default=10, help="mean number of instances of a bag")
    parser.add_argument("--order", nargs="+", choices=ORDERS, default=["random", "sorted"])
    parser.add_argument("--engine", nargs="+", choices=ENGINES, default=["one"])
    parser.add_argument("--method", nargs="+", default=["input-kme:fourier"])
    parser.add_argument("--chunk-rows", type=int, default=1_000_000)
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "bagwise-scale", help="kept there")
    parser.add_argument("--json", type=Path, help="write what was measured here, too")
    parser.add_argument("--driver-bags", type=float, help="only measure the memory of a head, for so many million bags")
    parser.add_argument("--row", nargs=3, metavar=("FOLDER", "ENGINE", "METHOD"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        return print(json.dumps(measure(*options.row, options.bag_size, options.chunk_rows)))
    if options.driver_bags:
        return measure_driver(round(options.driver_bags * 1e6))
    rows = []
    how = ["--bag-size", str(options.bag_size), "--chunk-rows", str(options.chunk_rows)]
    for millions in options.millions:
        for order in options.order:
            name, n = f"{millions:g}-{options.bag_size}-{order}", round(millions * 1e6)
            folder = write(options.data / name, n, bag_size=options.bag_size, order=order)
            for method in options.method:
                for engine in options.engine:
                    command = [sys.executable, __file__, *how, "--row", str(folder), engine, method]
                    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                    row = {"instances": n, "order": order, "method": method, "engine": engine}
                    rows.append(row | json.loads(done.stdout.splitlines()[-1]))
                    print(rows[-1], file=sys.stderr, flush=True)
    print_table(COLUMNS, [[_shown(row[name]) for name in COLUMNS] for row in rows])
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
