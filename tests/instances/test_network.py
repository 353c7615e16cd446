"""Networks: the algorithm of a naive one, the accuracy of scikit-learn's, the same numbers on any number of cores."""

import pickle
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from joblib import Parallel, delayed, parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.neural_network import MLPRegressor
from threadpoolctl import threadpool_limits

from bagwise.instances.networks.cpu import Learner, initial_parameters, kernels, layers, layout
from bagwise.instances.networks.estimator import NetworkRegressor
from bagwise.instances.out_of_fold import CrossFitting


def problem(n=240, d=3, seed=0, bag=8):
    """Rows, targets, and the bag of every row."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.abs(X[:, 0]) + 0.3 * X[:, -1] + 0.1 * rng.normal(size=n)
    return X, y, np.arange(n) // bag


def small(**changes):
    return NetworkRegressor(**({"hidden": (8,), "epochs": 5, "batch_size": 20, "learning_rate": 0.01} | changes))


# --- the algorithm


def naive_training(X, y, weight, sizes, *, epochs, batch, rate, decay, seed):
    """Adam on the loss of `MLPRegressor`, in float64 and plain matrices; the same first weights and permutations."""
    rng = np.random.default_rng([seed, 0])
    plan = layout(sizes)
    model = [array.astype(np.float64) for pair in layers(initial_parameters(plan, rng), plan) for array in pair]
    stream = rng.integers(2**64, size=1, dtype=np.uint64)
    moments = [(np.zeros_like(array), np.zeros_like(array)) for array in model]
    order, step, weight = np.arange(len(X)), 0, weight / weight.mean()
    for _ in range(epochs):
        kernels(np.dtype(np.float64)).shuffle(order, stream)
        for start in range(0, len(X), batch):
            rows = order[start : start + batch]
            inputs, total = [X[rows]], weight[rows].sum()
            for W, b in zip(model[:-2:2], model[1:-2:2], strict=True):
                inputs.append(np.maximum(inputs[-1] @ W + b, 0))
            delta = (weight[rows] * ((inputs[-1] @ model[-2] + model[-1])[:, 0] - y[rows]))[:, None]
            gradients = [None] * len(model)
            for l in range(len(model) // 2 - 1, -1, -1):
                gradients[2 * l] = (inputs[l].T @ delta + decay * model[2 * l]) / total
                gradients[2 * l + 1] = delta.sum(axis=0) / total
                delta = (delta @ model[2 * l].T) * (inputs[l] > 0)
            step += 1
            for array, gradient, (m, v) in zip(model, gradients, moments, strict=True):
                m[:] = 0.9 * m + 0.1 * gradient
                v[:] = 0.999 * v + 0.001 * gradient**2
                array -= rate * np.sqrt(1 - 0.999**step) / (1 - 0.9**step) * m / (np.sqrt(v) + 1e-8)
    return model


BATCHES = [(61, 13), (700, 600)]  # the second longer than what is held at once


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n", "batch"), BATCHES)
@pytest.mark.parametrize("hidden", [(), (5,), (16,), (33,), (20, 7), (9, 17, 4)])
def test_training_is_the_naive_algorithm(hidden, n, batch, weighted):
    X, y, _ = problem(n=n, d=5)
    weight = np.random.default_rng(1).uniform(0.2, 3, n) if weighted else np.ones(n)
    settings = {"epochs": 3, "batch": batch, "rate": 0.01, "decay": 0.3, "seed": 7}
    expected = naive_training(X, y, weight, (5, *hidden, 1), **settings)
    network = NetworkRegressor(
        hidden, epochs=3, batch_size=batch, learning_rate=0.01, weight_decay=0.3, random_state=7,
        standardise=False, scale_target=False,
    ).fit(X, y, sample_weight=weight if weighted else None)  # fmt: skip
    arrays = [array for pair in layers(network.network_.parameters[0], layout((5, *hidden, 1))) for array in pair]
    for found, wanted in zip(arrays, expected, strict=True):
        assert_allclose(found, wanted, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("hidden", [(), (8,), (20, 7)])
def test_padding_stays_zero(hidden):
    X, y, _ = problem()
    parameters = small(hidden=hidden).fit(X, y).network_.parameters[0].copy()
    for W, b in layers(parameters, layout((3, *hidden, 1))):
        W[:], b[:] = 0, 0
    assert not parameters.any()


def test_standardising_inside_is_standardising_outside():
    X, y, _ = problem()
    X = X * [1, 1e3, 1e-5] + [5, -1e6, 1]
    Z, t = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    inside = small().fit(X, y).predict(X)
    outside = small(standardise=False, scale_target=False).fit(Z, t).predict(Z)
    assert_allclose(inside, y.mean() + y.std() * outside, rtol=1e-4, atol=1e-4)


def test_weights_count_up_to_a_factor_and_rows_of_weight_zero_are_absent():
    X, y, _ = problem()
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    network = small().fit(X, y, sample_weight=weight)
    assert_array_equal(network.predict(X), small().fit(X, y, sample_weight=weight * 8).predict(X))
    kept = weight > 0
    alone = small().fit(X[kept], y[kept], sample_weight=weight[kept])
    assert_allclose(network.predict(X), alone.predict(X), rtol=1e-5, atol=1e-6)
    assert_array_equal(small().fit(X, y).predict(X), small().fit(X, y, sample_weight=np.full(len(y), 5.0)).predict(X))


def test_accuracy_is_that_of_scikit_learn():
    X, y, _ = problem(n=1200, d=4)
    train, test = slice(0, 400), slice(400, None)
    differences = []
    for seed in range(8):
        shared = {"batch_size": 40, "random_state": seed}
        peer = MLPRegressor(
            hidden_layer_sizes=(32,),
            alpha=0.05,
            max_iter=25,
            tol=0,
            n_iter_no_change=1000,
            learning_rate_init=0.003,
            **shared,
        )
        ours = NetworkRegressor((32,), epochs=25, learning_rate=0.003, standardise=False, scale_target=False, **shared)
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            peer.fit(X[train], y[train])
        ours.fit(X[train], y[train])
        errors = [np.sqrt(np.mean((model.predict(X[test]) - y[test]) ** 2)) for model in (ours, peer)]
        differences.append(errors[0] - errors[1])
    assert max(errors) < 0.3 * y.std()  # both have learned
    assert abs(np.mean(differences)) < 4 * np.std(differences, ddof=1) / np.sqrt(8)


# --- seeds and cores


def test_the_same_seed_gives_the_same_numbers():
    X, y, _ = problem()
    first = small().fit(X, y).predict(X)
    assert_array_equal(first, small().fit(X, y).predict(X))
    assert not np.array_equal(first, small(random_state=1).fit(X, y).predict(X))
    assert_array_equal(
        small(random_state=np.random.RandomState(3)).fit(X, y).predict(X),
        small(random_state=np.random.RandomState(3)).fit(X, y).predict(X),
    )
    assert small(random_state=None).fit(X, y).predict(X).shape == y.shape


@pytest.mark.parametrize("n_jobs", [2, -1])
def test_numbers_do_not_depend_on_cores(n_jobs):
    X, y, _ = problem(n=9000)  # more rows than one block of predictions
    fold = np.arange(len(y)) % 5
    one = small(epochs=(1, 2)).cross_fit(X, y, fold, n_jobs=1)
    many = small(epochs=(1, 2), n_jobs=n_jobs).cross_fit(X, y, fold)
    assert_array_equal(one.predictions, many.predictions)
    for kind in ("fold-mean", "last-fold", "refit"):
        assert_array_equal(one.predictor(0, kind).predict(X), many.predictor(0, kind).predict(X))
    with parallel_config(n_jobs=2):
        assert_array_equal(one.predictions, small(epochs=(1, 2)).cross_fit(X, y, fold).predictions)


def test_several_threads_may_train_at_once():
    X, y, bags = problem()
    expected = small().cross_fit(X, y, bags % 3).predictions
    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(lambda _: small(n_jobs=2).cross_fit(X, y, bags % 3).predictions, range(8)):
            assert_array_equal(result, expected)


def test_a_prediction_does_not_depend_on_its_neighbours():
    X, y, bags = problem(n=600)
    for predictor in (small().fit(X, y), small().cross_fit(X, y, bags % 3).predictor(0, "fold-mean")):
        together = predictor.predict(X)
        assert_array_equal(together[::-1], predictor.predict(X[::-1]))
        assert_array_equal(together[100:103], predictor.predict(X[100:103]))


def test_one_compiled_version_per_dtype():
    X, y, _ = problem()
    frozen = X.copy()
    frozen.flags.writeable = False
    expected = small().fit(X, y).predict(X)
    for same in (frozen, np.asfortranarray(X), X.tolist()):
        assert_array_equal(small().fit(same, y).predict(same), expected)
    single = X.astype(np.float32)
    assert_array_equal(
        small().fit(single, y).predict(single), small().fit(single.astype(float), y).predict(single.astype(float))
    )
    compiled = kernels(np.dtype(np.float64))
    assert [len(f.signatures) for f in (compiled.shuffle, compiled.train_epoch, compiled.predict_rows)] == [1, 1, 2]


def test_rows_to_learn_from_are_scaled_once():
    X, y, _ = problem()
    rng, rows = np.random.default_rng(4), np.array([7, 3, 3, 20])
    weight = rng.uniform(size=len(X)).astype(np.float32)
    shift, factor = rng.normal(size=(2, X.shape[1]))
    learner = Learner.begin(layout((X.shape[1], 8, 1)), (shift, factor, 0.5, 3.0), 20, 0.1, seed=0)
    inputs, aims = learner.prepared(X, y, weight, rows)
    assert_array_equal(inputs, ((X[rows] - shift) * factor).astype(np.float32))
    assert_array_equal(aims, np.stack([((y[rows] - 0.5) * 3.0).astype(np.float32), weight[rows]], axis=1))
    assert inputs.ctypes.data % 64 == aims.ctypes.data % 64 == 0


# --- how many epochs


def test_a_snapshot_is_a_shorter_run():
    X, y, bags = problem()
    several = small(epochs=(6, 2, 4)).cross_fit(X, y, bags % 3)
    assert several.candidates == ({"epochs": 2}, {"epochs": 4}, {"epochs": 6})
    for column, epochs in enumerate((2, 4, 6)):
        assert_array_equal(several.predictions[:, [column]], small(epochs=epochs).cross_fit(X, y, bags % 3).predictions)


def test_epochs_are_chosen_on_whole_bags():
    # The target is noise but the same for all rows of a bag, and so is the input: rows held out one by one look
    # predictable, whole bags do not.
    rng = np.random.default_rng(0)
    bags = np.repeat(np.arange(30), 10)
    X, y = rng.normal(size=(30, 8))[bags], rng.normal(size=30)[bags]
    model = NetworkRegressor((64,), epochs=(1, 200), learning_rate=0.01, weight_decay=0)
    by_bag, by_row = clone(model).fit(X, y, groups=bags), clone(model).fit(X, y)
    assert (by_bag.epochs_, by_row.epochs_) == (1, 200)
    assert by_bag.epochs_ == min(by_bag.validation_errors_, key=by_bag.validation_errors_.get)
    assert by_row.validation_errors_[200] < 0.01 < by_bag.validation_errors_[1]


def test_the_chosen_snapshot_is_kept_and_its_error_is_on_the_bags_held_out():
    X, y, bags = problem()
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    model = small(epochs=(1, 3, 9), validation_fraction=0.3)
    held = model._held_out(bags, weight, model.recipe().seed)
    assert len(np.unique(bags[held])) == 9 and not set(bags[held]) & set(bags[~held])
    model.fit(X, y, sample_weight=weight, groups=[f"bag {b}" for b in bags])
    held = model._held_out(np.array([f"bag {b}" for b in bags]), weight, model.recipe().seed)
    alone = small(epochs=model.epochs_).fit(X[~held], y[~held], sample_weight=weight[~held])
    assert_allclose(model.predict(X), alone.predict(X), rtol=1e-5, atol=1e-6)
    error = np.average((model.predict(X) - y)[held] ** 2, weights=weight[held])
    assert_allclose(model.validation_errors_[model.epochs_], error)


def test_nothing_is_held_out_for_a_single_candidate():
    X, y, _ = problem()
    fixed, single = small(epochs=3).fit(X, y), small(epochs=(3,)).fit(X, y)
    assert fixed.epochs_ == single.epochs_ == 3 and fixed.validation_errors_ == {}
    assert_array_equal(fixed.predict(X), single.predict(X))


# --- cross-fitting


def test_own_labels_never_reach_own_predictions():
    X, y, bags = problem()
    fold = bags % 4
    changed = np.where(fold == 2, 100 - 3 * y, y)
    before, after = (small(epochs=(2, 5)).cross_fit(X, target, fold).predictions for target in (y, changed))
    assert_array_equal(before[fold == 2], after[fold == 2])
    assert not np.any(before[fold != 2] == after[fold != 2])


def test_cross_fitting_is_a_loop_over_folds():
    X, y, bags = problem()
    fold = bags % 3
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    fits = small().cross_fit(X, y, np.array(["c", "a", "b"])[fold], sample_weight=weight)  # "a" is fold 1, the first
    assert isinstance(small(), CrossFitting) and fits.candidates == ({"epochs": 5},)
    alone = small().fit(X[fold != 1], y[fold != 1], sample_weight=weight[fold != 1])
    assert_allclose(fits.predictions[fold == 1, 0], alone.predict(X[fold == 1]), rtol=1e-5, atol=1e-6)


def test_predictors():
    X, y, bags = problem()
    new = np.random.default_rng(5).normal(size=(50, 3))
    fits = small(epochs=(2, 6), hidden=(8, 5)).cross_fit(X, y, bags % 4)
    mean = fits.predictor(1, "fold-mean")
    each = [mean[k].predict(new) for k in range(4)]
    assert len(mean) == 4 and repr(mean) == "NetworkEnsemble(4 networks, 3-8-5-1)"
    assert_allclose(mean.predict(new), np.mean(each, axis=0))
    assert_array_equal(fits.predictor(1, "last-fold").predict(new), each[3])
    for k in range(4):
        assert_array_equal(mean[k].predict(X)[bags % 4 == k], fits.predictions[bags % 4 == k, 1])
    refit = fits.predictor(0, "refit")
    assert_array_equal(refit.predict(new), small(epochs=2, hidden=(8, 5)).fit(X, y).predict(new))
    assert refit.epochs_ == 2


def test_refitting_uses_the_seed_that_was_drawn():
    X, y, bags = problem()
    fits = small(random_state=None).cross_fit(X, y, bags % 3)
    assert_array_equal(fits.predictor(0, "refit").predict(X), fits.predictor(0, "refit").predict(X))


def test_bags_of_one_row_and_a_single_column():
    X, y, _ = problem(n=30, d=1)
    fits = small(epochs=(1, 2)).cross_fit(X, y, np.arange(30))
    assert fits.predictions.shape == (30, 2) and np.isfinite(fits.predictions).all()
    assert small(epochs=(1, 2)).fit(X, y, groups=np.arange(30)).predict(X).shape == (30,)


# --- awkward targets and inputs


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1e12])
def test_the_units_of_the_target_do_not_matter(scale):
    X, y, bags = problem()
    plain, scaled = (small().cross_fit(X, t, bags % 3) for t in (y, 7 * scale + scale * y))
    assert_allclose((scaled.predictions - 7 * scale) / scale, plain.predictions, atol=1e-4)


def test_a_constant_target_is_predicted():
    X, _, bags = problem()
    y = np.full(len(X), 0.1)
    assert_allclose(small().fit(X, y).predict(X), y, rtol=1e-15)
    assert_allclose(small().cross_fit(X, y, bags % 3).predictions[:, 0], y, rtol=1e-15)


def test_rounding_of_a_long_sum_is_no_deviation_of_a_constant_column():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=2000), np.full(2000, 0.1)])
    network, changed = small().fit(X, X[:, 0]), X + [0, 1e6]
    assert_array_equal(network.predict(X), network.predict(changed))


def test_a_row_alone():
    assert_array_equal(small().fit([[1.0, 2.0]], [3.0]).predict([[0.0, 9.0]]), [3.0])


# --- a good citizen


def test_cloning_and_pickling():
    X, y, bags = problem()
    model = small(epochs=(1, 2), n_jobs=2).fit(X, y, groups=bags)
    assert clone(model).get_params() == model.get_params()
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    fits = pickle.loads(pickle.dumps(model.cross_fit(X, y, bags % 3)))
    for kind in ("fold-mean", "last-fold", "refit"):
        predictor = fits.predictor(0, kind)
        assert_array_equal(pickle.loads(pickle.dumps(predictor)).predict(X), predictor.predict(X))
    ensemble = fits.predictor(0, "fold-mean")
    assert_array_equal(clone(ensemble).predict(X), ensemble.predict(X))


def test_numba_is_imported_only_when_needed():
    code = "import sys, bagwise, bagwise.instances.networks.estimator; assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_compiling_is_announced_once(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    code = "from bagwise.instances import NetworkRegressor as N; N(epochs=1).fit([[0.0], [1.0]], [0.0, 1.0])"
    said = [subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True) for _ in range(2)]
    assert "compiling the network kernels" in said[0].stderr and said[1].stderr == ""


@pytest.mark.slow
def test_compiling_without_a_folder_for_the_cache_names_the_variable_that_sets_one(tmp_path):
    code = "from numba.core.caching import CacheImpl; CacheImpl._locator_classes = []\n"
    code += "from bagwise.instances import NetworkRegressor as N; N(epochs=1).fit([[0.0], [1.0]], [0.0, 1.0])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stderr.count("in each process: set NUMBA_CACHE_DIR to a writable folder") == 1


@pytest.mark.slow
def test_processes_give_the_same_numbers():
    X, y, bags = problem()
    fits = Parallel(n_jobs=2)(delayed(small(n_jobs=2).cross_fit)(X, y, bags % 3) for _ in range(2))
    expected = small().cross_fit(X, y, bags % 3).predictions
    for fit in fits:
        assert_array_equal(fit.predictions, expected)


# --- errors


def test_divergence_is_an_error():
    X, y, bags = problem()
    with pytest.raises(ValueError, match="diverged in epoch .* lower learning_rate, now 1e"):
        small(learning_rate=1e30).fit(X, y)
    with pytest.raises(ValueError, match="lower learning_rate"):
        small(learning_rate=1e30, n_jobs=2).cross_fit(X, y, bags % 3)
    with pytest.raises(ValueError, match="or train with scale_target=True"):
        small(scale_target=False).fit(X, 1e25 * y)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden": (8, 0)}, "hidden must be made of whole numbers above zero"),
        ({"hidden": (2.5,)}, "hidden must be made of whole numbers above zero"),
        ({"epochs": 0}, "epochs must be made of whole numbers above zero"),
        ({"epochs": 2.0}, "epochs must be made of whole numbers above zero"),
        ({"epochs": ()}, "epochs must hold at least one candidate"),
        ({"batch_size": 0}, "batch_size must be made of whole numbers above zero"),
        ({"learning_rate": 0}, "learning_rate must be above zero"),
        ({"learning_rate": np.inf}, "learning_rate must be above zero"),
        ({"weight_decay": -1}, "weight_decay at least zero"),
        ({"epochs": (1, 2), "validation_fraction": 1.0}, "validation_fraction must be between 0 and 1"),
    ],
)
def test_wrong_settings(changes, message):
    X, y, _ = problem(n=20)
    with pytest.raises(ValueError, match=message):
        small(**changes).fit(X, y)


def test_wrong_data():
    X, y, bags = problem()
    missing = np.where(np.arange(len(y))[:, None] == 3, np.nan, X)
    for method in (lambda X: small().fit(X, y), lambda X: small().cross_fit(X, y, bags % 2)):
        with pytest.raises(ValueError, match="contains NaN"):
            method(missing)
        with pytest.raises(ValueError, match="infinity"):
            method(np.where(np.isnan(missing), np.inf, missing))
    with pytest.raises(ValueError, match="at least two folds"):
        small().cross_fit(X, y, np.zeros(len(y)))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        small().cross_fit(X, y, bags[:-1])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        small(epochs=(1, 2)).fit(X, y, groups=bags[:-1])
    with pytest.raises(ValueError, match="needs two bags or more"):
        small(epochs=(1, 2)).fit(X, y, groups=np.zeros(len(y)))
    with pytest.raises(ValueError, match="zero"):
        small().fit(X, y, sample_weight=np.zeros(len(y)))
    with pytest.raises(ValueError, match="[Nn]egative values"):
        small().fit(X, y, sample_weight=-np.ones(len(y)))
    with pytest.raises(ValueError, match="are in one fold"):
        small().cross_fit(X, y, bags % 2, sample_weight=(bags % 2).astype(float))


def test_wrong_use():
    X, y, bags = problem()
    with pytest.raises(NotFittedError):
        small().predict(X)
    with pytest.raises(ValueError, match="features"):
        small().fit(X, y).predict(X[:, :2])
    fits = small().cross_fit(X, y, bags % 3)
    with pytest.raises(ValueError, match="kind must be 'fold-mean'"):
        fits.predictor(0, "best")
    with pytest.raises(ValueError, match="X has 2 features, but these networks were trained on 3"):
        fits.predictor(0, "fold-mean").predict(X[:, :2])


@pytest.mark.parametrize(("rows", "batch"), [(20, 16), (2000, 31), (20_000, 200)])
def test_auto_batches_follow_the_number_of_rows(rows, batch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 2))
    auto, given = (NetworkRegressor((4,), epochs=1, batch_size=size).fit(X, X[:, 0]) for size in ("auto", batch))
    np.testing.assert_array_equal(auto.predict(X[:20]), given.predict(X[:20]))


@pytest.mark.parametrize("tiny", [1e-3, 1e-12, 1e-40, 1e-300])
def test_rows_of_next_to_no_weight_move_next_to_nothing(tiny):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (600, 2))
    y = X[:, 0] + X[:, 1]
    light = np.arange(600) < 500  # most batches weigh next to nothing
    y = np.where(light, 100.0 * np.sin(9 * X[:, 0]), y)
    recipe = {"hidden": (16,), "epochs": 60, "batch_size": 8, "learning_rate": 0.01, "scale_target": False}
    network = NetworkRegressor(**recipe).fit(X, y, sample_weight=np.where(light, tiny, 1.0))
    assert network.score(X[~light], y[~light]) > 0.9
