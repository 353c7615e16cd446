"""What a GPU does, as one table. `python benchmarks/gpu.py [--parts a layers accuracy others] [--json FILE]`.

Kernels are compiled before anything is timed. Ratios are taken side by side in one run; the loop of batched products
and the CPU's engine are timed on some steps, or some networks, and scaled up.
"""

from __future__ import annotations

import argparse
import json
import time
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

import bagwise as bw
from bagwise.embeddings import mean_gram
from bagwise.instances import NetworkRegressor
from bagwise.instances.networks import gpu as network_orders
from bagwise.instances.networks.cpu import Problem, Recipe, train_networks
from bagwise.instances.networks.gpu import (
    Batched,
    engines,
    gather,
    products,
    run_epochs,
    step_sizes,
    train_together,
    upload,
)
from bagwise.kernels import Gaussian
from bagwise.regressors import AttentionRegressor

FOLDS, CELLS = 50, 50  # networks of a cross-fit, and cross-fits of ten times five folds


def seconds(function, repeat: int = 1) -> tuple[float, object]:
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(repeat):
        result = function()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / repeat, result


def ceilings() -> dict[str, float]:
    """Of this card: copying (TB/s) and products of 8192 x 8192 matrices (TFLOP/s)."""
    a, b = torch.empty(2, 2**29, device="cuda")
    seconds(lambda: b.copy_(a))
    found = {"copy": 2 * 4 * 2**29 / seconds(lambda: b.copy_(a), 5)[0] / 1e12}
    A, B = torch.randn(2, 8192, 8192, device="cuda")
    for name, setting in (("float32", "highest"), ("tf32", "high")):
        torch.set_float32_matmul_precision(setting)
        seconds(lambda: A @ B)
        found[name] = 2 * 8192**3 / seconds(lambda: A @ B, 5)[0] / 1e12
    torch.set_float32_matmul_precision("highest")
    return found


def problems(n_bags: int, features: int, hidden: tuple[int, ...], epochs: int, cells: int = CELLS):
    """Problems of `FOLDS` networks each, bags of 100."""
    recipe = Recipe(hidden, (epochs,), 200, 1e-3, 0.05, True, True, 0)
    fold = np.repeat(np.arange(n_bags) % FOLDS, 100)
    made = []
    for cell in range(cells):
        rng = np.random.default_rng(cell)
        X = rng.standard_normal((n_bags * 100, features), dtype=np.float32)
        y = np.abs(X[:, 0]) + X[:, 1] * X[:, 2] + np.repeat(rng.normal(size=n_bags), 100)
        made.append(Problem.of(X, y, np.ones(len(y)), fold, recipe, n_networks=FOLDS))
    return made, recipe


def networks(label: str, made: list[Problem], recipe: Recipe, ceiling: dict[str, float]):
    """The whole training in both precisions, some steps of the batched loop, and a few networks on two cores."""
    short = Recipe(**(vars(recipe) | {"epochs": (1,)}))
    plan_name = engines(_group(made[:1], short).plan, "cuda")[0].__name__
    rows = sum(float(p.n_networks) * len(p.y) * (1 - 1 / FOLDS) for p in made) * recipe.epochs[-1]
    D = made[0].X.shape[1]
    sizes = (D, *recipe.hidden, 1)  # of all products but the first layer's there are three
    work = rows * (6 * sum(a * b for a, b in pairwise(sizes)) - 2 * D * sizes[1])
    moved = rows * 4 * (D + 2)
    times = {}
    for precision in ("float32", "tf32"):
        run_epochs(_group(made[:1], short), short, precision)  # compiled
        group = _group(made, recipe)
        times[precision], _ = seconds(lambda g=group, p=precision: run_epochs(g, recipe, p))
        share = work / times[precision] / 1e12
        yield {
            "what": f"{label}: training, {plan_name}, {precision}", "seconds": times[precision],
            "note": f"{share:.1f} TFLOP/s: {share / ceiling[precision]:.0%} of this card's {precision} products; "
            f"{moved / times[precision] / 1e12 / ceiling['copy']:.1%} of its memory's speed",
        }  # fmt: skip
        del group
    whole, _ = seconds(lambda: train_together(made, recipe, "cuda"))
    yield {"what": f"{label}: the same from arrays to arrays, float32", "seconds": whole, "note": "with predictions"}
    group = _group(made, recipe)
    n_steps = int((-(-group.counts // group.batches)).max()) * recipe.epochs[-1]
    for precision in ("float32", "tf32"):
        loop = _batched_steps(group, precision) * n_steps
        note = f"{loop / times[precision]:.1f} times as long; from 100 steps of {n_steps:,}"
        yield {"what": f"{label}: a loop of batched products, {precision}", "seconds": loop, "note": note}
    del group
    few = Problem.of(made[0].X, made[0].y, made[0].weight, made[0].fold, short, n_networks=4)
    train_networks(few, short, n_jobs=2)
    two_cores = seconds(lambda: train_networks(few, recipe, n_jobs=2))[0] / 4 * FOLDS * CELLS
    note = f"{two_cores / times['float32']:.0f} times as long; from 4 networks on this machine's cores"
    yield {"what": f"{label}: the CPU's engine on two cores", "seconds": two_cores, "note": note}


def _group(made: list[Problem], recipe: Recipe):
    members = [(j, k) for j in range(len(made)) for k in range(FOLDS)]
    ((_, data),) = upload(made, recipe, "cuda")
    return gather(made, data, members, recipe)


def _batched_steps(group, precision: str) -> float:
    loop, size = Batched(group, precision), torch.full((len(group),), 1e-3, device="cuda")
    with products(precision), torch.no_grad():
        seconds(lambda: loop._step(group.rows, size, 1), 5)
        return seconds(lambda: loop._step(group.rows, size, 1), 100)[0]


def layers(ceiling):
    """Kernels against batched products, step by step; problems together and alone; what a second layer costs."""
    for sizes in ((16, 128), (16, 64, 64), (16, 20, 7), (16, 20, 20, 20)):
        made, recipe = problems(128, sizes[0], sizes[1:], 2, cells=4)
        whole = Recipe(**(vars(recipe) | {"batch_size": 10**9, "epochs": (1,)}))
        slopes = [run(_group(made, whole), whole).first for run in (_by_kernels, _by_products)]
        taken, found = seconds(lambda m=made, r=recipe: _by_kernels(_group(m, r), r))
        start, expected = _group(made, recipe), _by_products(_group(made, recipe), recipe)
        gap, way = found.parameters - expected.parameters, expected.parameters - start.parameters
        note = (
            f"gradient of a first step over all rows: difference {_share(slopes[0] - slopes[1], slopes[1]):.0e}; "
            f"after 126 steps {_share(gap, way):.0e} of the way the weights went; "
            f"trained together as alone, to the last bit: {_as_alone(made, recipe)}"
        )
        name = engines(start.plan, "cuda")[0].__name__
        yield {"what": f"{name} against batched products, {sizes}", "seconds": taken, "note": note}
    made, recipe = problems(640, 16, (64, 64), 20)
    yield from networks("2,500 networks, 16-64-64-1, 20 epochs of 62,720 rows", made, recipe, ceiling)


def _by_kernels(group, recipe: Recipe):
    run_epochs(group, recipe, "float32")
    return group


def _by_products(group, recipe: Recipe):
    loop, sizes = Batched(group), step_sizes(group, recipe)
    for epoch in range(recipe.epochs[-1]):
        loop.epoch(network_orders.shuffled(group.rows, group.counts, group.keys[epoch]), sizes, epoch)
    return group


def _as_alone(made: list[Problem], recipe: Recipe) -> bool:
    together, alone = train_together(made, recipe, "cuda")[0], train_together(made[:1], recipe, "cuda")[0]
    return all(
        np.array_equal(one.predictions, two.predictions)
        and np.array_equal(one.networks.parameters, two.networks.parameters)
        for one, two in zip(together, alone, strict=True)
    )


def _share(difference: torch.Tensor, of: torch.Tensor) -> float:
    return float(difference.norm() / of.norm())


def accuracy(ceiling):
    """The same problem by every engine: out-of-fold RMSE over seeds; and the same seed twice."""
    bags, y = bw.datasets.make_aerosol(160, instances=50, random_state=1)
    X, target, fold = bags.instances, bags.expand(y), bags.expand(np.arange(len(bags)) % 10)
    for label, settings in {
        "fused, float32": {"device": "cuda"}, "fused, tf32": {"device": "cuda", "precision": "tf32"}, "CPU": {},
    }.items():  # fmt: skip
        found = []
        start = time.perf_counter()
        for seed in range(16):
            model = NetworkRegressor((64,), epochs=20, random_state=seed, **settings)
            said = model.cross_fit(X, target, fold).predictions[:, 0]
            found.append(100 * np.sqrt(np.mean((said - target) ** 2)))
        taken = time.perf_counter() - start
        again = np.array_equal(said, model.cross_fit(X, target, fold).predictions[:, 0])
        error = np.std(found, ddof=1) / 4
        note = f"100 x out-of-fold RMSE {np.mean(found):.3f} +- {error:.3f} over 16 seeds; again the same: {again}"
        yield {"what": f"accuracy: {label}", "seconds": taken, "note": note}


def others(ceiling):
    """Attention and the kernel mean of inputs."""
    rng = np.random.default_rng(0)
    bags = bw.from_arrays(list(rng.normal(size=(640, 100, 16))))
    y = np.array([bag[bag[:, 0].argmax(), 1] for bag in (bags[i] for i in range(len(bags)))])
    for device, precision in (("cuda", "float32"), ("cuda", "bfloat16"), ("cpu", "float32")):
        model = AttentionRegressor(epochs=3, restarts=10, patience=3, device=device, precision=precision)
        if device == "cuda":
            model.fit(bags[:64], y[:64])
        taken, _ = seconds(lambda m=model: m.fit(bags, y))
        note = f"10 networks, 640 bags of 100 x 16, 3 epochs; errors {model.validation_errors_.mean():.4f}"
        yield {"what": f"attention, {device}, {precision}", "seconds": taken, "note": note}
    exact, expected = seconds(lambda: mean_gram(Gaussian(4.0), bags[:80]))
    yield {"what": "kernel mean of inputs, numpy", "seconds": exact * 64, "note": "64,000 instances, from 8,000"}
    for precision in ("float64", "float32"):
        where = {"device": "cuda", "precision": precision}
        mean_gram(Gaussian(4.0), bags[:100], **where)
        taken, gram = seconds(lambda w=where: mean_gram(Gaussian(4.0), bags, **w))
        gap = np.abs(gram[:80, :80] - expected).max() / expected.max()
        note = f"64,000 instances; largest difference {gap:.0e}"
        yield {"what": f"kernel mean of inputs, cuda, {precision}", "seconds": taken, "note": note}


def small_networks(ceiling):
    made, recipe = problems(640, 16, (128,), 100)
    yield from networks("(a) 2,500 networks, 16-128-1, 100 epochs of 62,720 rows", made, recipe, ceiling)


PARTS = {"a": small_networks, "layers": layers}
PARTS |= {"accuracy": accuracy, "others": others}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="all by default")
    parser.add_argument("--json", type=Path, help="write the table here, too")
    options = parser.parse_args()
    ceiling = ceilings()
    print(torch.cuda.get_device_name(), {name: version(name) for name in ("torch", "triton", "numpy", "scikit-learn")})
    print("measured ceilings:", {name: round(value, 2) for name, value in ceiling.items()}, "TB/s, TFLOP/s, TFLOP/s")
    rows = []
    print("| what | s | |\n|---|--:|---|")
    for row in (row for part in options.parts for row in PARTS[part](ceiling)):
        rows.append(row)
        print(f"| {row['what']} | {row['seconds']:.2f} | {row['note']} |", flush=True)
    if options.json:
        options.json.write_text(json.dumps({"card": torch.cuda.get_device_name(), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
