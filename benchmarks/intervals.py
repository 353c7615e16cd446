"""Coverage and width of the intervals of `bagwise.intervals`, by kind and scale, on new bags of several simulations.

    python benchmarks/intervals.py               the first two tables of docs/intervals_measured.md; minutes on one core
    python benchmarks/intervals.py --quick       one draw of each
    python benchmarks/intervals.py --choices     few bags and a method that chooses its embedding: how much the closed
                                                 form of jackknife+ loses by leaving bags out after the choice
    python benchmarks/intervals.py --scores      quantile scores beside absolute ones, with skewed errors and without
    python benchmarks/intervals.py --seconds     CPU seconds of predict_interval, as many new bags as training bags
    python benchmarks/intervals.py --by          calibrated by site, or over all sites, where sites differ in noise

Every row is the mean over draws: the share of the targets of new bags inside their interval (all bags, the smallest
fifth by number of instances, the largest fifth) and the mean width of the intervals.
"""

from __future__ import annotations

import argparse
import time
from unittest.mock import patch

import numpy as np

import bagwise as bw
from bagwise.intervals import BagScale, Intervals, coverage, coverage_by_size, gaussian_coverage, order_statistics
from bagwise.intervals.order_statistics import fifths

KINDS = ("cv+", "jackknife+", "split")
SCALES = {"none": "none", "size": BagScale(spread=False), "size and spread": "bag"}
PROBABILISTIC = ("blr", "shrinkage", "bdr")
LEVEL, N_NEW = 0.9, 200


def law(n_bags: int, draw: int):
    """Bags of 5, 20, 100 or 1,000 instances (Law et al., 2018), a quarter of each."""
    data = bw.datasets.make_law(23 + draw, s5=25, parts=["train", "test"])
    return tuple((bags[:n], y[:n]) for (bags, y), n in ((data["train"], n_bags), (data["test"], N_NEW)))


def problem(kind: str):
    """One of the kinds of `make_problem`, bags of 5 to 55 instances."""

    def draw_bags(n_bags: int, draw: int):
        return tuple(
            bw.datasets.make_problem(kind, n, random_state=s) for n, s in ((n_bags, draw), (N_NEW, 100 + draw))
        )

    return draw_bags


STATISTICS = bw.method("statistics", preset="linear")
DATA = {
    "law, 40 bags, statistics": (law, 40, STATISTICS, 6),
    "law, 200 bags, statistics": (law, 200, STATISTICS, 6),
    "mean, 40 bags, aggregated": (problem("mean"), 40, "aggregated", 8),
    "shape, 200 bags, statistics": (problem("shape"), 200, STATISTICS, 3),
}


def measure(data, n_bags: int, draws: int, *models: Intervals) -> list[np.ndarray]:
    """Mean over the draws of coverage (all, smallest, largest) and width, for every model."""
    found = [[] for _ in models]
    for draw in range(draws):
        (bags, y), (new, y_new) = data(n_bags, draw)
        for model, rows in zip(models, found, strict=True):
            interval = model.fit(bags, y).predict_interval(new)
            rows.append([*coverage_by_size(y_new, interval, new.sizes).values(), np.diff(interval).mean()])
    return [np.mean(rows, axis=0) for rows in found]


def line(*cells) -> str:
    return "| " + " | ".join(f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in cells) + " |"


def by_kind_and_scale(quick: bool) -> None:
    print(line("simulation, method", "kind", "scale", "coverage", "smallest", "largest", "width"))
    print("|---|---|---|--:|--:|--:|--:|")
    for title, (data, n_bags, method, draws) in DATA.items():
        names = [(kind, scale) for kind in KINDS for scale in SCALES]
        models = [Intervals(method, kind=kind, scale=SCALES[scale], level=LEVEL) for kind, scale in names]
        for name, row in zip(names, measure(data, n_bags, 1 if quick else draws, *models), strict=True):
            print(line(title, *name, *map(float, row)), flush=True)


def own_calibration(quick: bool) -> None:
    print("\n" + line("simulation", "method", "0.5", "0.8", "0.9", "0.95", "cv+, std: 0.9", "smallest", "largest"))
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|")
    for title, data in {"law, 200 bags": law, "mean, 200 bags": problem("mean")}.items():
        (bags, y), (new, y_new) = data(200, 0)
        for name in PROBABILISTIC[: 1 if quick else None]:
            model = Intervals(name, scale="std", folds=5, level=LEVEL).fit(bags, y)
            own = gaussian_coverage(y_new, *model.method_.predict(new, return_std=True))
            ours = coverage_by_size(y_new, model.predict_interval(new), new.sizes)
            print(line(title, name, *own.values(), *ours.values()), flush=True)


def choices(draws: int = 16) -> None:
    print(line("simulation, method", "kind", "coverage", "smallest", "largest", "width"))
    print("|---|---|--:|--:|--:|--:|")
    models = {
        "jackknife+, refit=False": Intervals("input-kme", kind="jackknife+", refit=False, level=LEVEL),
        "cv+": Intervals("input-kme", level=LEVEL),
    }

    def shape(n_bags: int, draw: int):
        bags, y = bw.datasets.make_problem("shape", n_bags + 300, random_state=draw)
        return (bags[:n_bags], y[:n_bags]), (bags[n_bags:], y[n_bags:])

    for name, row in zip(models, measure(shape, 40, draws, *models.values()), strict=True):
        print(line("shape, 40 bags, input-kme", name, *map(float, row)), flush=True)


def skewed(n_bags: int, draw: int):
    """Targets between 0 and 3 with an exponential error, large for small bags and large targets."""

    def made(n: int, seed: int):
        rng = np.random.default_rng(seed)
        sizes, level = rng.integers(1, 30, n), rng.uniform(0, 3, n)
        bags = bw.from_arrays([rng.normal(size=(m, 2)) * 0.1 + [c, 0] for m, c in zip(sizes, level, strict=True)])
        return bags, level + rng.exponential(size=n) * (0.1 + level / np.sqrt(sizes))

    return made(n_bags, draw), made(1000, 100 + draw)


def scores(draws: int = 10) -> None:
    """Absolute and quantile scores: coverage over all bags and over the fifths by prediction, and Winkler's score."""
    print(line("simulation, aggregated", "scores", "coverage", "smallest predictions", "largest", "width", "score"))
    print(line("---", "---", *["--:"] * 5))
    for name, data in (("skewed", skewed), ("mean", problem("mean"))):
        for n_bags in (60, 200, 600):
            for kind in ("absolute", "quantile"):
                rows = []
                for draw in range(draws):
                    (bags, y), (new, truth) = data(n_bags, draw)
                    model = Intervals("aggregated", scores=kind).fit(bags, y)
                    interval, fifth = model.predict_interval(new), fifths(model.predict(new))
                    low, high = interval.T
                    width, outside = high - low, np.maximum(low - truth, 0) + np.maximum(truth - high, 0)
                    parts = [coverage(truth[fifth == k], interval[fifth == k]) for k in (0, 4)]
                    rows.append([coverage(truth, interval), *parts, width.mean(), np.mean(width + 20 * outside)])
                print(
                    line(f"{name}, {n_bags} bags", kind, *(f"{one:.3f}" for one in np.mean(rows, axis=0))), flush=True
                )


def seconds() -> None:
    """Print CPU seconds with the usual choice of algorithm, and where all values are compared whatever their number."""
    print(line("training bags", "new bags", "comparing all values", "bisection"))
    print("|--:|--:|--:|--:|")
    for n_bags, n_new in ((5_000, 5_000), (10_000, 10_000), (20_000, 20_000), (20_000, 100_000)):
        rows = np.random.default_rng(0).normal(size=(3 * (n_bags + n_new), 4))
        bags = bw.Bags(rows, 3 * np.arange(n_bags + n_new + 1))
        y = rows[:, 0].reshape(-1, 3).mean(axis=1)
        model, taken = Intervals("aggregated", level=LEVEL).fit(bags[:n_bags], y[:n_bags]), []
        for bisected in (np.inf, order_statistics.BISECTED):
            with patch.object(order_statistics, "BISECTED", bisected):
                start = time.process_time()
                if n_new <= 20_000 or np.isfinite(bisected):
                    model.predict_interval(bags[n_bags:])
                taken.append(time.process_time() - start)
        compared = f"{taken[0]:.2f}" if n_new <= 20_000 else "not measured"
        print(line(f"{n_bags:,}", f"{n_new:,}", compared, f"{taken[1]:.2f}"), flush=True)


def by_site(draws: int = 20) -> None:
    """Print the coverage within four sites of 60 bags, whose noise has a deviation of 1 to 4, ours and MAPIE's."""

    def draw(rng, per_site: int):
        site, value = np.tile(np.arange(4), per_site), rng.normal(size=4 * per_site)
        bags = bw.from_arrays([v + rng.normal(size=(5, 2)) for v in value])
        bags = bags.with_covariates(site[:, None], ["site"])
        return bags, value + (1.0 + site) * rng.normal(size=len(site)), site

    def ours(bags, y, new, by):
        return Intervals("aggregated", by=by).fit(bags, y).predict_interval(new)

    def mapie(bags, y, new, by):
        """Return cv+ intervals of MAPIE around ridge regression on bag means, of all bags or of each site alone."""
        from mapie.regression import CrossConformalRegressor
        from sklearn.linear_model import RidgeCV

        rows, new_rows = (
            np.column_stack([[bag.mean(axis=0) for bag in part], part.covariates]) for part in (bags, new)
        )
        interval = np.empty((len(new), 2))
        for part in [range(4)] if by is None else [[k] for k in range(4)]:
            train, test = np.isin(rows[:, -1], part), np.isin(new_rows[:, -1], part)
            model = CrossConformalRegressor(RidgeCV(), confidence_level=0.9, method="plus", cv=10)
            model.fit_conformalize(rows[train], y[train])
            interval[test] = model.predict_interval(new_rows[test])[1][:, :, 0]
        return interval

    for name, method, by in (
        ("bagwise, all bags", ours, None),
        ('bagwise, by="site"', ours, "site"),
        ("MAPIE, all bags", mapie, None),
        ("MAPIE, each site alone", mapie, "site"),
    ):
        shares, widths = [], []
        for seed in range(draws):
            rng = np.random.default_rng(seed)
            bags, y, _ = draw(rng, 60)
            new, truth, site = draw(rng, 500)
            interval = method(bags, y, new, by)
            shares.append([coverage(truth[site == k], interval[site == k]) for k in range(4)])
            widths.append(np.ptp(interval, axis=1).mean())
        cells = " | ".join(f"{share:.1%}" for share in np.mean(shares, axis=0))
        print(f"| {name} | {cells} | {np.mean(widths):.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--choices", action="store_true")
    parser.add_argument("--scores", action="store_true")
    parser.add_argument("--seconds", action="store_true")
    parser.add_argument("--by", action="store_true")
    args = parser.parse_args()
    start = time.perf_counter()
    if args.by:
        by_site()
    elif args.choices:
        choices()
    elif args.scores:
        scores()
    elif args.seconds:
        seconds()
    else:
        by_kind_and_scale(args.quick)
        own_calibration(args.quick)
    print(f"\n{time.perf_counter() - start:.0f} seconds")


if __name__ == "__main__":
    main()
