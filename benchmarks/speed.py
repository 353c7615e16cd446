"""Speed, as ratios taken side by side in one run. `python benchmarks/speed.py [--quick] [--json FILE]`

Every row times our way and another on the same data, one after the other, and says how well their results agree.
Seconds depend on the machine; ratios less so. Nothing here is asserted: it prints a table.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
import warnings
from copy import copy
from pathlib import Path

import numpy as np
import sklearn
from rich.console import Console
from rich.table import Table
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor

import bagwise as bw
from bagwise.embeddings import KernelMean, mean_gram
from bagwise.instances import NetworkRegressor, OutOfFold, RandomFeatureRidge
from bagwise.kernels import Gaussian, InverseMultiquadric
from bagwise.kernels.formulas import FourierFeatures
from bagwise.methods.instance_kme import PAPER_BANDWIDTHS, PAPER_PENALTIES
from bagwise.regressors import EmbeddingRidge, RidgePath

QUIET = {"tol": 0.0, "n_iter_no_change": 10**6}  # scikit-learn's network must run all its epochs


def seconds(function, *, repeat: int = 1) -> tuple[float, object]:
    """The best of a few runs, and the result."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
    return min(times), result


def networks(n_bags, size, d, units, epochs, decay, n_networks, n_theirs, label):
    """(a), (b): D networks out of fold as one job, against a loop over scikit-learn's."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_bags * size, d))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=len(X))
    fold = np.repeat(np.arange(n_bags) % n_networks, size)
    options = {"epochs": epochs, "weight_decay": decay, "scale_target": False}
    NetworkRegressor((units,), epochs=1).fit(X[:400], y[:400])  # compile, or load what was compiled
    ours, fitted = seconds(lambda: NetworkRegressor((units,), **options).cross_fit(X, y, fold, n_jobs=-1))
    train, test = fold != 0, fold == 0
    theirs, models = seconds(
        lambda: [
            MLPRegressor(hidden_layer_sizes=(units,), alpha=decay, max_iter=epochs, random_state=seed, **QUIET).fit(
                X[train], y[train]
            )
            for seed in range(n_theirs)
        ]
    )
    rmse = np.sqrt(np.mean((fitted.predictions[test, 0] - y[test]) ** 2))
    their_rmse = np.sqrt(np.mean([(model.predict(X[test]) - y[test]) ** 2 for model in models]))
    return {
        "what": label,
        "ours": ours / n_networks,
        "theirs": theirs / n_theirs,
        "agreement": f"RMSE {rmse:.3f} / {their_rmse:.3f}",
        "agrees": bool(rmse < 1.15 * their_rmse),
    }


def embedding(n_bags, kernel):
    """Scalars of the size of crop yields, in bags of 100."""
    rng = np.random.default_rng(0)
    bags = bw.from_arrays([rng.uniform(0, 200) * 0.5 + rng.normal(50, 15, size=100) for _ in range(n_bags)])
    y = rng.normal(size=n_bags)

    def ours():
        rows = KernelMean(kernel, units="label").fit_transform(bags)
        return rows, RidgePath(PAPER_PENALTIES).fit(rows, y)

    return bags, ours


def pairwise_loop(bags, kernel, *, pairs: int) -> float:
    """Seconds of the double loop over bags and instances, timed on some pairs of bags and scaled to all of them."""
    rng = np.random.default_rng(0)
    chosen = rng.integers(0, len(bags), size=(pairs, 2))
    half = -0.5 / kernel.bandwidth**2
    start = time.perf_counter()
    for i, j in chosen:
        total = 0.0
        for a in bags[int(i)][:, 0].tolist():
            for b in bags[int(j)][:, 0].tolist():
                total += np.exp(half * (a - b) ** 2)
    return (time.perf_counter() - start) / pairs * len(bags) ** 2


def notebook_loop(bags, kernel) -> np.ndarray:
    """The paper's notebook: one call of a vectorised kernel for every pair of bags, lower triangle mirrored."""
    gram = np.empty((len(bags), len(bags)))
    for i in range(len(bags)):
        for j in range(i + 1):
            gram[i, j] = gram[j, i] = kernel(bags[i], bags[j]).sum() / len(bags[i]) / len(bags[j])
    return gram


def embeddings(quick):
    """(c): the linear-time map with all penalties, against double loops and against exact blocks."""
    kernel = Gaussian(50.0)
    bags, ours = embedding(160, kernel)
    fast, (rows, _) = seconds(ours, repeat=7)
    loop = pairwise_loop(bags, kernel, pairs=4 if quick else 20)
    notebook, gram = seconds(lambda: notebook_loop(bags, kernel))
    gap = np.abs(rows @ rows.T - gram).max() / np.abs(gram).max()
    same = {"agreement": f"largest difference {gap:.0e}", "agrees": bool(gap < 1e-10)}
    yield {"what": "(c) embedding + path, 160 x 100, against double loops", "ours": fast, "theirs": loop, **same}
    yield {"what": "(c) the same against a kernel call per pair of bags", "ours": fast, "theirs": notebook, **same}
    n_bags = 160 if quick else 640
    bags, ours = embedding(n_bags, kernel)
    fast, (rows, _) = seconds(ours, repeat=7)
    blocks, gram = seconds(lambda: mean_gram(kernel, bags))
    gap = np.abs(rows @ rows.T - gram).max() / np.abs(gram).max()
    same = {"agreement": f"largest difference {gap:.0e}", "agrees": bool(gap < 1e-10)}
    yield {"what": f"(c) against exact blocks, {n_bags} x 100", "ours": fast, "theirs": blocks, **same}


def grid(quick):
    """(d): the paper's whole grid, against training one of the networks it comes after."""
    n_bags = 160 if quick else 640
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_bags * 100, 16))
    y = np.repeat(rng.normal(size=n_bags), 100)
    network, _ = seconds(lambda: NetworkRegressor((128,), epochs=100, n_jobs=1).fit(X, y))
    bags, _ = embedding(n_bags, Gaussian(50.0))
    kernels = [kernel(theta) for kernel in (Gaussian, InverseMultiquadric) for theta in PAPER_BANDWIDTHS]
    search = EmbeddingRidge(KernelMean(units="label"), RidgePath(PAPER_PENALTIES), grid={"kernel": kernels})
    ours, model = seconds(lambda: search.fit(bags, y[::100]))
    what = f"(d) grid of 2 x 14 x 16 against one network, {n_bags} x 100"
    agreement = f"{len(model.search_)} settings x 16"
    return {"what": what, "ours": ours, "theirs": network, "agreement": agreement, "agrees": len(model.search_) == 28}


def scale(quick):
    """(e): instance-kme with random-feature ridge, seconds per million instances."""
    rates = {}
    for n in (10**5, 10**6) if quick else (10**5, 10**6, 10**7):
        rng = np.random.default_rng(0)
        offsets = np.arange(0, n + 1, 100)
        X = rng.standard_normal((n, 16), dtype=np.float32)
        bags = bw.Bags(X, offsets)
        y = rng.normal(size=len(bags)) + bags.instances[offsets[:-1], 0]
        stage = OutOfFold(RandomFeatureRidge(), folds=10)
        model = bw.method("instance-kme").set_params(instances=stage)
        taken, _ = seconds(lambda model=model, bags=bags, y=y: model.fit(bags, y).predict(bags))
        rates[n] = taken / n * 1e6
    for n, rate in rates.items():
        what = f"(e) fit + predict, {n:.0e} instances x 16: s per million"
        yield {"what": what, "ours": rate, "theirs": rates[10**6], "agreement": "theirs: at 1e6", "agrees": True}


def left_out(quick):
    """(f): leave-one-bag-out predictions in closed form, against refits."""
    n_bags = 160 if quick else 640
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_bags * 100, 16))
    target = rng.normal(size=n_bags)
    y, bag = np.repeat(target, 100), np.repeat(np.arange(n_bags), 100)
    penalty = 1e-3
    model = RandomFeatureRidge(penalties=(penalty,))
    ours, fitted = seconds(lambda: model.cross_fit(X, y, bag))
    refits, some = 3, []
    start = time.perf_counter()
    for k in range(refits):
        train = bag != k
        single = clone(model).cross_fit(X, y, (bag == k).astype(int))
        some.append(np.abs(single.predictions[~train, 0] - fitted.predictions[~train, 0]).max())
    theirs = (time.perf_counter() - start) / refits * n_bags
    gap = max(some) / np.abs(fitted.predictions).max()
    what = f"(f) leave-one-bag-out of {n_bags} bags x 100 against refits"
    agreement = f"largest difference {gap:.0e}"
    return {"what": what, "ours": ours, "theirs": theirs, "agreement": agreement, "agrees": bool(gap < 1e-8)}


def fourier(quick):
    """(g): the map of float32 rows with its products in double, against single: there a row depends on its company."""
    X = np.random.default_rng(0).standard_normal((20_000 if quick else 200_000, 16), dtype=np.float32)
    double = FourierFeatures(300).fit(X)
    single = copy(double)
    single.frequencies_ = double.frequencies_.astype(np.float32)
    times = [[seconds(lambda one=one: one.transform(X))[0] for one in (double, single)] for _ in range(5)]
    ours, theirs = np.min(times, axis=0).tolist()
    gap = float(np.abs(double.transform(X) - single.transform(X)).max())
    what = f"(g) Fourier features of {len(X):,} float32 rows x 16, products in double against single"
    agreement = f"largest difference {gap:.0e}"
    return {"what": what, "ours": ours, "theirs": theirs, "agreement": agreement, "agrees": gap < 1e-6}


def rows(quick):
    n, theirs, epochs = (4, 1, 5) if quick else (50, 2, 100)
    yield networks(640, 100, 16, 128, epochs, 0.05, n, theirs, f"(a) network, 640 x 100 x 16, 128 units, D = {n}")
    n, theirs, epochs = (2, 1, 3) if quick else (10, 2, 75)
    yield networks(160, 100, 92, 512, epochs, 1.0, n, theirs, f"(b) network, 16,000 x 92, 512 units, D = {n}")
    yield from embeddings(quick)
    yield grid(quick)
    yield left_out(quick)
    yield fourier(quick)
    yield from scale(quick)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller cases, under three minutes")
    parser.add_argument("--json", type=Path, help="write the table here, too")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)  # all networks run a fixed number of epochs
    console = Console(width=150)
    results = []
    for row in rows(options.quick):
        results.append(row)
        console.print(f"{row['what']}: {row['theirs'] / row['ours']:,.1f} times", highlight=False)
    table = Table("what", "ours, s", "theirs, s", "ratio", "agreement", title="bagwise, speed")
    for row in results:
        ratio = row["theirs"] / row["ours"]
        table.add_row(row["what"], f"{row['ours']:.4g}", f"{row['theirs']:.4g}", f"{ratio:,.1f}", row["agreement"])
    console.print(table)
    if options.json:
        versions = {"python": platform.python_version(), "numpy": np.__version__, "scikit-learn": sklearn.__version__}
        options.json.write_text(json.dumps({"quick": options.quick, "versions": versions, "rows": results}, indent=1))
    if not all(row["agrees"] for row in results):
        raise SystemExit("results differ where they should agree; see the last column")


if __name__ == "__main__":
    main()
