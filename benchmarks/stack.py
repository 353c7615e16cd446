"""`auto` beside the stack of six that others reach, fitted to the same bags in one process: CPU seconds and errors.

    python benchmarks/stack.py                                          every shared table that is there
    python benchmarks/stack.py --data sentences --data mhc2-H-2-IAb     some of them
    python benchmarks/stack.py --only stack                             without auto beside it

The stack is what a user of scikit-learn and torch builds: random forest and histogram boosting on mean, deviation,
quartiles and extremes of every feature; ridge on bag means; ridge on the mean of 300 Nystroem features; ten networks on
instances, out of fold, and ridge on the kernel mean of their predictions; gated attention. Each is fitted without each
of five folds (groups stay together) and once more to all bags; non-negative least squares on the held-out predictions
gives the weights. Everything has the default settings of its library unless it says otherwise below, in one thread. Of
tables with fixed folds, the first is for testing.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from rich.console import Console
from scipy.optimize import nnls
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import RidgeCV
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bagwise as bw
from bagwise.execution.resources import one_thread

sys.path.insert(0, str(Path(__file__).resolve().parent))
import compare

TABLES = ("sentences", "mhc2-H-2-IAb", "conformers", "mhc2-DRB1_0301")
COLUMNS = ["bags", "stack, CPU s", "auto, CPU s", "ratio", "stack", "auto", "auto - stack"]
PENALTIES = np.logspace(-4, 4, 17)
FOLDS, NETWORKS, TREES = 5, 10, 300


def ridge():
    return make_pipeline(StandardScaler(), RidgeCV(PENALTIES))


def means(bags, rows=None) -> np.ndarray:
    return np.add.reduceat(bags.instances if rows is None else rows, bags.offsets[:-1], axis=0) / bags.sizes[:, None]


def statistics(bags) -> np.ndarray:
    """Mean, deviation, quartiles, least and greatest of every feature, and the size."""
    parts = [
        [bag.mean(0), bag.std(0), *np.quantile(bag, (0.25, 0.5, 0.75), axis=0), bag.min(0), bag.max(0), [len(bag)]]
        for bag in bags
    ]
    return np.array([np.concatenate(part) for part in parts])


class OnRows:
    """A regressor on one row per bag."""

    def __init__(self, rows, model):
        self.rows, self.model = rows, model

    def fit(self, bags, y):
        self.model.fit(self.rows(bags), y)
        return self

    def predict(self, bags):
        return self.model.predict(self.rows(bags))


class KernelMean:
    """Ridge on the mean of Nystroem features of standardised instances, the bandwidth by the median distance."""

    def fit(self, bags, y):
        self.scaler = StandardScaler().fit(bags.instances)
        X = self.scaler.transform(bags.instances)
        some = X[np.random.default_rng(0).permutation(len(X))[:500]]
        squared = np.median(euclidean_distances(some, squared=True)[np.triu_indices(len(some), 1)])
        self.map = Nystroem(gamma=1 / (squared or 1.0), n_components=min(300, len(X)), random_state=0).fit(X)
        self.ridge = ridge().fit(self._rows(bags), y)
        return self

    def _rows(self, bags):
        return means(bags, self.map.transform(self.scaler.transform(bags.instances)))

    def predict(self, bags):
        return self.ridge.predict(self._rows(bags))


class InstanceKernelMean:
    """Ten networks on instances, each without a tenth of the bags; ridge on random features of their predictions."""

    def fit(self, bags, y):
        fold = np.random.default_rng(0).permutation(len(bags)) % NETWORKS
        self.networks, out = [], np.empty(bags.n_instances)
        for k in range(NETWORKS):
            seen = bags.expand(fold) != k
            network = make_pipeline(
                StandardScaler(), MLPRegressor(hidden_layer_sizes=(50,), max_iter=20, random_state=k)
            )
            self.networks.append(network.fit(bags.instances[seen], bags.expand(y)[seen]))
            out[~seen] = network.predict(bags.instances[~seen])
        self.map = RBFSampler(gamma=1 / (2 * (out.var() or 1.0)), random_state=0).fit(out[:, None])
        self.ridge = ridge().fit(means(bags, self.map.transform(out[:, None])), y)
        return self

    def predict(self, bags):
        mean = np.mean([network.predict(bags.instances) for network in self.networks], axis=0)
        return self.ridge.predict(means(bags, self.map.transform(mean[:, None])))


class Attention:
    """Gated attention (Ilse et al. 2018) in torch: 64 units, Adam, the epoch of least error on a fifth of the bags."""

    def fit(self, bags, y, epochs=100, patience=10, batch=32):
        import torch

        torch.manual_seed(0)
        rng = np.random.default_rng(0)
        self.scaler, self.mean, self.scale = StandardScaler().fit(bags.instances), y.mean(), y.std() or 1.0
        inputs, targets = self._tensors(bags), torch.tensor((y - self.mean) / self.scale, dtype=torch.float32)
        held_out = rng.permutation(len(bags)) % 5 == 0
        self.net = torch.nn.ModuleDict(
            {
                "encoder": torch.nn.Sequential(torch.nn.Linear(bags.n_features, 64), torch.nn.ReLU()),
                "value": torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh()),
                "gate": torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Sigmoid()),
                "score": torch.nn.Linear(64, 1),
                "head": torch.nn.Linear(64, 1),
            }
        )
        adam = torch.optim.Adam(self.net.parameters(), lr=1e-3, weight_decay=1e-4)
        best, kept, since = np.inf, None, 0
        for _ in range(epochs):
            order = rng.permutation(np.flatnonzero(~held_out))
            for start in range(0, len(order), batch):
                some = order[start : start + batch]
                loss = ((self._forward([inputs[i] for i in some]) - targets[some]) ** 2).mean()
                adam.zero_grad()
                loss.backward()
                adam.step()
            with torch.no_grad():
                others = np.flatnonzero(held_out)
                error = float(((self._forward([inputs[i] for i in others]) - targets[others]) ** 2).mean())
            since += 1
            if error < best:
                best, since = error, 0
                kept = {name: value.clone() for name, value in self.net.state_dict().items()}
            if since >= patience:
                break
        self.net.load_state_dict(kept)
        return self

    def _tensors(self, bags) -> list:
        import torch

        return [torch.tensor(self.scaler.transform(bag), dtype=torch.float32) for bag in bags]

    def _forward(self, inputs):
        """All bags of a batch at once, shorter ones filled up."""
        import torch

        padded = torch.nn.utils.rnn.pad_sequence(inputs, batch_first=True)
        known = torch.arange(padded.shape[1])[None] < torch.tensor([len(one) for one in inputs])[:, None]
        hidden = self.net["encoder"](padded)
        score = self.net["score"](self.net["value"](hidden) * self.net["gate"](hidden))[..., 0]
        weights = torch.softmax(score.masked_fill(~known, -torch.inf), dim=1)
        return self.net["head"]((weights[..., None] * hidden).sum(1))[:, 0]

    def predict(self, bags):
        import torch

        with torch.no_grad():
            return self._forward(self._tensors(bags)).numpy() * self.scale + self.mean


PEERS = {
    "statistics + forest": lambda: OnRows(
        statistics, RandomForestRegressor(TREES, max_features="sqrt", random_state=0)
    ),
    "statistics + boosting": lambda: OnRows(statistics, HistGradientBoostingRegressor(random_state=0)),
    "mean-pool ridge": lambda: OnRows(means, ridge()),
    "kernel mean of inputs": KernelMean,
    "instance-kme": InstanceKernelMean,
    "attention": Attention,
}


def fit_stack(bags, y):
    """The fitted stack as a function of bags, and the CPU seconds of each of the six."""
    fold = bw.bags.bag_folds(bags, min(FOLDS, len(set(bags.groups.tolist()))) if bags.groups is not None else FOLDS)
    held_out, models, seconds = np.empty((len(y), len(PEERS))), [], {}
    for j, (name, make) in enumerate(PEERS.items()):
        started = time.process_time()
        for k in range(fold.max() + 1):
            held_out[fold == k, j] = make().fit(bags[fold != k], y[fold != k]).predict(bags[fold == k])
        models.append(make().fit(bags, y))
        seconds[name] = time.process_time() - started
    weights, _ = nnls(held_out, y)
    return lambda new: np.column_stack([model.predict(new) for model in models]) @ weights, seconds


def row(problem: compare.Problem, only, console) -> dict[str, str]:
    bags, y, options = problem.load(0)
    tested = options["fold"] == options["fold"][0] if "fold" in options else options["split"] == "test"
    train, targets = bags[~tested], y[~tested]
    found, errors = {"bags": f"{len(train):,}"}, {}
    kind = "mae" if problem.metric == "mae" else "rmse"

    def loss(predictions):
        gap = np.abs(predictions - y[tested])
        return gap if kind == "mae" else gap**2

    for name in only:
        started = time.process_time()
        if name == "stack":
            with one_thread(), warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                predict, parts = fit_stack(train, targets)
            console.print(", ".join(f"{part} {seconds:.1f} s" for part, seconds in parts.items()))
        else:
            predict = bw.method("auto", metric=kind).fit(train, targets).predict
        found[f"{name}, CPU s"] = time.process_time() - started
        errors[name] = loss(predict(bags[tested]))
        level = errors[name].mean()
        found[name] = f"{level if kind == 'mae' else np.sqrt(level):.4g}"
    if len(errors) == 2:
        gap, level = errors["auto"] - errors["stack"], np.sqrt(errors["auto"].mean() * errors["stack"].mean())
        unit = 1.0 if kind == "mae" else 2 * np.sqrt(level)  # d√m = dm / 2√m
        found["auto - stack"] = f"{gap.mean() / unit:+.4f} ± {gap.std() / np.sqrt(len(gap)) / unit:.4f}"
        found["ratio"] = f"{found['auto, CPU s'] / found['stack, CPU s']:.2f}"
    return {name: f"{value:.0f}" if isinstance(value, float) else value for name, value in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", action="append", help="a data set; default the shared tables")
    parser.add_argument("--only", choices=("stack", "auto"), help="one of the two; default both")
    options = parser.parse_args()
    known, console, rows = compare.problems(), Console(), {}
    unknown = set(options.data or ()) - set(known)
    if unknown:
        parser.error(f"there is no data set {sorted(unknown)[0]!r}; there are {', '.join(known)}")
    for warm in ("instance-kme", "attention"):  # imports and compiled kernels are had by then
        bw.method(warm).fit(*bw.datasets.make_problem("mean", 30))
    for name in options.data or [table for table in TABLES if table in known]:
        rows[name] = row(known[name], [options.only] if options.only else ["stack", "auto"], console)
        console.print(compare.as_markdown(rows, COLUMNS, "data"), soft_wrap=True, markup=False)


if __name__ == "__main__":
    main()
