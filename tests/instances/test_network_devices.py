"""Networks trained together on a device: the CPU engine's algorithm, step by step and by what it achieves.

Everything runs without a GPU: the batched engine on torch's CPU, the kernels by triton's interpreter where it is there.
"""

import os

os.environ.setdefault("TRITON_INTERPRET", "1")  # before triton is imported

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from bagwise.instances.networks import estimator as network_devices  # noqa: E402
from bagwise.instances.networks import gpu as network_orders  # noqa: E402
from bagwise.instances.networks import gpu as network_together  # noqa: E402
from bagwise.instances.networks.cpu import (  # noqa: E402
    Learner,
    Problem,
    Recipe,
    frozen,
    inverse,
    kernels,
    layout,
    train_networks,
)
from bagwise.instances.networks.estimator import NetworkRegressor, is_worth_a_gpu  # noqa: E402
from bagwise.instances.networks.gpu import (  # noqa: E402
    Batched,
    gather,
    upload,
)

SHAPES = [(), (8,), (20, 7), (9, 17, 4)]


def recipe(**changes):
    settings = {
        "hidden": (8,), "epochs": (2,), "batch_size": 13, "learning_rate": 0.01, "weight_decay": 0.3,
        "standardise": True, "scale_target": True, "seed": 7,
    }  # fmt: skip
    return Recipe(**(settings | changes))


def problem(how, n=61, d=5, folds=3, seed=0, weight=None):
    rng = np.random.default_rng(seed)
    X = 3 * rng.normal(size=(n, d)) + 1
    y = np.abs(X[:, 0]) + X[:, -1]
    return Problem.of(X, y, np.ones(n) if weight is None else weight, np.arange(n) % folds, how, n_networks=folds)


def weights(kind, n=61):
    rng = np.random.default_rng(1)
    light = np.where(np.arange(n) % 20 == 0, 1.0, 1e-3)  # most batches weigh less than a tenth per row
    return {
        "equal": np.ones(n),
        "unequal": rng.uniform(0.2, 3, n),
        "some absent": rng.integers(0, 3, n) * 1.0,
        "light": light,
    }[kind]


def grouped(problems, how):
    members = [(j, k) for j, p in enumerate(problems) for k in range(p.n_networks)]
    ((_, data),) = upload(problems, how, "cpu")
    return gather(problems, data, members, how)


def trained(Engine, problems, how):
    """Parameters of all networks after the epochs."""
    group = grouped(problems, how)
    engine, sizes = Engine(group), network_together.step_sizes(group, how)
    for epoch in range(how.epochs[-1]):
        engine.epoch(network_orders.shuffled(group.rows, group.counts, group.keys[epoch]), sizes, epoch)
    return group.parameters.numpy()


def by_the_cpu_engine(one: Problem, how: Recipe, k: int):
    """Network k by the compiled kernels, from the same first weights, over rows in the same order."""
    group = grouped([one], how)
    n, batch = int(group.counts[k]), int(group.batches[k])
    scaling = (one.x_shift[k], inverse(one.x_scale[k]), one.y_shift[k], float(inverse(one.y_scale[[k]])[0]))
    learner = Learner.begin(group.plan, scaling, batch, how.weight_decay, seed=0)
    learner.parameters[:] = group.parameters[k, : learner.size].numpy()
    prepared, engine = learner.prepared(one.X, one.y, one.weight, np.arange(len(one.X))), kernels(one.X.dtype)
    for epoch in range(how.epochs[-1]):
        order = network_orders.shuffled(group.rows, group.counts, group.keys[epoch])[k, :n].numpy().astype(np.int64)
        data = (*prepared, frozen(order), frozen(group.plan), learner.parameters, learner.memory)
        decay = how.weight_decay * float(one.weight[order].mean())
        engine.train_epoch(*data, batch, how.learning_rate, decay, epoch * -(-n // batch))
    return learner.parameters


# --- the algorithm, step by step


@pytest.mark.parametrize("kind", ["equal", "unequal", "some absent", "light"])
@pytest.mark.parametrize("hidden", SHAPES)
def test_batched_products_are_the_cpu_engine_on_the_same_rows(hidden, kind):
    how = recipe(hidden=hidden)
    one = problem(how, weight=weights(kind))
    found = trained(Batched, [one], how)
    for k in range(3):
        expected = by_the_cpu_engine(one, how, k)
        assert_allclose(found[k, : len(expected)], expected, rtol=1e-4, atol=1e-5)
        assert not found[k, len(expected) :].any()


@pytest.mark.parametrize(("hidden", "kind"), [((8,), "equal"), ((20, 7), "unequal"), ((40,), "light")])
def test_the_kernel_agrees_with_batched_products(hidden, kind):
    pytest.importorskip("triton", minversion="3.7")  # the interpreter of older ones does not know numpy 2.4
    from bagwise.instances.networks.triton_kernels import Fused

    how = recipe(hidden=hidden, epochs=(1,))
    problems = [problem(how, weight=weights(kind)), problem(how, n=40, folds=2, seed=3, weight=weights("equal", 40))]
    assert Fused.fits(grouped(problems, how).plan)
    assert_allclose(trained(Fused, problems, how), trained(Batched, problems, how), rtol=1e-5, atol=2e-6)


def test_shapes_that_the_kernel_trains():
    pytest.importorskip("triton")
    from bagwise.instances.networks.triton_kernels import Fused

    plans = [layout((16, *hidden, 1)) for hidden in ((), (128,), (64, 64), (2000,), (20, 20, 20))]
    assert [Fused.fits(plan) for plan in plans] == [False, True, True, False, False]


def test_a_column_that_hardly_varies_for_one_network_is_kept_in_double_precision():
    how = recipe()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    X[:20, 0] *= 1e6  # fold 0: network 0 sees a column a million times narrower than the others do
    one = Problem.of(X, X[:, 1] + np.sign(X[:, 0]), np.ones(60), np.arange(60) // 20, how, n_networks=3)
    other = problem(how, d=2)
    numbers, stored = zip(*upload([one, other], how, "cpu"), strict=True)  # neither is stored in another way for it
    assert numbers == ([1], [0]) and [data.X.dtype for data in stored] == [torch.float32, torch.float64]
    for company, alone in zip(network_together.train_together([one, other], how, "cpu"), (one, other), strict=True):
        for found, same in zip(company, network_together.train_together([alone], how, "cpu")[0], strict=True):
            assert_array_equal(found.predictions, same.predictions)
    expected = by_the_cpu_engine(one, how, 0)
    assert_allclose(trained(Batched, [one], how)[0, : len(expected)], expected, rtol=1e-4, atol=1e-5)


# --- permutations


@pytest.mark.parametrize("n", [1, 2, 3, 17, 100, 1023])
def test_orders_are_permutations(n):
    keys = torch.from_numpy(network_orders.epoch_keys(np.random.default_rng(n), 4).astype(np.int64))
    counts = torch.tensor([n, n, max(1, n // 2), 1])
    rows = 5 + torch.arange(n).expand(4, n)
    order = network_orders.shuffled(rows, counts, keys)
    for e, count in enumerate(counts.tolist()):
        assert sorted(order[e, :count].tolist()) == list(range(5, 5 + count))
    assert n < 17 or not torch.equal(order[0], order[1])


def test_every_row_comes_first_equally_often():
    keys = torch.from_numpy(network_orders.epoch_keys(np.random.default_rng(0), 4000).astype(np.int64))
    order = network_orders.shuffled(torch.arange(10).expand(4000, 10), torch.full((4000,), 10), keys).numpy()
    for place in (0, 4, 9):
        counts = np.bincount(order[:, place], minlength=10)
        assert ((counts - 400) ** 2 / 400).sum() < 35  # chi-squared with 9 degrees of freedom: one in 20,000
    assert abs(np.corrcoef(order[:, 0], order[:, 1])[0, 1] + 1 / 9) < 0.08


def test_the_kernel_gives_the_same_orders():
    pytest.importorskip("triton", minversion="3.7")
    from bagwise.instances.networks import triton_kernels

    group = grouped([problem(recipe()), problem(recipe(), n=40, folds=2)], recipe())
    found, expected = (
        module.shuffled(group.rows, group.counts, group.keys[0]) for module in (triton_kernels, network_orders)
    )
    for e, count in enumerate(group.counts.tolist()):
        assert torch.equal(found[e, :count], expected[e, :count])


# --- many networks


def test_problems_together_are_problems_alone():
    how = recipe(epochs=(2, 4))
    problems = [problem(how), problem(how, n=83, folds=4, seed=1)]
    together = network_together.train_together(problems, how, "cpu")
    assert [len(found) for found in together] == [3, 4]
    for one, found in zip(problems, together, strict=True):
        for k, (joint, alone) in enumerate(
            zip(found, network_together.train_together([one], how, "cpu")[0], strict=True)
        ):
            assert_array_equal(joint.rows, one.held(k))
            assert_allclose(joint.predictions, alone.predictions, rtol=1e-4, atol=1e-4)
            assert_allclose(joint.predictions, joint.networks.predict_each(one.X, joint.rows), rtol=1e-4, atol=1e-4)


def test_a_snapshot_is_a_shorter_run_and_the_same_seed_the_same_networks():
    several, again, short = (
        network_together.train_together([problem(how)], how, "cpu")[0]
        for how in (recipe(epochs=(2, 4)), recipe(epochs=(2, 4)), recipe(epochs=(2,)))
    )
    for one, same, first in zip(several, again, short, strict=True):
        assert_array_equal(one.predictions, same.predictions)
        assert_array_equal(one.predictions[:, :1], first.predictions)
        assert_array_equal(one.networks.parameters[:1], first.networks.parameters)


def test_accuracy_is_that_of_the_cpu_engine():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = np.abs(X[:, 0]) + 0.3 * X[:, 2] + 0.1 * rng.normal(size=400)
    differences = []
    for seed in range(8):
        how = recipe(hidden=(16,), epochs=(15,), batch_size=25, weight_decay=0.05, seed=seed)
        one = Problem.of(X, y, np.ones(400), np.arange(400) % 3, how, n_networks=3)
        ours, theirs = network_together.train_together([one], how, "cpu")[0], train_networks(one, how)
        errors = [
            np.sqrt(np.mean([np.mean((t.predictions[:, 0] - y[t.rows]) ** 2) for t in fits])) for fits in (ours, theirs)
        ]
        differences.append(errors[0] - errors[1])
    assert max(errors) < 0.4 * y.std()  # both have learned
    assert abs(np.mean(differences)) < 4 * np.std(differences, ddof=1) / np.sqrt(8)


def test_cross_fits_together_are_cross_fits():
    rng = np.random.default_rng(0)
    model, tables = NetworkRegressor((8,), epochs=(1, 2), batch_size=20), [rng.normal(size=(n, 3)) for n in (60, 80)]
    problems = [(X, X[:, 0], np.arange(len(X)) % 4, None) for X in tables]
    for fit, (X, y, fold, _) in zip(model.cross_fit_together(problems), problems, strict=True):
        alone = model.cross_fit(X, y, fold)
        assert_array_equal(fit.predictions, alone.predictions)
        assert_array_equal(fit.predictor(1, "refit").predict(X), alone.predictor(1, "refit").predict(X))
    with pytest.raises(ValueError, match="same number of features"):
        model.cross_fit_together([problems[0], (np.ones((9, 2)), np.arange(9.0), np.arange(9), None)])


# --- memory, divergence, choices


def test_too_little_memory_means_fewer_at_once_and_then_the_cpu(monkeypatch):
    how = recipe()
    expected = network_together.train_together([problem(how)], how, "cpu")[0]
    train, sizes = network_together._train, []

    def scarce(problems, data, members, *rest):
        sizes.append(len(members))
        if len(members) > limit:
            raise torch.OutOfMemoryError("no more")
        return train(problems, data, members, *rest)

    monkeypatch.setattr(network_together, "_train", scarce)
    limit = 1
    for one, same in zip(network_together.train_together([problem(how)], how, "cpu")[0], expected, strict=True):
        assert_allclose(one.predictions, same.predictions, rtol=1e-4, atol=1e-4)
    assert sizes == [3, 1, 1, 1]
    limit = 0
    monkeypatch.setattr(network_devices, "choose_device", lambda device, is_large: "cpu:0")
    monkeypatch.setattr(network_devices, "log_device", lambda what, place: None)
    with pytest.warns(UserWarning, match="memory of cpu:0 does not hold .* training on the CPU instead"):
        ((first, *_),) = network_devices.train_problems([problem(how)], how, device="auto")
    assert_array_equal(first.predictions, train_networks(problem(how), how)[0].predictions)


def test_a_kernel_too_large_for_the_card_gives_way_to_batched_products(monkeypatch):
    class OutOfResources(Exception):
        pass

    class Large(Batched):
        def epoch(self, *_):
            raise OutOfResources

    how = recipe()
    expected = network_together.train_together([problem(how)], how, "cpu")[0]
    monkeypatch.setattr(network_together, "engines", lambda plan, device: (Large, network_orders.shuffled))
    for one, same in zip(network_together.train_together([problem(how)], how, "cpu")[0], expected, strict=True):
        assert_array_equal(one.predictions, same.predictions)


def test_divergence_is_an_error():
    how = recipe(learning_rate=1e30)
    with pytest.raises(ValueError, match="diverged in epoch .* lower learning_rate, now 1e"):
        network_together.train_together([problem(how)], how, "cpu")


def test_what_is_worth_a_gpu():
    small, large = recipe(), recipe(hidden=(512,), epochs=(10**6,))
    assert not is_worth_a_gpu([problem(small)] * 9, small) and is_worth_a_gpu([problem(large)] * 9, large)
    assert not is_worth_a_gpu([problem(large)], large)  # three networks


def test_auto_on_a_machine_without_a_gpu_is_the_cpu_and_wrong_choices_are_refused(monkeypatch):
    X = np.random.default_rng(0).normal(size=(60, 2))
    expected = NetworkRegressor((4,), epochs=2).fit(X, X[:, 0]).predict(X)
    monkeypatch.setattr("bagwise.execution.resources.gpu", lambda: False)
    monkeypatch.setattr(network_devices, "WORTH", 0.0)
    monkeypatch.setattr(network_devices, "MANY", 1)
    assert_array_equal(NetworkRegressor((4,), epochs=2, device="auto").fit(X, X[:, 0]).predict(X), expected)
    for changes, message in (
        ({"device": "cuda"}, "torch finds none on this machine"),
        ({"device": "tpu"}, "device must be .* not 'tpu'"),
        ({"precision": "float16"}, "precision must be 'float32' or 'tf32', not 'float16'"),
    ):
        with pytest.raises(ValueError, match=message):
            NetworkRegressor((4,), epochs=2, **changes).fit(X, X[:, 0])


def test_weights_of_idle_units_end_at_zero_and_not_just_above():
    """Numbers below 1e-38 make some processors slower by a factor of thirty."""
    X = np.random.default_rng(0).normal(size=(200, 3))
    how = recipe(hidden=(16,), epochs=(400,), batch_size=10, weight_decay=30.0, learning_rate=1e-3)
    one = Problem.of(X, X[:, 0], np.ones(200), np.arange(200) % 2, how, n_networks=2)
    for trained in train_networks(one, how):
        sizes = np.abs(trained.networks.parameters)
        assert not ((sizes > 0) & (sizes < 1e-30)).any()
