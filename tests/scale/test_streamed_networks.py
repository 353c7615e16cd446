"""Networks trained on rows that stream from a scan: the same minibatches by a plain loop, whoever trains them."""

import pickle

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from tests.helpers.cut_tables import cut, scanned
from tests.helpers.killed_fits import Ended, Ending

import bagwise as bw
from bagwise.bags import bag_folds
from bagwise.execution import Processes
from bagwise.execution.resources import gpu
from bagwise.instances.networks.cpu import initial_parameters, kernels, layers, layout
from bagwise.methods import method
from bagwise.scale import fit_scan, predict_scan, streamed_networks
from bagwise.scale.passes import Passes
from bagwise.scale.streamed_networks import RowStream
from bagwise.scale.training_data import TrainingData


def single(**options):
    """The preset with a small network, on few folds."""
    small = {"hidden": (6,), "epochs": (1, 2), "batch_size": 32, "learning_rate": 0.01}
    model = method("instance-kme", preset="single").set_params(instances__folds=3)
    return model.set_params(**{f"instances__regressor__{key}": value for key, value in (small | options).items()})


def parameters(model):
    return model["instances"].predictor_.parameters


class Elsewhere:
    """Tasks that know nothing but what is pickled for them, done in another order than they were asked for."""

    def run(self, function, tasks, shared=()):
        for task in reversed(list(tasks)):
            yield task, pickle.loads(pickle.dumps(function(*pickle.loads(pickle.dumps((task, *shared))))))


# The minibatches, one by one ------------------------------------------------------------------------------------------


class Plain:
    """A network of one hidden layer and its steps of Adam, in double precision, as a textbook has them."""

    def __init__(self, width, seed):
        plan, rng = layout((width, 6, 1)), np.random.default_rng(seed)
        start = initial_parameters(plan, rng)
        self.stream = rng.integers(2**64, size=1, dtype=np.uint64)
        self.parts = [part.astype(np.float64) for layer in layers(start, plan) for part in layer]  # W, b, V, c
        self.first, self.second = ([np.zeros_like(part) for part in self.parts] for _ in range(2))
        self.steps = 0

    def step(self, x, t, w, decay):
        W, b, V, c = self.parts
        hidden = np.maximum(x @ W + b, 0)
        error = w * ((hidden @ V + c)[:, 0] - t)
        back = error[:, None] * V.T * (hidden > 0)
        slopes = [x.T @ back + decay * W, back.sum(0), hidden.T @ error[:, None] + decay * V, error.sum(keepdims=True)]
        self.steps += 1
        for part, slope, m, v in zip(self.parts, slopes, self.first, self.second, strict=True):
            slope /= max(w.sum(), 0.1 * len(w))
            m += 0.1 * (slope - m)
            v += 0.001 * (slope**2 - v)
            size = 0.01 * np.sqrt(1 - 0.999**self.steps) / (1 - 0.9**self.steps)
            part -= size * m / (np.sqrt(v) + 1e-8)


def by_a_plain_loop(source, table):
    """The networks of `single()` without each of three folds, after two epochs."""
    bags, y = bw.load(table, bag="bag", target="y", ignore=["site"])
    number = {one: i for i, one in enumerate(bags.ids)}
    fold = bag_folds(bags, 3)
    rows = []  # of every partition: X, target, weight and fold of its rows
    with Passes() as passes:
        loaded = [part.load() for part in TrainingData.of(source, passes).parts]
        for own in loaded:
            bag = own.expand(np.array([number[one] for one in own.ids]))
            weight = bags.n_instances / len(bags) / bags.sizes[bag]
            rows.append((np.array(own.instances), y[bag], weight, fold[bag]))
    X, t, w, f = (np.concatenate(part) for part in zip(*rows, strict=True))
    found = []
    for k in range(3):
        own, network = f != k, Plain(X.shape[1], [0, k])
        mean, scale = X[own].mean(0), X[own].std(0)
        factor = np.where(scale > 1e-12, 1 / np.where(scale > 0, scale, 1), 0)
        decay = 0.05 * w[own].mean()
        for epoch in range(2):
            draws = [np.random.default_rng([0, epoch, c]).integers(5, size=len(rows[c][0])) for c in range(len(rows))]
            for p in range(5):
                order = np.random.default_rng([0, epoch, p]).permutation(len(rows))
                A, u, v, g = (np.concatenate([rows[c][i][draws[c] == p] for c in order]) for i in range(4))
                A, u = (A - mean) * factor, (u - t[own].mean()) / t[own].std()
                for start in range(0, len(A), 408):
                    mine = start + np.flatnonzero(g[start : start + 408] != k)
                    kernels(np.dtype(np.float64)).shuffle(mine, network.stream)
                    for at in range(0, len(mine), 32):
                        some = mine[at : at + 32]
                        network.step(A[some], u[some], v[some], decay)
        found.append(network.parts)
    return found


def test_networks_are_those_of_a_plain_loop_over_the_same_minibatches(table, monkeypatch):
    monkeypatch.setattr(streamed_networks, "BUFFER_ROWS", 500)
    source = scanned(table, chunk_rows=600)
    assert 1 < len(source.chunks) <= streamed_networks.OPEN  # they take turns, each of them whole
    assert streamed_networks.cut_epoch(table.num_rows, 9, np.dtype(np.float64)) == (408, 5)
    model = fit_scan(source, single(epochs=2))
    plan = layout((len(source.feature_names), 6, 1))
    for ours, plain in zip(parameters(model), by_a_plain_loop(source, table), strict=True):
        for one, other in zip([part for layer in layers(ours, plan) for part in layer], plain, strict=True):
            assert_allclose(one, other, rtol=2e-3, atol=2e-4)


def test_a_buffer_that_holds_everything_makes_the_first_epoch_that_of_memory(table):
    bags, y = bw.load(table, bag="bag", target="y", ignore=["site"])
    for options in ({}, {"instances__predictor": "refit"}, {"instances__predictor": "last-fold"}):
        model = single(epochs=1).set_params(**options)
        expected = clone(model).fit(bags, y).predict(bags)
        assert_allclose(fit_scan(scanned(table), model).predict(bags), expected, rtol=1e-4, atol=1e-5)


def test_an_epoch_holds_every_row_once_and_mixes_the_partitions(table, tmp_path, monkeypatch):
    monkeypatch.setattr(streamed_networks, "OPEN", 4)
    with Passes() as passes:
        data = TrainingData.of(scanned(cut(table, tmp_path, 1), chunk_rows=100), passes)
        assert len(data.parts) > 8
        zeros = np.zeros(len(data))
        known = tuple(passes.each("known", streamed_networks._bag_values, data.tasks(zeros, zeros, zeros)))
        stream = RowStream(tuple(data.parts), known, data.n_features, np.dtype(np.float64), 300, 3, 0)
        all_rows = np.concatenate([part.load().instances for part in data.parts])
        orders = []
        for epoch in range(2):
            buffers = [buffer.X.copy() for buffer in stream.buffers(epoch)]
            assert max(map(len, buffers)) == 300 and len(buffers) == 9  # three for each of three readings
            orders.append(np.concatenate(buffers))
            assert_array_equal(np.sort(orders[-1], axis=0), np.sort(all_rows, axis=0))
    assert (orders[0] != orders[1]).any()


# Folds, choices, who trains -------------------------------------------------------------------------------------------


def test_the_bags_of_a_fold_never_touch_its_network(table):
    ids = np.array(table["bag"].to_pylist())
    bags, _ = bw.load(table, bag="bag", target="y", ignore=["site"])
    own = np.isin(ids, bags.ids[bag_folds(bags, 3) == 1])
    poisoned = table
    for name in ("y", "x0"):
        values = np.where(own, np.asarray(table[name]) * -50 + 3, np.asarray(table[name]))
        poisoned = poisoned.set_column(poisoned.schema.get_field_index(name), name, pa.array(values))
    before, after = (parameters(fit_scan(scanned(one, chunk_rows=600), single(epochs=2))) for one in (table, poisoned))
    assert_array_equal(after[1], before[1])
    assert (after[0] != before[0]).any() and (after[2] != before[2]).any()


def test_whoever_trains_the_networks_they_are_the_same_to_the_last_bit(table, tmp_path):
    source = scanned(cut(table, tmp_path, 1), chunk_rows=1000)
    model = single(epochs=(1, 2)).set_params(instances__predictor="refit")
    once = fit_scan(source, model)
    threads = clone(model).set_params(instances__n_jobs=2)
    for other in (fit_scan(source, threads), fit_scan(source, model, executor=Elsewhere())):
        assert_array_equal(parameters(other), parameters(once))
        assert_array_equal(other["head"].head_.coef_, once["head"].head_.coef_)
    seeded = clone(model).set_params(instances__regressor__random_state=1)
    assert (parameters(fit_scan(source, seeded)) != parameters(once)).any()


def test_a_fit_that_was_ended_goes_on_from_the_last_epoch_with_the_same_bits(table, tmp_path):
    source, model, work = scanned(table, chunk_rows=1100), single(epochs=(1, 3)), tmp_path / "work"
    once = fit_scan(source, model)
    with pytest.raises(Ended):
        fit_scan(source, model, work=work, executor=Ending("epoch-by-1", 1))
    assert len(list(work.glob("cells/*/*epoch*/*"))) == 1
    again = fit_scan(source, model, work=work)
    assert_array_equal(parameters(again), parameters(once))
    assert len(list(work.glob("cells/*/*epoch*"))) == 3


@pytest.mark.slow
def test_processes_and_a_cluster_train_the_same_networks(table, tmp_path):
    (tmp_path / "cut").mkdir()
    source, work = scanned(cut(table, tmp_path / "cut", 1), chunk_rows=200), tmp_path / "work"
    once = fit_scan(source, single(), work=work)
    assert_array_equal(parameters(fit_scan(source, single(), executor=Processes(2))), parameters(once))
    assert_array_equal(parameters(fit_scan(source, single(), executor=Processes(2), work=work)), parameters(once))
    with bw.cluster(n_workers=2):
        assert_array_equal(parameters(fit_scan(source, single())), parameters(once))


def test_the_second_stage_judges_the_epochs_as_in_memory(table):
    bags, y = bw.load(table, bag="bag", target="y", ignore=["site"])
    model = fit_scan(scanned(table, chunk_rows=600), single(epochs=(1, 4)))
    stage = model["instances"]
    assert stage.candidate_ == {"epochs": (1, 4)[int(np.argmin(stage.candidate_errors_))]}
    column, fold = np.empty((bags.n_instances, 1)), bags.expand(bag_folds(bags, 3))
    for k in range(3):
        column[fold == k, 0] = stage.predictor_[k].predict(bags.instances[fold == k])
    predicted = bags.replace(column)
    assert_allclose(stage.judge.leave_one_out_error(predicted, y), stage.candidate_errors_.min(), rtol=1e-7)
    head = clone(model["head"]).fit(predicted, y)
    assert_allclose(model["head"].error_, head.error_, rtol=1e-7)
    assert_allclose(model["head"].predict(predicted), head.predict(predicted), rtol=1e-6)
    assert model["head"].feature_range_in_.ravel().tolist() == [column.min(), column.max()]


def test_the_presets_of_the_paper_stream_too_and_bags_are_predicted_piece_by_piece(table, tmp_path):
    bags, _ = bw.load(table, bag="bag", target="y", ignore=["site"])
    source = scanned(cut(table, tmp_path, 1), chunk_rows=400)
    small = {"instances__folds": 3, "instances__regressor__hidden": (6,), "instances__regressor__epochs": 2}
    model = fit_scan(source, method("instance-kme", preset="paper").set_params(**small))
    assert not hasattr(model["instances"], "candidate_errors_")
    found = predict_scan(model, source)
    expected = dict(zip(bags.ids, model.predict(bags), strict=True))
    assert_allclose(found.values, [expected[one] for one in found.ids], rtol=1e-6, atol=1e-8)
    bw.save_model(model, tmp_path / "model.bagwise")
    assert_array_equal(bw.load_model(tmp_path / "model.bagwise").predict(bags), model.predict(bags))


@pytest.mark.torch
def test_networks_on_a_device_are_as_good_and_the_same_again(table, monkeypatch):
    """By batched products of torch on the CPU, which is what a GPU without triton does."""
    pytest.importorskip("torch")
    model = single(device="cuda", epochs=(4, 8), hidden=(16,)).set_params(instances__predictor="refit")
    source = scanned(table, chunk_rows=300)
    expected = fit_scan(source, clone(model).set_params(instances__regressor__device="cpu"))
    monkeypatch.setattr(streamed_networks, "BUFFER_ROWS", 700)
    monkeypatch.setattr(streamed_networks, "choose_device", lambda *_, **__: "cpu:0")
    monkeypatch.setattr(streamed_networks, "log_device", lambda *_: None)
    once, again = fit_scan(source, model), fit_scan(source, model, executor=Elsewhere())
    assert_array_equal(parameters(again), parameters(once))
    assert_allclose(once["instances"].candidate_errors_, expected["instances"].candidate_errors_, rtol=0.2)


def test_what_cannot_be_streamed_is_refused(table):
    with pytest.raises(ValueError, match="Got 70 folds. A scan allows at most 64"):
        fit_scan(scanned(table), single().set_params(instances__folds=70))
    if not gpu():
        with pytest.raises((ImportError, ValueError), match="device='cuda' needs .*use device='cpu'"):
            fit_scan(scanned(table), single(device="cuda"))
    with pytest.raises(ValueError, match="training diverged in epoch 1: the loss is not finite; lower learning_rate"):
        fit_scan(scanned(table), single(learning_rate=1e30))
