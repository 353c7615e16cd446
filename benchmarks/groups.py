"""How much too good scores are when folds part what belongs together: fields of one region, fields of one year.

Fields are simulated with pixels of three features: one carries the signal, two are smooth in space (or the same for all
fields of a year), as climate and calibration are. The target is the mean signal, plus a part that no feature explains
but that neighbours (fields of one year) share. A method may learn that part by the place, or the year, that the other
two features give away. It helps in folds that part neighbours, and nowhere else.

The table has R² by five folds of fields, by five folds of groups (blocks of ``bw.geo.blocks``, or years), and on fields
of blocks, or of years, that were never seen.

    python benchmarks/groups.py [--repeats 20] [--method statistics] [--json FILE]
"""

from __future__ import annotations

import argparse
import json

import geopandas
import numpy as np
import shapely
from sklearn.model_selection import cross_val_predict

import bagwise as bw

SIDE, REACH, CLIMATE = 150.0, 15.0, 50.0  # km: of a region, and over which the shared part and the marks are alike
FIELDS, PIXELS, YEARS, NOISE = 240, 20, 8, 0.3


def smooth(rng: np.random.Generator, places: np.ndarray, reach: float, waves: int = 200) -> np.ndarray:
    """A Gaussian random field of variance 1 whose correlation falls with the distance as exp(-d² / (2 reach²))."""
    slopes, phases = rng.normal(size=(2, waves)) / reach, rng.uniform(0, 2 * np.pi, waves)
    return np.sqrt(2 / waves) * np.cos(places @ slopes + phases).sum(axis=1)


def bags_of(rng: np.random.Generator, marks: np.ndarray, shared: np.ndarray, groups=None) -> tuple:
    """Bags of pixels: the signal, and the marks of the field with a little noise; and their targets."""
    n = len(marks)
    level = rng.normal(size=n)
    pixels = np.empty((n, PIXELS, 3))
    pixels[:, :, 0] = level[:, None] + rng.normal(size=(n, PIXELS))
    pixels[:, :, 1:] = marks[:, None, :] + 0.1 * rng.normal(size=(n, PIXELS, 2))
    return bw.from_arrays(list(pixels), groups=groups), level + shared + NOISE * rng.normal(size=n)


def space(rng: np.random.Generator) -> tuple:
    """Fields of a region with blocks as groups; every second block, by chance, is never seen."""
    places = rng.uniform(0, SIDE, (2 * FIELDS, 2))
    shared, *marks = (smooth(rng, places, reach) for reach in (REACH, CLIMATE, CLIMATE))
    zones = geopandas.GeoDataFrame(geometry=shapely.buffer(shapely.points(places), 0.2), crs="EPSG:32632")
    blocks = bw.geo.blocks(zones, 2 * REACH)
    bags, y = bags_of(rng, np.column_stack(marks), shared, blocks)
    return bags, y, np.isin(blocks, rng.permutation(np.unique(blocks))[::2])


def time(rng: np.random.Generator) -> tuple:
    """Fields of eight years to learn from, with years as groups, and fields of eight others."""
    year = np.repeat(np.arange(2 * YEARS), FIELDS // YEARS)
    weather = rng.normal(size=(2 * YEARS, 3))
    bags, y = bags_of(rng, weather[year, 1:], weather[year, 0], year)
    return bags, y, year < YEARS


def r2(y: np.ndarray, predicted: np.ndarray) -> float:
    """Against the variance of the simulation, the same for all columns; that of eight years varies much."""
    return 1 - np.mean((y - predicted) ** 2) / (2 + NOISE**2)


def scores(method: str, bags, y, known: np.ndarray) -> dict[str, float]:
    """R² by folds of bags, by folds of groups, and on the bags of groups that were never seen."""
    model, here, there = bw.method(method), np.flatnonzero(known), np.flatnonzero(~known)
    mine, target = bags[here], y[here]
    alone = bw.Bags(mine.instances, mine.offsets)
    by_bag = cross_val_predict(model, alone, target, cv=bw.BagKFold(5))
    by_group = cross_val_predict(model, mine, target, cv=bw.BagKFold(5))
    new = model.fit(mine, target).predict(bags[there])
    return {
        "folds of fields": r2(target, by_bag),
        "folds of groups": r2(target, by_group),
        "new groups": r2(y[there], new),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--method", default="statistics")
    parser.add_argument("--json", help="where to write the numbers")
    given = parser.parse_args()
    found = {}
    for name, simulate in (("space", space), ("time", time)):
        runs = [scores(given.method, *simulate(np.random.default_rng(seed))) for seed in range(given.repeats)]
        found[name] = {what: [run[what] for run in runs] for what in runs[0]}
    print(f"R² of {given.method}, mean ± standard error of {given.repeats} simulations")
    print(f"{'':8}" + "".join(f"{what:>20}" for what in found["space"]))
    for name, columns in found.items():
        cells = [f"{np.mean(one):+.2f} ± {np.std(one, ddof=1) / np.sqrt(len(one)):.2f}" for one in columns.values()]
        print(f"{name:8}" + "".join(f"{cell:>20}" for cell in cells))
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
