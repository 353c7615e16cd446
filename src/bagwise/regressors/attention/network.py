"""The attention network over ragged bags, and an ensemble of them: training as one job, and their average.

Many networks are computed at once: every parameter has a leading axis of members. A member is stopped by its held-out
bags and keeps its best weights.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from joblib import Parallel, delayed, effective_n_jobs
from torch import Tensor

from bagwise.execution.resources import Shared
from bagwise.first_use import once
from bagwise.instances.networks.cpu import announced
from bagwise.regressors.attention.attention_regressor import Recipe
from bagwise.regressors.bayesian.evidence_ridge import TargetScale


@dataclass(frozen=True)
class Batch:
    """Some bags: instances (rows, d), the bag of every row, moments (bags, k), which may have no columns, and the share
    of every row in its bag, for networks that need it."""

    rows: Tensor
    bag: Tensor
    moments: Tensor
    share: Tensor | None = None

    def spread(self, values: Tensor) -> Tensor:
        """One slice per bag, repeated for each of its rows."""
        return values.index_select(0, self.bag)

    def total(self, values: Tensor) -> Tensor:
        """The sum of the rows of every bag."""
        return values.new_zeros(len(self.moments), *values.shape[1:]).index_add(0, self.bag, values)

    def mean(self, values: Tensor) -> Tensor:
        """The mean of the rows of every bag, each by its share."""
        return self.total(self.share[:, None] * values)

    def softmax(self, scores: Tensor) -> Tensor:
        """exp(score), summing to one in every bag."""
        top = scores.new_full((len(self.moments), scores.shape[1]), -torch.inf)
        index = self.bag[:, None].expand_as(scores)
        top = top.scatter_reduce(0, index, scores.detach(), "amax")  # only against overflow: no derivative
        weights = (scores - self.spread(top)).exp()
        return weights / self.spread(self.total(weights))


@dataclass(frozen=True)
class Network:
    """Read every instance, attend, predict. Shapes are (rows or bags, members, units) throughout.

    ``pooling="set"``: T times, a query q from an LSTM weighs the instances by their inner product with it, and reads
    r = Σ a m. Its input [q, r] holds its own state q, so the two matrices of an LSTM are one here.
    ``pooling="gated"``: one score wᵀ(tanh(V m) ⊙ σ(U m)) per instance.
    ``pooling="mean"``: a number h for every instance, and their mean; nothing comes after it.
    """

    n_features: int
    n_moments: int
    read: tuple[int, ...]
    pooling: str
    looks: int
    head: tuple[int, ...]

    @property
    def layers(self) -> dict[str, tuple[int, int]]:
        """Inputs and outputs of every dense layer."""
        widths = (self.n_features, *self.read)
        units = widths[-1]
        layers = {f"read{i}": pair for i, pair in enumerate(zip(widths, widths[1:], strict=False))}
        if self.pooling == "set":
            layers["lstm"] = (2 * units, 4 * units)
        elif self.pooling == "gated":
            layers |= {"tanh": (units, units), "sigmoid": (units, units), "score": (units, 1)}
        widths = ((2 if self.pooling == "set" else 1) * units + self.n_moments, *self.head, 1)
        return layers | {f"head{i}": pair for i, pair in enumerate(zip(widths, widths[1:], strict=False))}

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of every parameter, by name."""
        shapes = {}
        for name, (inputs, outputs) in self.layers.items():
            shapes |= {f"{name}.weight": (inputs, outputs), f"{name}.bias": (outputs,)}
        return shapes

    def initial(self, random: np.random.Generator) -> np.ndarray:
        """Parameters to set out from, in one vector: uniform within 1/√inputs, and a last layer of zeros.

        With those zeros a network predicts the mean of the targets until it has learned something.
        """
        last = f"head{len(self.head)}"
        parts = []
        for name, (inputs, outputs) in self.layers.items():
            bound = 0.0 if name == last else 1.0 / np.sqrt(inputs)
            parts.append(random.uniform(-bound, bound, (inputs + 1) * outputs))
        return np.concatenate(parts)

    def unpack(self, vectors: Tensor) -> dict[str, Tensor]:
        """Parameters by name, from one vector per member."""
        shapes = self.shapes
        # split, not slices: its derivative is one concatenation.
        parts = vectors.split([int(np.prod(shape)) for shape in shapes.values()], dim=1)
        return {name: part.unflatten(1, shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}

    def named(self, vector: np.ndarray) -> dict[str, np.ndarray]:
        """Parameters of one member by name, as arrays."""
        return {name: part[0].numpy().copy() for name, part in self.unpack(torch.from_numpy(vector)[None]).items()}

    def __call__(self, parameters: dict[str, Tensor], batch: Batch) -> tuple[Tensor, Tensor]:
        """Predictions (bags, members) and attention (rows, members), the latter averaged over the T looks.

        With ``pooling="mean"`` the numbers h (rows, members) stand for the attention.
        """
        members = len(parameters["head0.bias"])
        read = batch.rows
        for i in range(len(self.read)):
            read = _dense(parameters, f"read{i}", read).relu()
        if self.pooling == "mean":
            values = _dense(parameters, "head0", read)[..., 0]
            return batch.mean(values), values
        pooled, attention = (self._set if self.pooling == "set" else self._gated)(parameters, batch, read)
        if self.n_moments:
            pooled = torch.cat([pooled, batch.moments[:, None].expand(-1, members, -1)], dim=2)
        for i in range(len(self.head)):
            pooled = _dense(parameters, f"head{i}", pooled).relu()
        return _dense(parameters, f"head{len(self.head)}", pooled)[..., 0], attention

    def _set(self, parameters, batch: Batch, read: Tensor) -> tuple[Tensor, Tensor]:
        gates = parameters["lstm.bias"].expand(len(batch.moments), -1, -1)  # the first input and state are zero
        cell, attention = read.new_zeros(()), []
        for _ in range(self.looks):
            into, keep, out, new = gates.chunk(4, dim=2)
            cell = into.sigmoid() * new.tanh() + keep.sigmoid() * cell
            query = out.sigmoid() * cell.tanh()
            weights = batch.softmax((read * batch.spread(query)).sum(dim=2))
            state = torch.cat([query, batch.total(weights[..., None] * read)], dim=2)
            attention.append(weights)
            if len(attention) < self.looks:
                gates = _dense(parameters, "lstm", state)
        return state, torch.stack(attention).mean(dim=0)

    def _gated(self, parameters, batch: Batch, read: Tensor) -> tuple[Tensor, Tensor]:
        gate = _dense(parameters, "tanh", read).tanh() * _dense(parameters, "sigmoid", read).sigmoid()
        weights = batch.softmax(_dense(parameters, "score", gate)[..., 0])
        return batch.total(weights[..., None] * read), weights


def _dense(parameters, name: str, values: Tensor) -> Tensor:
    """values (rows, members, inputs), or (rows, inputs) for all members the same."""
    weight, bias = parameters[f"{name}.weight"], parameters[f"{name}.bias"]
    if values.ndim == 2:
        members, inputs, outputs = weight.shape
        joined = weight.transpose(0, 1).reshape(inputs, members * outputs)
        return (values @ joined).unflatten(1, (members, outputs)) + bias
    return torch.einsum("nmi,mio->nmo", values, weight) + bias


ROWS = 2**15  # instances in a batch; a bag with more is a batch of its own
BETAS, EPSILON = (0.9, 0.999), 1e-8  # of Adam


class Samples:
    """Standardised bags on a device, from which batches are taken: flat rows (rows, d), moments (bags, k), and the
    share of every row in its bag, if the network needs it."""

    def __init__(self, rows, offsets, moments, *, shares=None, device: str = "cpu", dtype=torch.float32):
        self.rows, self.moments = (torch.as_tensor(a, dtype=dtype, device=device) for a in (rows, moments))
        self.shares = None if shares is None else torch.as_tensor(shares, dtype=dtype, device=device)
        self.offsets, self.sizes = np.asarray(offsets), np.diff(offsets)

    def batch(self, positions: np.ndarray) -> Batch:
        sizes = self.sizes[positions]
        shifts = self.offsets[positions] - np.concatenate([[0], np.cumsum(sizes)[:-1]])
        rows = np.repeat(shifts, sizes) + np.arange(sizes.sum())
        bag = np.repeat(np.arange(len(positions)), sizes)
        rows, bag, positions = (torch.from_numpy(a).to(self.rows.device) for a in (rows, bag, positions))
        share = None if self.shares is None else self.shares.index_select(0, rows)
        return Batch(self.rows.index_select(0, rows), bag, self.moments.index_select(0, positions), share)


@dataclass(frozen=True)
class Task:
    """What the members learn: (bags, members) standardised targets, and weights of the bags they learn from (mean
    one) and are stopped by (summing to one); zero weight is not seen. ``blend`` (members,) is the weight of the loss of
    bags beside that of instances, for networks with a number for every instance; None is the loss of bags."""

    targets: np.ndarray
    learn: np.ndarray
    held: np.ndarray
    blend: np.ndarray | None = None

    def __getitem__(self, members) -> Task:
        blend = None if self.blend is None else self.blend[members]
        return Task(self.targets[:, members], self.learn[:, members], self.held[:, members], blend)


@dataclass(frozen=True)
class Trained:
    """The best weights of every member, one vector each; their error on held-out bags; the epoch they are from."""

    vectors: np.ndarray
    errors: np.ndarray
    epochs: np.ndarray


def cut(positions: np.ndarray, sizes: np.ndarray, n_bags: int) -> Iterator[np.ndarray]:
    """Batches of at most ``n_bags`` bags and `ROWS` instances; a larger bag comes alone."""
    start = rows = 0
    for i, size in enumerate(sizes[positions]):
        if i > start and (i - start == n_bags or rows + size > ROWS):
            yield positions[start:i]
            start, rows = i, 0
        rows += size
    yield positions[start:]


@contextmanager
def one_order(device: str = "cpu"):
    """Sums in one order, on one thread or by the GPU's deterministic kernels: the same seed gives the same answer."""
    with _one_thread, nullcontext() if device == "cpu" else _deterministic:
        yield


@contextmanager
def _threads(number: int):
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _deterministic_kernels():
    strict = torch.are_deterministic_algorithms_enabled()
    lenient = torch.is_deterministic_algorithms_warn_only_enabled()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that cuBLAS might vary, which on one stream it does not
        torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(strict, warn_only=lenient)


_one_thread, _deterministic = Shared(lambda: _threads(1)), Shared(_deterministic_kernels)


def train(network: Network, samples: Samples, task: Task, starts: np.ndarray, recipe: Recipe) -> Trained:
    """Adam with decoupled weight decay from ``starts``, one vector per member, on mean squared errors.

    Members meet the same batches, and nothing else connects them: one that has not improved for ``patience`` epochs
    is done, and the others go on.
    """
    with one_order(recipe.device):
        state = _State(network, samples, task, starts, recipe)
        used = np.flatnonzero(task.learn.any(axis=1))
        random = np.random.default_rng(recipe.seed)
        for epoch in range(1, recipe.epochs + 1):
            for positions in cut(random.permutation(used), samples.sizes, recipe.batch_size):
                state.step(positions)
            if not state.look(epoch, recipe.patience):
                break
    return Trained(state.best.cpu().numpy(), state.errors, state.epochs)


def within(predictions: Tensor, values: Tensor, batch: Batch, blend: np.ndarray) -> Tensor:
    """What the blend of the losses of bags and instances adds to that of bags: (1 - λ) Σ_l s_l (h_l - ŷ)².

    For λ (ŷ - y)² + (1 - λ) Σ_l s_l (h_l - y)² = (ŷ - y)² + (1 - λ) Σ_l s_l (h_l - ŷ)², as ŷ = Σ_l s_l h_l.
    """
    return predictions.new_tensor(1.0 - blend) * batch.mean((values - batch.spread(predictions)) ** 2)


class _State:
    """The members still in training, and the best of all."""

    def __init__(self, network, samples, task, starts, recipe):
        self.network, self.samples, self.recipe = network, samples, recipe
        self.alive, self.steps = np.arange(len(starts)), 0
        self.vectors = samples.rows.new_tensor(starts).requires_grad_()
        self.first, self.second = torch.zeros_like(self.vectors), torch.zeros_like(self.vectors)
        self.targets, self.learn = (samples.rows.new_tensor(a) for a in (task.targets, task.learn))
        self.task = task
        held = np.flatnonzero(task.held.any(axis=1))
        self.held = [(at, samples.batch(at)) for at in cut(held, samples.sizes, len(held))]
        self.best, self.errors = self.vectors.detach().clone(), self._held_out_errors()
        self.epochs = np.zeros(len(starts), dtype=np.int64)

    def step(self, positions: np.ndarray) -> None:
        at = torch.from_numpy(positions).to(self.vectors.device)
        mixed = self.recipe.precision == "bfloat16"
        with torch.autocast(self.vectors.device.type, torch.bfloat16, enabled=mixed):  # biases keep the sums in float32
            batch = self.samples.batch(positions)
            predictions, values = self.network(self.network.unpack(self.vectors), batch)
        squares = (predictions - self.targets.index_select(0, at)) ** 2
        if self.task.blend is not None:
            squares = squares + within(predictions, values, batch, self.task.blend)
        loss = (self.learn.index_select(0, at) * squares).mean(dim=0).sum()
        (slope,) = torch.autograd.grad(loss, self.vectors)
        self._adam(slope)

    @torch.no_grad()
    def _adam(self, slope: Tensor) -> None:
        self.steps += 1
        self.first.lerp_(slope, 1 - BETAS[0])
        self.second.mul_(BETAS[1]).addcmul_(slope, slope, value=1 - BETAS[1])
        root = (self.second / (1 - BETAS[1] ** self.steps)).sqrt_().add_(EPSILON)
        rate = self.recipe.learning_rate
        self.vectors.mul_(1 - rate * self.recipe.weight_decay)
        self.vectors.addcdiv_(self.first, root, value=-rate / (1 - BETAS[0] ** self.steps))

    def look(self, epoch: int, patience: int) -> bool:
        """Note the members that are better than ever, let go those that have not been for long; whether any is left."""
        errors = self._held_out_errors()
        better = errors < self.errors[self.alive]
        up = self.alive[better]
        self.errors[up], self.epochs[up] = errors[better], epoch
        self.best[up] = self.vectors.detach()[better]
        left = epoch - self.epochs[self.alive] < patience
        if not left.all():
            self._keep(left)
        return bool(left.any())

    def _keep(self, left: np.ndarray) -> None:
        self.alive, self.task = self.alive[left], self.task[left]
        self.vectors = self.vectors.detach()[left].requires_grad_()
        self.first, self.second = self.first[left], self.second[left]
        self.targets, self.learn = self.targets[:, left], self.learn[:, left]

    @torch.no_grad()
    def _held_out_errors(self) -> np.ndarray:
        parameters = self.network.unpack(self.vectors)
        errors = np.zeros(len(self.alive))
        for at, batch in self.held:
            predictions = self.network(parameters, batch)[0].cpu().numpy()
            errors += (self.task.held[at] * (predictions - self.task.targets[at]) ** 2).sum(axis=0)
        return errors


UNITS = 16  # compiled kernels take whole vectors of the processor
LARGEST = 2**22  # numbers in the largest array of a training step: so many networks are trained at once


@dataclass(frozen=True)
class Member:
    """A trained network: parameters by name, the scale of its targets, and how it was stopped.

    ``error`` is the mean squared error on its held-out bags, relative to that of predicting the mean.
    """

    parameters: dict[str, np.ndarray]
    target: TargetScale
    error: float
    epochs: int


@dataclass(frozen=True)
class Split:
    """The bags, as a mask each, that a member learns from and is stopped by."""

    learn: np.ndarray
    held: np.ndarray

    @classmethod
    def of(cls, seen: np.ndarray, fold: np.ndarray, restart: int) -> Split:
        """Hold out one fold of the bags that may be seen; each restart another, so that most learn from any bag."""
        folds = np.unique(fold[seen])
        held = seen & (fold == folds[restart % len(folds)])
        learn = seen & ~held
        return cls(learn if learn.any() else held, held)  # all of one group: stopped by what it learns from


def train_members(
    network: Network, shown, offsets, y, weight, splits: list[Split], recipe: Recipe, n_jobs=None, blends=None
):
    """A `Member` for every split; ``shown`` are rows and moments. The numbers do not depend on ``n_jobs``.

    With ``blends``, there is one for every blend and split, those of the first blend first; members of one split set
    out from the same weights. ``shown`` then holds the shares of the rows as well.
    """
    n_starts, n_blends = len(splits), 1 if blends is None else len(blends)
    splits = splits * n_blends
    scales = [TargetScale.of(y, weight * (split.learn | split.held)) for split in splits]
    task = _task(y, weight, splits, scales, None if blends is None else np.repeat(blends, n_starts))
    starts = np.stack([network.initial(np.random.default_rng([recipe.seed, i])) for i in range(n_starts)] * n_blends)
    if compiled(network, recipe):
        parts = [_compiled_job(network, shown, offsets, task, starts, recipe, n_jobs)]
    else:
        parts = _torch_jobs(network, shown, offsets, task, starts, recipe, n_jobs)
    trained = [one for part in parts for one in zip(part.vectors, part.errors, part.epochs, strict=True)]
    return [
        Member(network.named(vector), scale, float(error), int(epochs))
        for (vector, error, epochs), scale in zip(trained, scales, strict=True)
    ]


def _torch_jobs(network, shown, offsets, task: Task, starts, recipe: Recipe, n_jobs) -> list[Trained]:
    """As many networks at once as memory allows."""
    on_gpu = not recipe.device.startswith("cpu")
    largest = max(int(np.diff(offsets).max()), min(ROWS, int(recipe.batch_size * np.diff(offsets).mean())))
    at_once = max(1, (64 if on_gpu else 1) * LARGEST // (largest * max(network.read, default=1)))
    jobs = [slice(i, i + at_once) for i in range(0, len(starts), at_once)]
    return Parallel(n_jobs=1 if on_gpu else n_jobs)(
        delayed(_job)(network, shown, offsets, task[job], starts[job], recipe) for job in jobs
    )


def compiled(network: Network, recipe: Recipe) -> bool:
    """Whether compiled kernels train the network: one layer that reads, set attention and a linear head, on a CPU."""
    usual = network.pooling == "set" and len(network.read) == 1 and not network.head
    return usual and network.read[0] % UNITS == 0 and recipe.device == "cpu" and recipe.precision == "float32"


def _compiled_job(network, shown, offsets, task: Task, starts, recipe: Recipe, n_jobs) -> Trained:
    """The same as `train`, a network at a time: they meet the same batches."""
    attention_kernels()  # compiled or loaded before there are threads
    used = np.flatnonzero(task.learn.any(axis=1))
    data = *(np.ascontiguousarray(part, dtype=np.float32) for part in shown), np.asarray(offsets, dtype=np.int64)
    found = Parallel(n_jobs=effective_n_jobs(n_jobs), prefer="threads")(
        delayed(_train_alone)(network, data, used, task[[i]], start, recipe) for i, start in enumerate(starts)
    )
    return Trained(*(np.array(part) for part in zip(*found, strict=True)))


def _train_alone(network: Network, data: tuple, used, task: Task, start, recipe: Recipe) -> tuple:
    """Best weights, held-out error and epoch of one network."""
    kernels, sizes, shape = attention_kernels(), np.diff(data[2]), (network.looks, network.read[0])
    targets, learn = (part[:, 0].astype(np.float32) for part in (task.targets, task.learn))
    held = np.flatnonzero(task.held[:, 0])
    batches = _cuts(held, sizes, len(held))
    predictions = np.empty(len(held), dtype=np.float32)

    def held_out_error() -> float:
        kernels.predict(*data, held, batches, *shape, vector, predictions)
        return float((task.held[held, 0] * (predictions - task.targets[held, 0]) ** 2).sum())

    vector = start.astype(np.float32)
    memory, random, steps = np.zeros((3, len(vector)), dtype=np.float32), np.random.default_rng(recipe.seed), 0
    best, error, at = vector.copy(), held_out_error(), 0
    for epoch in range(1, recipe.epochs + 1):
        order = random.permutation(used)
        cuts = _cuts(order, sizes, recipe.batch_size)
        options = recipe.learning_rate, recipe.weight_decay, steps
        kernels.train_epoch(*data, order, cuts, targets, learn, *shape, vector, memory, *options)
        steps, now = steps + len(cuts) - 1, held_out_error()
        if now < error:
            best, error, at = vector.copy(), now, epoch
        if epoch - at >= recipe.patience:
            break
    return best, error, at


def _cuts(positions: np.ndarray, sizes: np.ndarray, n_bags: int) -> np.ndarray:
    """Where the batches of `cut` begin and end."""
    return np.cumsum([0, *(len(part) for part in cut(positions, sizes, n_bags))])


@once
def attention_kernels():
    """The module of that name, which imports numba; the kernels compile, or load from disk, when first called."""
    with announced():
        from bagwise.regressors.attention import attention_kernels

        attention_kernels.compile_all()
    return attention_kernels


def attend(network: Network, members: list[Member], shown, offsets) -> tuple[np.ndarray, np.ndarray]:
    """Predictions of the bags and attention of the instances, averaged over members.

    In double precision, a member at a time: a bag's numbers hardly know its company, and memory stays small.
    """
    samples = Samples(shown[0], offsets, shown[1], dtype=torch.float64)
    predictions, attention = np.zeros(len(offsets) - 1), np.zeros(offsets[-1])
    with one_order(), torch.no_grad():
        for positions in cut(np.arange(len(predictions)), samples.sizes, len(predictions)):
            batch = samples.batch(positions)
            rows = slice(offsets[positions[0]], offsets[positions[-1] + 1])
            for member, parameters in _as_tensors(members):
                outputs, weights = network(parameters, batch)
                predictions[positions] += member.target.mean + member.target.scale * outputs[:, 0].numpy()
                attention[rows] += weights[:, 0].numpy()
    return predictions / len(members), attention / len(members)


def _as_tensors(members: list[Member]) -> Iterator[tuple[Member, dict]]:
    for member in members:
        yield member, {name: torch.from_numpy(a).double()[None] for name, a in member.parameters.items()}


def _task(y, weight, splits: list[Split], scales: list[TargetScale], blend=None) -> Task:
    targets = np.stack([scale.standardised(y) for scale in scales], axis=1)
    learn, held = (weight[:, None] * np.stack([getattr(s, what) for s in splits], axis=1) for what in ("learn", "held"))
    held = held / held.sum(axis=0)
    by_the_mean = (held * targets**2).sum(axis=0)
    return Task(targets, learn / learn.mean(axis=0), held / np.where(by_the_mean > 0, by_the_mean, 1.0), blend)


def _job(network, shown, offsets, task: Task, starts, recipe: Recipe) -> Trained:
    rows, moments, *shares = shown
    samples = Samples(rows, offsets, moments, shares=shares[0] if shares else None, device=recipe.device)
    return train(network, samples, task, starts, recipe)
