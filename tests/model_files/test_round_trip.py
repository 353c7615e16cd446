"""What is saved predicts the same when opened: every preset, other heads, another process."""

import subprocess
import sys
import warnings
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
import sklearn
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import ExtraTreesRegressor, GradientBoostingRegressor, HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LassoCV, Ridge
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler
from tests.helpers.saved_files import small_model

import bagwise as bw
from bagwise.auto import AutoRegressor
from bagwise.auto.members import plan
from bagwise.embeddings import KernelMean, NystroemMean, Pool
from bagwise.intervals import Intervals
from bagwise.kernels import Gaussian
from bagwise.model_files import describe_training, load_model, read_header, save_model
from bagwise.model_files.model_file import dump
from bagwise.regressors import EmbeddingRidge
from bagwise.testing.contract_checks import sample

# The default preset of every method is a contract (check_saves). Those whose fit takes longer wait for the slow run.
COSTLY = {"additive", "attention", "bdr", "bmir", "instance-kme", "instance-kme-attention", "shrinkage"}
COSTLY |= {"instance-kme-shrinkage"}


def presets():
    for name in bw.method_names():
        for preset in bw.method_card(name).preset_names[1:]:
            slow = name in COSTLY or preset in ("additive", "best", "ensemble", "forest", "second-kernel")
            yield pytest.param(name, preset, marks=[pytest.mark.slow] * slow)


def opened(model, path):
    save_model(model, path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return load_model(path)


@pytest.mark.parametrize(("name", "preset"), list(presets()))
def test_every_preset_predicts_the_same(name, preset, tmp_path):
    bags, y = sample(52)  # the 50 folds of the paper need as many bags
    model = bw.method(name, preset=preset).fit(bags, y)
    again = opened(model, tmp_path / "model.bagwise")
    np.testing.assert_array_equal(again.predict(bags), model.predict(bags))


HEADS = [
    ExtraTreesRegressor(3, random_state=0),
    GradientBoostingRegressor(n_estimators=3),
    GaussianProcessRegressor(RBF() + WhiteKernel(), normalize_y=True),
    HistGradientBoostingRegressor(max_iter=3, min_samples_leaf=2),
    KernelRidge(kernel="rbf"),
    LassoCV(cv=3),
    MLPRegressor(hidden_layer_sizes=(4,), max_iter=3, early_stopping=True, random_state=np.random.RandomState(0)),
    TransformedTargetRegressor(Ridge(), func=np.arcsinh, inverse_func=np.sinh),
    TransformedTargetRegressor(Ridge(), transformer=StandardScaler()),
]


@pytest.mark.parametrize("head", HEADS, ids=lambda head: type(head).__name__)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_heads_of_scikit_learn_predict_the_same(head, tmp_path):
    model = small_model(head)
    bags, _ = sample(random_state=1)
    np.testing.assert_array_equal(opened(model, tmp_path / "m").predict(bags), model.predict(bags))


KERNELS = ["Cauchy", "Exponential", "Linear", "Matern32", "Matern52", "Polynomial", "Student", "RationalQuadratic"]
EMBEDDINGS = [
    *(KernelMean(getattr(bw.kernels, name)()) for name in KERNELS),
    *(KernelMean(Gaussian(rule())) for rule in (bw.kernels.MarginalPseudolikelihood, bw.kernels.MedianDistance)),
    NystroemMean(Gaussian()),
    Pool(("mean", "median")),
]


@pytest.mark.parametrize("embedding", EMBEDDINGS, ids=lambda embedding: f"{embedding!r:.60}")
def test_embeddings_that_no_method_has_predict_the_same(embedding, tmp_path):
    bags, y = sample()
    model = EmbeddingRidge(embedding).fit(bags, y)
    np.testing.assert_array_equal(opened(model, tmp_path / "m").predict(bags), model.predict(bags))


def test_a_grid_search_predicts_the_same(tmp_path):
    bags, y = sample()
    search = GridSearchCV(small_model(), {"head__alpha": [0.1, 1.0]}, cv=KFold(3), scoring="r2").fit(bags, y)
    again = opened(search, tmp_path / "m")
    np.testing.assert_array_equal(again.predict(bags), search.predict(bags))
    np.testing.assert_array_equal(again.cv_results_["mean_test_score"], search.cv_results_["mean_test_score"])


def test_training_bags_are_kept_with_all_they_carry(tmp_path):
    bags, y = sample(feature_names=["a", "b", "c"])
    rng = np.random.default_rng(0)
    ids = np.array([i if i % 2 else f"bag {i}" for i in range(len(bags))], dtype=object)
    options = {"groups": np.arange(len(bags)) // 2, "weights": rng.uniform(1, 2, size=bags.n_instances)}
    bags = bw.Bags(bags.instances.astype(np.float32), bags.offsets, ids, feature_names=bags.feature_names, **options)
    model = EmbeddingRidge(KernelMean(Gaussian(), units="label", map="exact")).fit(bags, y)
    again = opened(model, tmp_path / "m")
    np.testing.assert_array_equal(again.predict(bags), model.predict(bags))
    assert again.embedding_.training_ == model.embedding_.training_
    with pytest.raises(AttributeError, match="Bags cannot be changed"):
        again.embedding_.training_.weights = None


@pytest.mark.parametrize("method", [bw.method("aggregated"), bw.method("statistics:forest", head__n_estimators=5)])
def test_wrapped_in_intervals_predicts_the_same(method, tmp_path):
    bags, y = sample(40)
    model = Intervals(method).fit(bags, y)
    again = opened(model, tmp_path / "m")
    np.testing.assert_array_equal(again.predict(bags), model.predict(bags))
    np.testing.assert_array_equal(again.predict_interval(bags), model.predict_interval(bags))


@pytest.mark.parametrize("members", [["aggregated"], pytest.param("auto", marks=pytest.mark.slow)])
def test_the_automatic_choice_predicts_the_same(tmp_path, members):
    bags, y = sample(40)
    model = AutoRegressor(members=members, time_budget=300).fit(bags, y)
    assert model.curve_ is not None  # it is saved, too
    again = opened(model, tmp_path / "m")
    np.testing.assert_array_equal(again.predict(bags), model.predict(bags))
    assert again.summary() == model.summary()


def test_the_fitted_features_are_still_required(tmp_path):
    model = opened(small_model(), tmp_path / "m")
    assert model.n_features_in_ == 3
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="the order is"):
        model.predict(sample(feature_names=["a", "c", "b"])[0])


def test_the_header_tells_what_the_model_is(tmp_path):
    bags, y = sample(feature_names=["a", "b", "c"])
    save_model(small_model(), tmp_path / "m", method="statistics", target="η", training=describe_training(bags, y))
    header = read_header(tmp_path / "m")
    expected = {"format": 3, "method": "statistics", "estimator": "BagPipeline", "feature_names": ["a", "b", "c"]}
    expected |= {"n_features": 3, "target": "η"}
    assert {key: header[key] for key in expected} == expected
    assert header["training"]["bags"] == 24 and header["training"]["target"]["mean"] == y.mean()
    assert header["versions"]["scikit-learn"] == sklearn.__version__
    assert header["versions"]["bagwise"] == bw.__version__
    assert abs(datetime.now(UTC) - datetime.fromisoformat(header["created"])) < timedelta(minutes=5)
    assert len(header["checksum"]) == 64


def test_the_same_model_gives_the_same_parts():
    assert dump(small_model()) == dump(small_model())


def test_an_array_used_twice_is_stored_once():
    model = small_model()
    before = len(dump(model))
    model[-1].again_, model[-1].equal_ = model[-1].coef_, model[-1].coef_.copy()
    assert len(dump(model)) == before


def test_a_fresh_process_predicts_the_same(tmp_path):
    bags, y = sample()
    model = bw.method("aggregated").fit(bags, y)
    save_model(model, tmp_path / "m")
    code = (
        "import sys; from bagwise.model_files import load_model; from bagwise.testing.contract_checks import sample; "
        "print(*map(float.hex, load_model(sys.argv[1]).predict(sample()[0])))"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "m"], capture_output=True, text=True, check=True)
    assert [float.fromhex(word) for word in done.stdout.split()] == model.predict(bags).tolist()


def test_plain_values_of_every_kind_are_the_same(tmp_path):
    model, rng = small_model(), np.random.default_rng(3)
    rng.normal(size=5)
    kept = {
        "numbers": [1, 2.5, float("inf"), None, True, "η"],
        "scalars": (np.float32(1.5), np.int8(-3), np.bool_(True), np.str_("name")),
        "keys": {2: "a", 2.5: "b", True: "c", "d": "e", np.int64(7): "f"} | {False: "g"},
        "set": {"a", "b"},
        "slice": slice(None, 4, 2),
        "types": [np.float64, int, np.dtype("<i4")],
        "objects": np.array([["a", 1], [None, 2.5]], dtype=object),
        "ragged": np.array([[1, 2], [3, 4, 5]], dtype=object),
        "lists": np.array([None, None], dtype=object),
        "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "none": np.empty((0, 3)),
        "log": np.log1p,
    }
    kept["lists"][:] = [[1, 2]], [[3, 4]]
    for name, value in kept.items():
        setattr(model[-1], f"{name}_", value)
    model[-1].masked_, model[-1].rng_ = np.ma.MaskedArray([1.0, 2.0], [False, True]), rng
    model[-1].state_ = np.random.RandomState(5)
    head = opened(model, tmp_path / "m")[-1]
    for name, value in kept.items():
        found = getattr(head, f"{name}_")
        assert type(found) is type(value) and repr(found) == repr(value), name
    assert {type(key) for key in head.keys_} == {int, float, bool, str, np.int64}
    assert head.columns_.flags.f_contiguous
    assert head.masked_.tolist() == [1.0, None]
    assert head.rng_.normal() == rng.normal() and head.state_.normal() == model[-1].state_.normal()


@pytest.mark.parametrize("name", ["statistics:linear", "statistics:forest", "statistics", "input-kme"])
def test_what_auto_fits_to_many_columns_can_be_saved(name, tmp_path):
    """Boosted trees see the columns that go with the target most, and the file names the score that chose them."""
    rng = np.random.default_rng(0)
    bags, y = bw.from_arrays(list(rng.normal(size=(40, 3, 150)))), rng.normal(size=40)
    (make,) = [member.make for member in plan(bags) if member.name == name]
    model = make(0).fit(bags, y)
    np.testing.assert_array_equal(opened(model, tmp_path / "m").predict(bags), model.predict(bags))
