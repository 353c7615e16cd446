"""Parquet tables of any size with bags of instances. `python benchmarks/scale_data.py MILLIONS FOLDER`

A bag has a level m and a spread σ. An instance has a hidden value z = m + σ ε, which its 16 features show through lines
and waves, with noise, and a nuisance that is common to its bag. The target is the mean of z + z², m + m² + σ², with
noise: how z is spread within the bag makes half of it. The same options give the same bytes.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import bagwise as bw

FEATURES, FILE_ROWS, GROUP_ROWS = 16, 1_000_000, 125_000
NAMES = [f"x{j}" for j in range(FEATURES)]
ORDERS = ("random", "files", "sorted")
WHOLE = "_whole.json"  # written last; names with an underscore are no data


@dataclass(frozen=True)
class Population:
    """All bags: where the rows of each begin, its level, spread and nuisance, and its target."""

    offsets: np.ndarray
    level: np.ndarray
    spread: np.ndarray
    nuisance: np.ndarray
    y: np.ndarray

    @classmethod
    def draw(cls, n: int, seed: int, bag_size: int) -> Population:
        """Draw bags of half to one and a half times ``bag_size`` instances, n in all."""
        rng = np.random.default_rng(seed)
        least = max(1, bag_size // 2)
        ends = np.cumsum(rng.integers(least, 3 * bag_size // 2 + 1, size=n // least + 1))
        offsets = np.append(0, np.append(ends[ends < n], n))
        level, nuisance, noise = rng.standard_normal((3, len(offsets) - 1))
        spread = rng.uniform(0.3, 1.5, size=len(level))
        level /= 2
        return cls(offsets, level, spread, nuisance, level + level**2 + spread**2 + 0.1 * noise)

    def bag_of(self, rows: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.offsets, rows, side="right") - 1

    def features(self, bag: np.ndarray, rng) -> np.ndarray:
        """Draw the features of new instances of these bags: (rows, 16) in float32."""
        slope, wave, phase = np.random.default_rng(1).uniform(-1, 1, size=(3, FEATURES)).astype(np.float32)
        z = (self.level[bag] + self.spread[bag] * rng.standard_normal(len(bag))).astype(np.float32)[:, None]
        X = slope * z + np.cos(3 * wave * z + 3 * phase) + slope[::-1] * self.nuisance[bag, None].astype(np.float32)
        return X + np.float32(0.5) * rng.standard_normal(X.shape, dtype=np.float32)


def write(folder: Path, n: int, seed: int = 0, *, bag_size: int = 100, order: str = "files") -> Path:
    """Write a table of n instances, unless it is there; one row group at a time is in memory.

    The rows are in random order ("random"), in random order within each file, so that few bags lie in two files
    ("files"), or sorted by bag ("sorted").
    """
    about = {"instances": n, "seed": seed, "features": FEATURES, "file": FILE_ROWS, "group": GROUP_ROWS}
    text = json.dumps(about | {"bag_size": bag_size, "order": order})
    if (folder / WHOLE).exists() and (folder / WHOLE).read_text() == text:
        return folder
    population = Population.draw(n, seed, bag_size)
    rows = np.random.default_rng(seed).permutation(n) if order == "random" else np.arange(n)
    for part, own in enumerate(np.array_split(rows, max(4, -(-n // FILE_ROWS)))):
        path, rng = folder / f"part={part}" / "rows.parquet", np.random.default_rng([seed, part])
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_file(path, population, rng.permutation(own) if order == "files" else own, rng)
    (folder / WHOLE).write_text(text)
    return folder


def _write_file(path: Path, population: Population, rows: np.ndarray, rng) -> None:
    types = [("bag", pa.int64()), ("y", pa.float64()), *((name, pa.float32()) for name in NAMES)]
    options = {"use_dictionary": ["bag", "y"], "write_page_checksum": True}
    with pq.ParquetWriter(path, pa.schema(types), **options) as writer:
        for start in range(0, len(rows), GROUP_ROWS):
            bag = population.bag_of(rows[start : start + GROUP_ROWS])
            X = population.features(bag, rng)
            writer.write_table(pa.table([bag, population.y[bag], *np.ascontiguousarray(X.T)], writer.schema))


def fresh(n: int, seed: int = 10**6, *, bag_size: int = 100) -> tuple[bw.Bags, np.ndarray]:
    """Return bags that are in no table, n instances in all, and their targets."""
    population = Population.draw(n, seed, bag_size)
    X = population.features(population.bag_of(np.arange(n)), np.random.default_rng([seed, 0]))
    return bw.Bags(X, population.offsets, feature_names=NAMES), population.y


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("millions", type=float)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--bag-size", type=int, default=100)
    parser.add_argument("--order", choices=ORDERS, default="files")
    options = parser.parse_args()
    n = round(options.millions * 1e6)
    print(write(options.folder, n, bag_size=options.bag_size, order=options.order))
