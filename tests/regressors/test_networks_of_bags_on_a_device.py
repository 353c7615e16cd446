"""Networks over bags: compiled code on the CPU equals torch, whose gradients come from autograd."""

from dataclasses import replace

import numpy as np
import pytest

import bagwise as bw
from bagwise.regressors import AdditiveRegressor, AttentionRegressor
from bagwise.regressors.attention.network import Data, Network, Recipe, Task, attention_kernels, train_members
from bagwise.testing.contract_checks import sample

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from bagwise.regressors.attention import gpu  # noqa: E402

RNG = np.random.default_rng(0)
SIZES = RNG.integers(1, 9, 30)
OFFSETS = np.concatenate([[0], np.cumsum(SIZES)])
ROWS, MOMENTS = RNG.normal(size=(OFFSETS[-1], 5)), RNG.normal(size=(30, 3))
SHARES = RNG.uniform(0.5, 2, OFFSETS[-1])
SHARES /= np.repeat(np.add.reduceat(SHARES, OFFSETS[:-1]), SIZES)
Y, WEIGHT = RNG.normal(size=30), RNG.integers(0, 3, 30).astype(float)
SHAPES = [
    {"read": (16,), "pooling": "set", "looks": 2, "head": ()},
    {"read": (7, 6), "pooling": "set", "looks": 1, "head": (5,)},
    {"read": (3,), "pooling": "set", "looks": 3, "head": (4, 3)},
    {"read": (9,), "pooling": "gated", "looks": 2, "head": ()},
    {"read": (6, 8), "pooling": "gated", "looks": 1, "head": (5,)},
    {"read": (), "pooling": "mean", "looks": 1, "head": ()},
    {"read": (10, 4), "pooling": "mean", "looks": 1, "head": ()},
]


def network_and_data(shape):
    moments = MOMENTS[:, :0] if shape["pooling"] == "mean" else MOMENTS
    return Network(5, moments.shape[1], **shape), Data(ROWS, moments, SHARES, OFFSETS)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_predictions_and_gradients_are_those_of_autograd(shape):
    network, data = network_and_data(shape)
    vector = network.initial(np.random.default_rng(1)) + 0.05
    kernels, order, blend = attention_kernels(), np.random.default_rng(2).permutation(30), 0.3
    cuts, learn = np.array([0, 30]), WEIGHT
    predictions, weights = np.empty(30), np.empty(len(ROWS))
    kernels.predict(data.arrays(np.float64), network.shape, network.plan, order, cuts, vector, predictions, weights)
    points = torch.tensor(vector[None], requires_grad=True)
    batch = gpu.Samples(data, "cpu", torch.float64).batch(order)
    expected, attention = gpu.forward(network, points, batch)
    np.testing.assert_allclose(predictions, expected[:, 0].detach(), rtol=1e-9, atol=1e-12)
    in_order = np.concatenate([weights[OFFSETS[i] : OFFSETS[i + 1]] for i in order])
    np.testing.assert_allclose(in_order, attention[:, 0].detach(), rtol=1e-9, atol=1e-12)

    parts = (torch.tensor(part[order][:, None]) for part in (Y, learn))
    (slope,) = torch.autograd.grad(gpu.loss(network, points, batch, *parts, torch.tensor([blend])), points)
    single = [part.astype(np.float32) for part in (Y, learn)]
    memory = np.zeros((3, len(vector)), dtype=np.float32)
    state = np.float32(blend), vector.astype(np.float32), memory, 0.0, 0.0, 0
    kernels.train_epoch(
        data.arrays(np.float32), network.shape, network.plan, order, cuts, *single, *state, np.empty(0, np.float32)
    )
    slope = slope[0].numpy()
    np.testing.assert_allclose(10 * memory[1], slope, rtol=1e-5, atol=1e-5 * np.abs(slope).max())  # 0.1 of the gradient


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_training_is_that_of_torch(shape, monkeypatch):
    """Several networks, some stopped early, with weights of bags that are zero for some, and blends of losses."""
    network, data = network_and_data(shape)
    recipe = Recipe(12, 4, 8, 0.003, 1e-4, "float32", 0, "cpu")
    y = 3.0 + 2.0 * np.array([rows[:, 0].mean() for rows in np.split(ROWS, OFFSETS[1:-1])])
    splits = splits_of(3)
    blends = (1.0, 0.4) if shape["pooling"] == "mean" else (1.0,)
    arguments = (network, data, y, WEIGHT, splits, recipe, None, blends)
    compiled = train_members(*arguments)
    monkeypatch.setattr("bagwise.regressors.attention.network._train_by_kernels", by_torch)
    reference = train_members(*arguments)
    assert len(compiled) == 3 * len(blends) and max(member.epochs for member in compiled) > 0
    for member, expected in zip(compiled, reference, strict=True):
        assert member.epochs == expected.epochs and member.error == pytest.approx(expected.error, rel=1e-5)
        used = np.ones(len(member.parameters), dtype=bool)
        if shape["pooling"] == "gated":  # softmax does not depend on the bias of the score: its gradient is rounding
            inputs, _, start = network.plan[list(network.layers).index("score")]
            used[start + inputs] = False
        np.testing.assert_allclose(member.parameters[used], expected.parameters[used], rtol=1e-5, atol=1e-5)


def splits_of(n):
    from bagwise.regressors.attention.network import Split

    return [Split.of(WEIGHT > 0, np.arange(30) % 5, r) for r in range(n)]


def by_torch(network, data, task: Task, starts, recipe, n_jobs):
    return gpu.train(network, data, task, starts, replace(recipe, device="cpu"))


def test_groups_of_networks_are_those_trained_together(monkeypatch):
    network, data = network_and_data(SHAPES[0])
    recipe = Recipe(3, 3, 8, 0.003, 1e-4, "float32", 0, "cpu")
    monkeypatch.setattr("bagwise.regressors.attention.network._train_by_kernels", by_torch)
    together = train_members(network, data, Y, WEIGHT, splits_of(3), recipe)
    monkeypatch.setattr(gpu, "LARGEST", 1)
    alone = train_members(network, data, Y, WEIGHT, splits_of(3), recipe)
    assert [m.error for m in together] == pytest.approx([m.error for m in alone], rel=1e-4)


def test_mixed_precision_is_nearly_the_same(monkeypatch):
    monkeypatch.setattr("bagwise.regressors.attention.network._train_by_kernels", by_torch)
    X = np.random.default_rng(0).normal(size=(40, 5, 2))
    bags, y = bw.from_arrays(list(X)), X[:, :, 0].mean(axis=1)
    settings = {"read": (16,), "epochs": 10, "learning_rate": 0.01, "restarts": 2}
    full, mixed = (
        AttentionRegressor(**settings, precision=p).fit(bags, y).predict(bags) for p in ("float32", "bfloat16")
    )
    assert 0 < np.abs(full - mixed).max() < 0.1 * y.std() and np.corrcoef(full, y)[0, 1] > 0.9


@pytest.mark.parametrize("model", [AttentionRegressor(device="cuda"), AdditiveRegressor(device="cuda")], ids=repr)
def test_a_missing_gpu_is_named(model, monkeypatch):
    monkeypatch.setattr("bagwise.execution.resources.gpu", lambda: False)
    with pytest.raises(ValueError, match=r"device='cuda' needs a GPU, but torch finds none .* work on the CPU"):
        model.fit(*sample(20))
