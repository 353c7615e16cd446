"""Networks trained on rows that stream, against the same fit in memory. `python benchmarks/streamed_networks.py`

For every seed a data set of `scale_data` is written and fitted by instance-kme:single, in memory and as it streams from
the files; the first also by two processes and, for its memory, at a fifth of the size. Every fit is a process of its
own. Bags of 200,000 new instances tell the errors. `--sorted` fits small tables sorted by bag, with buffers of a fifth
of the rows: in memory, as it streams, and as it would stream if an epoch read the data once.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage

import numpy as np
from joblib.externals.loky import get_reusable_executor
from scale_data import fresh, write
from sklearn.base import clone

import bagwise as bw
from bagwise.execution import Processes, Serial
from bagwise.scale import streamed_networks
from scale import print_table

CHUNK_ROWS, SMALL = 500_000, 200_000


class Counted:
    """An executor that counts the passes over the data."""

    def __init__(self, executor):
        self.executor, self.passes = executor, 0

    def run(self, function, tasks, shared=()):
        self.passes += 1
        return self.executor.run(function, tasks, shared)


class CountedHere(Counted, Serial):
    """The same in this process, where all networks are trained together."""


class CountedProcesses(Counted, Processes):
    def __init__(self, executor):
        super().__init__(executor)
        self.n_jobs = executor.n_jobs


def measure(folder: Path, engine: str, seed: int, epochs: tuple[int, ...]) -> dict:
    """Fit once, in this process and those it starts."""
    method = bw.method("instance-kme", preset="single", random_state=seed)
    method.set_params(instances__regressor__epochs=epochs, instances__n_jobs=2)
    start, executor = time.perf_counter(), None
    if engine == "memory":
        model = method.fit(*bw.load(folder, bag="bag", target="y"))
    else:
        scan = bw.scan(folder, bag="bag", target="y", chunk_rows=CHUNK_ROWS)
        executor = CountedHere(Serial()) if engine == "stream" else CountedProcesses(Processes(2))
        model = bw.fit_scan(scan, method, executor=executor)
    seconds = time.perf_counter() - start
    get_reusable_executor().shutdown()
    used = [getrusage(who) for who in (RUSAGE_SELF, RUSAGE_CHILDREN)]
    bags, y = fresh(SMALL)
    predicted = model.predict(bags)
    return {
        "seconds": seconds, "cpu": sum(one.ru_utime + one.ru_stime for one in used), "engine": engine, "seed": seed,
        "mb": max(one.ru_maxrss for one in used) * 1024 / 1e6, "epochs": model["instances"].candidate_["epochs"],
        "passes": executor.passes if executor else "", "squares": (predicted - y) ** 2, "r2": model.score(bags, y),
    }  # fmt: skip


def apart(*arguments) -> dict:
    """`measure` in a fresh process, whose peak is its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure, *arguments).result()


def show(n: int, rows: list[dict]) -> None:
    print_table(
        ["instances", "seed", "engine", "fit, s", "CPU, s", "passes", "largest process, MB", "epochs", "R²"],
        [
            [f"{row.get('n', n):,}", f"{row['seed']}", row["engine"], f"{row['seconds']:.0f}", f"{row['cpu']:.0f}",
             f"{row['passes']}", f"{row['mb']:,.0f}", f"{row['epochs']}", f"{row['r2']:.4f}"]
            for row in rows
        ],
    )  # fmt: skip
    by = {(row["engine"], row["seed"]): row["squares"] for row in rows if "n" not in row}
    seeds = sorted({seed for _, seed in by})
    gaps = np.array([by["stream", seed].mean() - by["memory", seed].mean() for seed in seeds])
    squares = np.mean([by["memory", seed] for seed in seeds], axis=0)
    print(f"- mean squared error in memory {squares.mean():.5f}, standard error over the bags {_error(squares):.5f}")
    more = f", standard error over the seeds {_error(gaps):.5f}" if len(gaps) > 1 else ""
    print(f"- streamed minus memory {gaps.mean():+.5f}{more}: {', '.join(f'{gap:+.5f}' for gap in gaps)}")
    if ("processes", seeds[0]) in by:
        same = (by["processes", seeds[0]] == by["stream", seeds[0]]).all()
        print(f"- two processes: predictions {'equal to the last bit' if same else 'NOT equal'}")


def sorted_bags(seeds: int) -> None:
    """Mean squared errors of three fits to 200,000 instances of bags that lie one after another."""
    new, t = fresh(SMALL)
    streamed_networks.BUFFER_ROWS = SMALL // 5 + SMALL // 100
    readings, found = streamed_networks.READINGS, []
    for seed in range(seeds):
        bags, y = fresh(SMALL, seed)
        method = bw.method("instance-kme", preset="single", random_state=seed)
        method.set_params(instances__regressor__epochs=(2, 4))
        models = [clone(method).fit(bags, y)]
        for streamed_networks.READINGS in (readings, 1):
            models.append(bw.fit_scan(bw.scan(bags, target=y, chunk_rows=SMALL // 10), method))
        found.append([float(((model.predict(new) - t) ** 2).mean()) for model in models])
        print("memory {:.4f}, streamed {:.4f}, read once {:.4f}".format(*found[-1]), flush=True)
    errors = np.array(found)
    for k, name in ((1, "streamed"), (2, "read once")):
        gaps = errors[:, k] - errors[:, 0]
        print(f"- {name} minus memory {gaps.mean():+.5f}, standard error over the seeds {_error(gaps):.5f}")
    print(f"- means {errors.mean(axis=0).round(4).tolist()}")


def _error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millions", type=float, default=5.0, help="of instances")
    parser.add_argument("--epochs", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seeds", type=int, default=3, help="how many data sets")
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "bagwise-scale", help="kept there")
    parser.add_argument("--sorted", action="store_true", help="small tables sorted by bag")
    options = parser.parse_args()
    if options.sorted:
        return sorted_bags(options.seeds)
    n, epochs, rows = round(options.millions * 1e6), tuple(options.epochs), []

    def add(size: int, engine: str, seed: int, **more) -> None:
        folder = write(options.data / f"{size / 1e6:g}-{seed}", size, seed)
        rows.append(apart(folder, engine, seed, epochs) | more)
        print(f"{size:,} {engine} {seed}: {rows[-1]['seconds']:.0f} s", flush=True)

    for seed in range(options.seeds):
        add(n, "memory", seed)
        add(n, "stream", seed)
    add(n, "processes", 0)
    add(n // 5, "stream", 0, n=n // 5)
    show(n, rows)


if __name__ == "__main__":
    main()
