"""Fits larger than memory, measured. `python benchmarks/scale.py [--sizes 5 50] [--data FOLDER] [--json FILE]`

For every size, in millions of instances x 16 features, instance-kme:ridge is fitted and predicts: streamed by two
processes, and by two Dask workers that may not hold the data. The other methods that are sums follow, streamed, at the
first size. Every run is a process of its own. `--paper FILE` only reads what `--json` wrote, and computes what larger
data would take. `--bags 0.2 2` only fits so many million bags of three instances each, streamed by one process, and
tells the memory of the process that asks for it. `--auto 2` only compares `auto` with one method, at so many million
instances.
"""

from __future__ import annotations

import argparse
import json
import logging
import pickle
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import psutil
from dask.sizeof import sizeof
from distributed import Client, LocalCluster
from joblib.externals.loky import get_reusable_executor
from scale_data import fresh, write, write_small_bags
from scale_paper import on_paper, print_table
from sklearn.metrics import r2_score

import bagwise as bw
from bagwise.execution import Dask, Processes
from bagwise.scale import fit_scan, predict_scan

METHOD, WORKERS, LIMIT_MB, CHUNK_ROWS, SMALL = "instance-kme:ridge", 2, 900, 500_000, 200_000
OTHERS = ["aggregated", "statistics:moments", "input-kme:fourier", "aggregate-gp", "blr:rows"]
NUMBERS = ["fit, s", "predict, s", "CPU, s", "largest worker, MB", "driver, MB", "R²"]


class Timed:
    """An executor that keeps, for every pass, the seconds it took and the bytes that were sent and came back."""

    def __init__(self, executor):
        self.executor, self.passes = executor, {}

    def run(self, function, tasks, shared=()):
        self.name = function.name
        with self._timing(shared) as found:
            for task, result in self.executor.run(function, self._weighed(tasks, found), shared):
                found["received"] += sizeof(result)
                yield task, result

    def _weighed(self, tasks, found):
        for number, piece in tasks:
            found["sent"] += len(pickle.dumps(piece))
            yield number, piece

    @contextmanager
    def _timing(self, shared):
        found = self.passes.setdefault(self.name, {"seconds": 0.0, "sent": 0, "received": 0})
        start = time.perf_counter()
        yield found
        found["seconds"] += time.perf_counter() - start


@contextmanager
def stream():
    try:
        yield Timed(Processes(WORKERS))
    finally:
        get_reusable_executor().shutdown()  # they would wait for more work, and this process for them


@contextmanager
def dask():
    options = {"n_workers": WORKERS, "threads_per_worker": 1, "memory_limit": f"{LIMIT_MB}MB"}
    quiet = {"dashboard_address": None, "silence_logs": logging.ERROR}
    with LocalCluster(**options, **quiet) as cluster, Client(cluster) as client:
        yield Timed(Dask(client))


@contextmanager
def watched(pause: float = 0.1):
    """{pid: (largest resident memory in MB, seconds on a core)} of every process below this one."""
    found, over = {}, threading.Event()

    def watch():
        while not over.wait(pause):
            for child in psutil.Process().children(recursive=True):
                with suppress(OSError, StopIteration, psutil.Error):  # it has ended, or is about to
                    found[child.pid] = peak_mb(child.pid), sum(child.cpu_times()[:2])

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


def peak_mb(pid) -> float:
    """Linux keeps the peak of every process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("VmHWM"))


def measure(folder: Path, engine: str, name: str) -> dict:
    """Fit and predict once, in this process and those it starts."""
    scan = bw.scan(folder, bag="bag", target="y", chunk_rows=CHUNK_ROWS)
    with watched() as seen, {"stream": stream, "dask": dask}[engine]() as executor:
        list(executor.executor.run(import_module, ["bagwise.scale"] * WORKERS))  # whoever starts up is not timed
        start = time.perf_counter()
        model = fit_scan(scan, name, executor=executor)
        fitted, passes, executor.passes = time.perf_counter(), executor.passes, {}
        predicted = predict_scan(model, scan, executor=executor)
        ended = time.perf_counter()
    bags, y = fresh(SMALL)
    new = model.predict(bags)
    length = getattr(getattr(model[-1] if hasattr(model, "steps") else model, "embedding_", None), "length_", None)
    return {
        "instances": scan.n_rows, "bags": len(predicted.ids), "chunks": len(scan.chunks),
        "engine": engine, "method": name, "fit": fitted - start, "predict": ended - fitted,
        "passes": passes, "length": length, "r2": r2_score(y, new), "values": predicted.values, "new": new,
        "workers_mb": sorted((peak for peak, _ in seen.values()), reverse=True), "driver_mb": peak_mb("self"),
        "cpu": sum(cpu for _, cpu in seen.values()) + time.process_time(),
    }  # fmt: skip


def apart(*arguments, function=measure) -> dict:
    """`measure` in a fresh process, whose peak is its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def measure_bags(folder: Path, name: str) -> dict:
    """Fit once, by one other process, and predict to a folder: the memory of this one, and of that one."""
    scan = bw.scan(folder, bag="bag", target="y", chunk_rows=CHUNK_ROWS)
    with watched() as seen, tempfile.TemporaryDirectory(dir=folder.parent) as work:
        start = time.perf_counter()
        model = fit_scan(scan, name, executor=Processes(2), work=work)
        fitted = time.perf_counter()
        predict_scan(model, scan, executor=Processes(2), out=Path(work) / "predictions", work=work)
        ended = time.perf_counter()
        get_reusable_executor().shutdown()
    workers = [peak for peak, _ in seen.values()]
    cpu = sum(cpu for _, cpu in seen.values()) + time.process_time()
    found = {"fit": fitted - start, "predict": ended - fitted, "cpu": cpu, "instances": scan.n_rows}
    return found | {"workers_mb": max(workers), "driver_mb": peak_mb("self")}


def measure_auto(folder: Path) -> dict:
    """CPU seconds of one method and of `auto`, one after the other, by two processes."""
    scan = bw.scan(folder, bag="bag", target="y", chunk_rows=CHUNK_ROWS)
    found = {}
    for name in (METHOD, "auto"):
        with watched() as seen, stream() as executor:
            list(executor.executor.run(import_module, ["bagwise.scale"] * WORKERS))
            time.sleep(1)
            before = sum(cpu for _, cpu in seen.values()) + time.process_time()
            model = fit_scan(scan, name, executor=executor)
            time.sleep(1)  # what is seen is a moment old
            found[name] = sum(cpu for _, cpu in seen.values()) + time.process_time() - before
    bags, y = fresh(SMALL)
    return found | {"instances": scan.n_rows, "summary": model.summary(), "r2": r2_score(y, model.predict(bags))}


def many_bags(millions: list[float], data: Path) -> None:
    """The table of `--bags`."""
    lines = []
    for size in millions:
        folder = write_small_bags(data / f"bags-{size:g}", round(size * 1e6))
        for name in (METHOD, "aggregated"):
            row = apart(folder, name, function=measure_bags)
            memory = [f"{row[key]:,.0f}" for key in ("workers_mb", "driver_mb")]
            times = [f"{row[key]:.0f}" for key in ("fit", "predict", "cpu")]
            lines.append([f"{round(size * 1e6):,}", f"{row['instances']:,}", name, *times, *memory])
            print(lines[-1], flush=True)
    print_table(["bags", "instances", "method", *NUMBERS[:5]], lines)


def agree(folder: Path) -> dict[str, float]:
    """Largest relative difference of the predictions of new bags from those of an ordinary fit in memory."""
    bags, y = bw.load(folder, bag="bag", target="y")
    base, _, preset = METHOD.partition(":")
    expected = bw.method(base, preset=preset).fit(bags, y).predict(fresh(SMALL)[0])
    found = {engine: apart(folder, engine, METHOD)["new"] for engine in ("stream", "dask")}
    return {engine: float(np.abs(new - expected).max() / np.abs(expected).max()) for engine, new in found.items()}


def rows(sizes: list[float], data: Path):
    for millions in sizes:
        folder = write(data / f"{millions:g}", round(millions * 1e6))
        megabytes = sum(path.stat().st_size for path in folder.rglob("*.parquet")) / 1e6
        streamed = apart(folder, "stream", METHOD) | {"folder_mb": megabytes}
        yield streamed
        spread = apart(folder, "dask", METHOD) | {"folder_mb": megabytes}
        yield spread | {"same": bool(all((streamed[key] == spread[key]).all() for key in ("values", "new")))}
    for name in OTHERS:
        if name != METHOD:
            yield apart(data / f"{sizes[0]:g}", "stream", name)


def show(found: dict) -> None:
    runs, others = ([row for row in found["rows"] if (row["method"] == METHOD) is ours] for ours in (True, False))
    print_table(
        ["instances", "bags", "files, MB", "engine", *NUMBERS],
        [[f"{r['instances']:,}", f"{r['bags']:,}", f"{r['folder_mb']:,.0f}", r["engine"], *_numbers(r)] for r in runs],
    )
    for streamed, spread in zip(runs[::2], runs[1::2], strict=True):
        same = "equal to the last bit" if spread["same"] else "NOT equal"
        print(f"- {spread['instances']:,} instances, Dask / streaming: {_ratios(spread, streamed)}; predictions {same}")
    for small, large in zip(runs, runs[2:], strict=False):
        more = large["instances"] / small["instances"]
        print(f"- {large['engine']}, {more:.4g} times the instances: {_ratios(large, small)}")
    gaps = ", ".join(f"{engine} {gap:.0e}" for engine, gap in found["agreement"].items())
    print(f"- largest relative difference from an ordinary fit in memory at {SMALL:,} instances: {gaps}")
    print_table(["method", "instances", *NUMBERS], [[r["method"], f"{r['instances']:,}", *_numbers(r)] for r in others])


def _ratios(one: dict, other: dict) -> str:
    return ", ".join(f"{key} {one[key] / other[key]:.2f}" for key in ("fit", "predict", "cpu"))


def _numbers(row: dict) -> list[str]:
    memory = [f"{megabytes:,.0f}" for megabytes in (row["workers_mb"][0], row["driver_mb"])]
    return [f"{row['fit']:.1f}", f"{row['predict']:.1f}", f"{row['cpu']:.0f}", *memory, f"{row['r2']:.3f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=float, nargs="+", default=[5.0, 50.0], help="millions of instances")
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "bagwise-scale", help="kept there")
    parser.add_argument("--json", type=Path, help="write what was measured here, too")
    parser.add_argument("--paper", type=Path, help="only compute, from what was measured")
    parser.add_argument("--auto", type=float, help="only compare auto with one method, at so many million instances")
    parser.add_argument("--bags", type=float, nargs="+", help="only fit so many millions of small bags")
    options = parser.parse_args()
    if options.auto:
        row = apart(write(options.data / f"{options.auto:g}", round(options.auto * 1e6)), function=measure_auto)
        one, several = (row[name] / row["instances"] * 1e6 for name in (METHOD, "auto"))
        print(
            f"CPU µs an instance: {METHOD} {one:.1f}, auto {several:.1f}, {several / one:.2f} times; R² {row['r2']:.3f}"
        )
        return print(row["summary"])
    if options.bags:
        return many_bags(options.bags, options.data)
    if options.paper:
        return on_paper(json.loads(options.paper.read_text()))
    machine = {"cores": psutil.cpu_count(), "workers": WORKERS, "limit_mb": LIMIT_MB, "chunk_rows": CHUNK_ROWS}
    found = {"machine": machine, "agreement": agree(write(options.data / "small", SMALL)), "rows": []}
    for row in rows(options.sizes, options.data):
        found["rows"].append({key: value for key, value in row.items() if key not in ("values", "new")})
        print(f"{row['instances']:,} {row['engine']} {row['method']}: fit {row['fit']:.1f} s", flush=True)
        if options.json:
            options.json.write_text(json.dumps(found, indent=1))
    show(found)


if __name__ == "__main__":
    main()
