"""Bytes that a scan and a fit read of a partitioned data set. `python benchmarks/bytes_read.py [--rows N]`

The data set is two years of four months, in folders ``year=.../month=...``, of 16 float32 features, sorted by time
within every file. It is read through a file system that counts the bytes it hands out.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.implementations.local import LocalFileSystem

import bagwise as bw

FEATURES = [f"x{j}" for j in range(16)]
READS: dict[str, dict] = {
    "all of it": {},
    "one year of two": {"where": "year == 2020"},
    "one month of eight": {"where": "year == 2020 and month == 3"},
    "the first quarter of every file, by the statistics of its row groups": {"where": "time < 0.25"},
    "4 features of 16": {"features": FEATURES[:4]},
    "4 features of 16, one month of eight": {"features": FEATURES[:4], "where": "year == 2020 and month == 3"},
}


class Counted(LocalFileSystem):
    """Files of this machine, and how many bytes were read of them."""

    protocol = "counted"
    bytes_read = 0

    def _open(self, path, mode="rb", **options):
        file = super()._open(path, mode, **options)
        read = file.read

        def counted(*size):
            data = read(*size)
            Counted.bytes_read += len(data)
            return data

        file.read = counted
        return file


def write(folder: Path, rows: int) -> None:
    """A data set of about that many rows."""
    rng = np.random.default_rng(0)
    each, bags = rows // 8, max(2, rows // 800)
    for year in (2019, 2020):
        for month in range(1, 5):
            site = np.sort(rng.integers(0, bags, each))
            columns = {name: rng.normal(size=each).astype(np.float32) for name in FEATURES}
            columns |= {"site": rng.permutation(site), "time": np.linspace(0, 1, each)}
            columns["aod"] = columns["site"] / bags
            place = folder / f"year={year}" / f"month={month}"
            place.mkdir(parents=True)
            pq.write_table(pa.table(columns), place / "part-0.parquet", row_group_size=max(1, each // 8))


def measure(folder: Path) -> dict[str, tuple[int, int, int]]:
    """For every way of reading: rows, bytes that the scan reads, and bytes that the fit of `aggregated` reads."""
    fsspec.register_implementation("counted", Counted, clobber=True)
    found = {}
    for name, how in READS.items():
        Counted.bytes_read = 0
        scan = bw.scan(f"counted://{folder}", bag="site", target="aod", ignore=["time"], **how)
        footers = Counted.bytes_read
        bw.fit_scan(scan, "aggregated")
        found[name] = sum(chunk.n_rows for chunk in scan.chunks), footers, Counted.bytes_read - footers
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "pixels"
        write(folder, rows)
        size = sum(path.stat().st_size for path in folder.rglob("*.parquet"))
        print(f"{rows:,} rows, {size / 1e6:,.1f} MB of files\n")
        print("| what is read | rows | scan, kB | fit, MB | of the files |\n|---|--:|--:|--:|--:|")
        for name, (n, footers, data) in measure(folder).items():
            print(f"| {name} | {n:,} | {footers / 1e3:,.0f} | {data / 1e6:,.1f} | {data / size:.1%} |")


if __name__ == "__main__":
    main()
