"""What larger data would take, from rates that `scale.py` has measured; and tables in Markdown."""

from __future__ import annotations

from dataclasses import dataclass
from math import log2

CASES = [(10**9, 1), (10**9, 100), (10**10, 100)]  # instances, machines
LINK = 1.25e9  # bytes a second: 10 Gbit/s


@dataclass(frozen=True)
class Rates:
    """Of the largest run by Dask; what grows with the bags is the difference to the smallest."""

    fit: float  # core-seconds of all passes, per instance
    predict: float
    driver_seconds: float  # between passes, per bag
    driver_bytes: float  # held, per bag
    base_bytes: float  # held by a driver without bags
    worker_bytes: float
    network_bytes: float  # from and to the driver, in a fit, per instance
    fold_bytes: float  # the sums of a chunk
    row_bytes: float  # the row of a bag
    file_bytes: float  # per instance
    bags: float  # per instance
    chunk_rows: int
    cores: int
    measured: int  # instances

    @classmethod
    def of(cls, found: dict) -> Rates:
        runs = sorted((r for r in found["rows"] if r["engine"] == "dask"), key=lambda row: row["instances"])
        small, large = runs[0], runs[-1]
        n, cores = large["instances"], found["machine"]["workers"]
        passes = [one for name, one in large["passes"].items() if name != "alone"]
        grown = (large["driver_mb"] - small["driver_mb"]) * 1e6 / max(1, large["bags"] - small["bags"])
        return cls(
            fit=cores * sum(one["seconds"] for one in passes) / n,
            predict=cores * large["predict"] / n,
            driver_seconds=(large["fit"] - sum(one["seconds"] for one in passes)) / large["bags"],
            driver_bytes=grown,
            base_bytes=small["driver_mb"] * 1e6 - grown * small["bags"],
            worker_bytes=max(large["workers_mb"]) * 1e6,
            network_bytes=sum(one["sent"] + one["received"] for one in passes) / n,
            fold_bytes=large["passes"]["fold_sums"]["received"],
            row_bytes=8 * (large.get("length") or 192),
            file_bytes=large["folder_mb"] * 1e6 / n,
            bags=large["bags"] / n,
            chunk_rows=found["machine"]["chunk_rows"],
            cores=cores,
            measured=n,
        )

    def lines(self):
        """(what, how, its value for N instances on M machines)."""
        r, us = self, 1e6
        core = f"N x {r.fit * us:.1f} µs / ({r.cores} M)"
        yield "passes of a fit", core, lambda N, M: duration(N * r.fit / (r.cores * M))
        each = f"B x {r.driver_seconds * us:.1f} µs"
        yield "the driver, between passes", each, lambda N, M: duration(N * r.bags * r.driver_seconds)
        core = f"N x {r.predict * us:.2f} µs / ({r.cores} M)"
        yield "predict", core, lambda N, M: duration(N * r.predict / (r.cores * M))
        # sums that wait to be added are a tree: at most one for each of its heights
        waiting = f"{size(r.worker_bytes)} + {size(r.fold_bytes)} x log2(N / {r.measured:.0e})".replace("e+0", "e")
        yield "memory of a worker", waiting, lambda N, M: size(r.worker_bytes + r.fold_bytes * log2(N / r.measured))
        held = f"{size(r.base_bytes)} + B x {r.driver_bytes:,.0f} bytes"
        yield "memory of the driver", held, lambda N, M: size(r.base_bytes + N * r.bags * r.driver_bytes)
        # from two chunks, for files are cut in two, and once whole
        kept = f"B x 3 x {r.row_bytes:,.0f} bytes"
        yield "the folder `work`, a fit", kept, lambda N, M: size(N * r.bags * 3 * r.row_bytes)
        moved = f"N x {r.network_bytes:.1f} bytes"
        yield "network of the driver, a fit", moved, lambda N, M: size(N * r.network_bytes)
        yield "the same at 10 Gbit/s", "/ 1.25 GB/s", lambda N, M: duration(N * r.network_bytes / LINK)
        folds = f"N / {r.chunk_rows:,} x {size(r.fold_bytes)} / M"
        yield (
            "sums between machines, each",
            folds,
            lambda N, M: "none" if M == 1 else size(N / r.chunk_rows * r.fold_bytes / M),
        )
        read = f"N x {r.file_bytes:.0f} bytes / M"
        yield "files read in a pass, a machine", read, lambda N, M: size(N * r.file_bytes / M)


def on_paper(found: dict) -> None:
    """The table for `CASES`; B is the number of bags, M that of machines like the one that was measured."""
    rates = Rates.of(found)
    print(f"B = N x {rates.bags:.4f}; M machines of {rates.cores} cores.")
    header = [f"{N:.0e} instances, M = {M}".replace("e+", "e").replace("e0", "e") for N, M in CASES]
    print_table(["", "", *header], [[what, how, *(f(N, M) for N, M in CASES)] for what, how, f in rates.lines()])


def duration(seconds: float) -> str:
    for unit, length, least in (("h", 3600, 5400), ("min", 60, 90), ("s", 1, 0)):
        if seconds >= least:
            return f"{seconds / length:,.1f} {unit}" if seconds / length < 10 else f"{seconds / length:,.0f} {unit}"


def size(n_bytes: float) -> str:
    unit, scale = ("GB", 1e9) if n_bytes >= 1e9 else ("MB", 1e6)
    return f"{n_bytes / scale:,.1f} {unit}" if n_bytes / scale < 10 else f"{n_bytes / scale:,.0f} {unit}"


def print_table(header: list[str], rows: list[list[str]]) -> None:
    """In Markdown."""
    print("\n" + "\n".join(f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows)) + "\n")
