"""A partitioned Parquet data set of any size. `python benchmarks/scale_data.py MILLIONS FOLDER`

A bag of 50 to 150 instances has a level m and a spread σ. An instance has a hidden value z = m + σ ε, which its 16
features show through lines and waves, with noise, and a nuisance that is common to its bag. The target is the mean of
z + z², m + m² + σ², with noise: how z is spread within the bag makes half of it. The rows of a file are in random
order, and the bags on its borders are cut. The same size and seed give the same bytes.
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
WHOLE = "_whole.json"  # written last; names with an underscore are no data


@dataclass(frozen=True)
class Population:
    """All bags: where the rows of each begin, its level, spread and nuisance, and its target; a few numbers per bag."""

    offsets: np.ndarray
    level: np.ndarray
    spread: np.ndarray
    nuisance: np.ndarray
    y: np.ndarray

    @classmethod
    def drawn(cls, n: int, seed: int) -> Population:
        rng = np.random.default_rng(seed)
        ends = np.cumsum(rng.integers(50, 151, size=n // 50 + 1))
        offsets = np.append(0, np.append(ends[ends < n], n))
        level, nuisance, noise = rng.standard_normal((3, len(offsets) - 1))
        spread = rng.uniform(0.3, 1.5, size=len(level))
        level /= 2
        return cls(offsets, level, spread, nuisance, level + level**2 + spread**2 + 0.1 * noise)

    def bag_of(self, rows: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.offsets, rows, side="right") - 1

    def features(self, bag: np.ndarray, rng) -> np.ndarray:
        """Of some new instances of these bags: (rows, 16) in float32."""
        slope, wave, phase = np.random.default_rng(1).uniform(-1, 1, size=(3, FEATURES)).astype(np.float32)
        z = (self.level[bag] + self.spread[bag] * rng.standard_normal(len(bag))).astype(np.float32)[:, None]
        X = slope * z + np.cos(3 * wave * z + 3 * phase) + slope[::-1] * self.nuisance[bag, None].astype(np.float32)
        return X + np.float32(0.5) * rng.standard_normal(X.shape, dtype=np.float32)


def write(folder: Path, n: int, seed: int = 0) -> Path:
    """The data set of n instances, unless it is there; one row group at a time is in memory."""
    about = json.dumps({"instances": n, "seed": seed, "features": FEATURES, "file": FILE_ROWS, "group": GROUP_ROWS})
    if (folder / WHOLE).exists() and (folder / WHOLE).read_text() == about:
        return folder
    population = Population.drawn(n, seed)
    borders = np.linspace(0, n, max(4, -(-n // FILE_ROWS)) + 1).astype(int)
    for part, (start, stop) in enumerate(zip(borders[:-1], borders[1:], strict=True)):
        path = folder / f"part={part}" / "rows.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_file(path, population, start, stop, np.random.default_rng([seed, part]))
    (folder / WHOLE).write_text(about)
    return folder


def _write_file(path: Path, population: Population, start: int, stop: int, rng) -> None:
    types = [("bag", pa.int64()), ("y", pa.float64()), *((name, pa.float32()) for name in NAMES)]
    rows = start + rng.permutation(stop - start)
    options = {"use_dictionary": ["bag", "y"], "write_page_checksum": True}
    with pq.ParquetWriter(path, pa.schema(types), **options) as writer:
        for first in range(0, len(rows), GROUP_ROWS):
            bag = population.bag_of(rows[first : first + GROUP_ROWS])
            X = population.features(bag, rng)
            writer.write_table(pa.table([bag, population.y[bag], *np.ascontiguousarray(X.T)], writer.schema))


def write_small_bags(folder: Path, n_bags: int, seed: int = 0) -> Path:
    """So many bags of two to four instances of four features, one after another; unless they are there."""
    about = json.dumps({"small bags": n_bags, "seed": seed})
    if (folder / WHOLE).exists() and (folder / WHOLE).read_text() == about:
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    for part, first in enumerate(range(0, n_bags, 100_000)):
        rng = np.random.default_rng([seed, part])
        level = rng.standard_normal(min(100_000, n_bags - first))
        bag = np.repeat(np.arange(len(level)), rng.integers(2, 5, size=len(level)))
        X = (level[bag, None] + rng.standard_normal((len(bag), 4))).astype(np.float32)
        y = level + 0.1 * rng.standard_normal(len(level))
        columns = {"bag": first + bag, "y": y[bag]} | dict(zip(NAMES, X.T, strict=False))
        pq.write_table(pa.table(columns), folder / f"part-{part:05d}.parquet", row_group_size=GROUP_ROWS)
    (folder / WHOLE).write_text(about)
    return folder


def fresh(n: int, seed: int = 10**6) -> tuple[bw.Bags, np.ndarray]:
    """Bags of as many instances that are in no data set, and their targets."""
    population = Population.drawn(n, seed)
    X = population.features(population.bag_of(np.arange(n)), np.random.default_rng([seed, 0]))
    return bw.Bags(X, population.offsets, feature_names=NAMES), population.y


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("millions", type=float)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    print(write(options.folder, round(options.millions * 1e6)))
