import numpy as np
import pytest
from sklearn.ensemble import VotingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from tests.helpers.short_fits import brief

import bagwise as bw
from bagwise.auto import AutoRegressor
from bagwise.bags.segments import segment_sum
from bagwise.embeddings import KernelMean, NystroemMean, Pool, SecondKernel
from bagwise.embeddings.feature_mean import Similarity
from bagwise.explanations import explain
from bagwise.explanations.explanation import instance_values
from bagwise.intervals import Intervals
from bagwise.kernels import Gaussian, Linear
from bagwise.regressors import EmbeddingRidge, PoolPredictions
from bagwise.testing.contract_checks import sample

BAGS, Y = sample(60)
NEW, _ = sample(25, random_state=1)
ADDITIVE = [
    ("instance-mean", "default"),
    ("instance-mean", "paper"),
    ("aggregated", "default"),
    ("instance-kme", "single"),
    ("instance-kme", "additive"),
    ("instance-kme", "paper"),
    ("instance-kme", "notebook"),
    ("input-kme", "linear"),
    ("input-kme", "ensemble"),
    ("blr", "default"),
    ("aggregate-gp", "default"),
]
WEIGHTED = ["instance-median", "cluster", "salience", "prime", "pruning", "em", "bmir"]
_fitted = {}


def fitted(name, preset=None):
    if (name, preset) not in _fitted:
        _fitted[name, preset] = brief(bw.method(name, preset=preset)).fit(BAGS, Y)
    return _fitted[name, preset]


def bag_sums(values, bags=NEW):
    return np.array([part.sum() for part in np.split(values, bags.offsets[1:-1])])


@pytest.mark.parametrize(("name", "preset"), ADDITIVE)
def test_contributions_are_what_instances_alone_predict_and_sum_to_the_prediction(name, preset):
    model = fitted(name, preset)
    predictions = model.predict(NEW)
    # Before rounding is divided among the instances, too: the sums are the method's own.
    np.testing.assert_allclose(bag_sums(instance_values(model, NEW)["contributions"]), predictions, rtol=1e-9)
    explanation = explain(model, NEW)
    assert explanation.kind == "contributions" and explanation.values is explanation.contributions
    np.testing.assert_allclose(bag_sums(explanation.values), predictions, rtol=1e-12)
    np.testing.assert_array_equal(explanation.predictions, predictions)
    alone = model.predict(NEW.singles()) / NEW.expand(NEW.sizes)
    np.testing.assert_allclose(explanation.contributions, alone, rtol=1e-7, atol=1e-9)


QUICK = [name for name in bw.method_names() if name not in ("auto", "bdr")]


@pytest.mark.parametrize("name", QUICK)
def test_a_card_says_what_explain_has(name):
    told = instance_values(fitted(name), NEW)
    has = {kind for kind in ("contributions", "weights") if told[kind] is not None}
    chosen = {"contributions"} if name == "input-kme" else set()  # if the linear second kernel was
    assert has - chosen == set(bw.method_card(name).gives) - {"std"} - chosen
    if not has:
        assert explain(fitted(name), NEW[:5]).kind == "leave-one-out"


def carrying(bags, seed):
    """The same bags with instance weights, some of them zero, and a covariate."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.1, 3.0, bags.n_instances) * (rng.uniform(size=bags.n_instances) < 0.9)
    weights[bags.offsets[:-1]] = 1.0
    return bags.with_weights(weights).with_covariates(rng.normal(size=len(bags)), ["sun"])


@pytest.mark.parametrize(
    "name", ["instance-mean", "aggregated", "instance-kme:additive", "input-kme:linear", "input-kme:ensemble"]
)
def test_contributions_of_weighted_instances(name):
    bags, new = carrying(BAGS, 0), carrying(NEW, 1)
    name, _, preset = name.partition(":")
    model = brief(bw.method(name, preset=preset or None)).fit(bags, Y)
    parts = explain(model, new).contributions
    np.testing.assert_allclose(bag_sums(instance_values(model, new)["contributions"]), model.predict(new), rtol=1e-9)
    np.testing.assert_allclose(parts, model.predict(new.singles()) * new.shares(), rtol=1e-7, atol=1e-9)
    assert np.abs(parts[new.weights == 0]).max() < 1e-9 and (new.weights == 0).sum() > 5


@pytest.mark.parametrize("name", WEIGHTED)
def test_weights_sum_to_one(name):
    explanation = explain(fitted(name), NEW)
    assert explanation.kind == "weights" and explanation.contributions is None
    assert (explanation.values >= 0).all()
    np.testing.assert_allclose(bag_sums(explanation.values), 1.0, rtol=1e-9)


@pytest.mark.parametrize("name", ["instance-median", "prime", "pruning", "salience", "bmir"])
def test_the_prediction_is_the_weighted_mean_of_instance_predictions(name):
    model = fitted(name)
    explanation = explain(model, NEW)
    np.testing.assert_allclose(
        bag_sums(explanation.weights * explanation.instance_predictions), model.predict(NEW), rtol=1e-9, atol=1e-12
    )


def test_a_median_weighs_its_middle_instances_and_ties_share():
    values = bw.from_arrays([np.array([5.0, 1.0, 9.0]), np.array([1.0, 4.0, 2.0, 9.0]), np.array([3.0, 7.0, 3.0, 3.0])])
    model = PoolPredictions("median").fit(values, [0.0, 1.0, 2.0])
    third = 1 / 3
    expected = [1, 0, 0, 0, 0.5, 0.5, 0, third, 0, third, third]
    np.testing.assert_allclose(explain(model, values).weights, expected)
    assert explain(PoolPredictions("mean").fit(values, [0, 1, 2]), values).kind == "contributions"


@pytest.mark.parametrize(
    ("embedding", "additive"),
    [
        (KernelMean(Gaussian(1.0)), True),
        (KernelMean(Gaussian(1.0), columns="gram"), True),
        (NystroemMean(), True),
        (Pool(("mean",)), True),
        (Pool(("mean", "max")), False),
        (Similarity(pool="mean"), True),
        (Similarity(pool="max"), False),
        (SecondKernel(NystroemMean(), Linear()), True),
        (SecondKernel(NystroemMean(), Linear(), landmarks=10), True),
        (SecondKernel(NystroemMean(), Gaussian(1.0)), False),
        (SecondKernel(Pool(("max",)), Linear()), False),
    ],
)
def test_an_embedding_says_whether_it_is_a_mean(embedding, additive):
    model = EmbeddingRidge(embedding).fit(BAGS, Y)
    assert model.additive_ == additive
    if additive:
        np.testing.assert_allclose(bag_sums(model.contributions(NEW)), model.predict(NEW), rtol=1e-9)
    else:
        with pytest.raises(ValueError, match="is not a mean over instances"):
            model.contributions(NEW)


def test_contributions_do_not_need_memory_for_all_instances(monkeypatch):
    model = EmbeddingRidge(NystroemMean()).fit(BAGS, Y)
    whole, seen = model.contributions(NEW), []
    monkeypatch.setattr("bagwise.regressors.pipeline.BLOCK_BAGS", 7)
    project = NystroemMean.project
    monkeypatch.setattr(NystroemMean, "project", lambda self, bags, w: seen.append(len(bags)) or project(self, bags, w))
    np.testing.assert_allclose(model.contributions(NEW), whole, rtol=1e-12)
    assert max(seen[:-1]) == 7 and len(seen) > NEW.n_instances // 7


def test_an_average_of_additive_methods_is_additive():
    members = [("linear", bw.method("aggregated")), ("kernel", bw.method("input-kme", preset="linear"))]
    model = VotingRegressor([*members, ("none", "drop")], weights=[3, 1, 5]).fit(BAGS, Y)
    parts = [explain(member, NEW).contributions for member in model.estimators_]
    np.testing.assert_allclose(explain(model, NEW).contributions, (3 * parts[0] + parts[1]) / 4, rtol=1e-9)
    mixed = VotingRegressor([members[0], ("trees", bw.method("statistics"))]).fit(BAGS, Y)
    assert explain(mixed, NEW).kind == "leave-one-out"


@pytest.mark.parametrize("predictor", ["fold-mean", "refit"])
def test_a_blend_of_additive_methods_is_additive(predictor):
    blend = AutoRegressor(["aggregated", "input-kme:linear"], folds=3, predictor=predictor, transforms=False)
    explanation = explain(blend.fit(BAGS, Y), NEW)
    assert explanation.kind == "contributions"
    np.testing.assert_allclose(bag_sums(explanation.contributions), blend.predict(NEW), rtol=1e-9)
    inside = np.abs(explanation.predictions) < 1.0  # of a range of six: nothing is cut off
    by_hand = sum(
        blend.weights_[name] * np.mean([model.predict(NEW.singles()) for model in models], axis=0)
        for name, models in blend.models_.items()
    ) / NEW.expand(NEW.sizes)
    rows = NEW.rows(inside)
    assert inside.sum() > 5
    np.testing.assert_allclose(explanation.contributions[rows], by_hand[rows], rtol=1e-7, atol=1e-9)


def test_a_blend_with_trees_is_explained_by_leaving_out():
    blend = AutoRegressor([("trees", bw.method("statistics", preset="forest"))], folds=2).fit(BAGS, Y)
    assert explain(blend, NEW).kind == "leave-one-out"


def test_intervals_are_explained_by_their_method():
    model = Intervals("aggregated", kind="split").fit(BAGS, Y)
    explanation = explain(model, NEW)
    np.testing.assert_array_equal(explanation.predictions, model.predict(NEW))
    np.testing.assert_array_equal(explanation.values, explain(model.method_, NEW).values)


def test_searches_and_pipelines_of_pipelines_are_looked_into():
    search = GridSearchCV(bw.method("aggregated"), {"head__offset": ["none"]}, cv=2).fit(BAGS, Y)
    expected = explain(search.best_estimator_, NEW)
    np.testing.assert_array_equal(explain(search, NEW).values, expected.values)
    nested = make_pipeline(bw.method("aggregated")["scale"], "passthrough", bw.method("aggregated")).fit(BAGS, Y)
    assert explain(nested, NEW).kind == "contributions"


def test_rows_of_a_plain_regressor_have_no_instances():
    model = make_pipeline(Pool(("mean",)), Ridge()).fit(BAGS, Y)
    assert explain(model, NEW).kind == "leave-one-out"


class Own:
    """Somebody's method, with one method of its own."""

    def __init__(self, error=0.0):
        self.error = error

    def predict(self, bags):
        return segment_sum(bags.instances[:, 0], bags.offsets)

    def contributions(self, bags):
        return bags.instances[:, 0] + self.error


def test_a_method_of_ones_own_is_asked_for_its_verbs():
    explanation = explain(Own(), NEW)
    assert explanation.kind == "contributions"
    np.testing.assert_allclose(explanation.contributions, NEW.instances[:, 0], rtol=1e-12)
    np.testing.assert_allclose(
        explain(Own(), NEW, kind="leave-one-out").effects[~explanation.alone],
        NEW.instances[~explanation.alone, 0],
        rtol=1e-9,
    )
    with pytest.raises(ValueError, match=r"contributions miss the prediction by .*must sum to predict\(bags\)"):
        explain(Own(0.1), NEW)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("input-kme", "contributions"), ("input-kme", "leave-one-out"), ("instance-median", "weights"), ("em", "weights")],
)
def test_order_and_company_never_matter(name, kind):
    model = fitted(name, "linear" if name == "input-kme" else None)
    values = np.split(explain(model, NEW, kind=kind).values, NEW.offsets[1:-1])
    order = np.random.default_rng(0).permutation(len(NEW))
    shuffled = explain(model, NEW[order], kind=kind).values
    np.testing.assert_allclose(shuffled, np.concatenate([values[i] for i in order]), rtol=1e-6, atol=1e-9)
    turned = bw.from_arrays([bag[::-1] for bag in NEW])
    backwards = explain(model, turned, kind=kind).values
    np.testing.assert_allclose(backwards, np.concatenate([part[::-1] for part in values]), rtol=1e-6, atol=1e-9)
    alone = [explain(model, NEW[[i]], kind=kind).values for i in range(len(NEW))]
    np.testing.assert_allclose(np.concatenate(alone), np.concatenate(values), rtol=1e-6, atol=1e-9)


def test_table():
    bags = bw.from_arrays([np.array([1.0, 2.0, 6.0]), np.array([5.0])], ids=["a", "b"])
    model = PoolPredictions("mean").fit(bags, [0.0, 1.0])
    table = explain(model, bags, kind="leave-one-out").table()
    assert list(table) == ["bag", "instance", "contributions", "weights", "effects"]
    assert table["bag"].tolist() == ["a", "a", "a", "b"] and table["instance"].tolist() == [0, 1, 2, 0]
    np.testing.assert_allclose(table["effects"], [3 - 4, 3 - 3.5, 3 - 1.5, 0.0])
    np.testing.assert_allclose(table["contributions"], [1 / 3, 2 / 3, 2.0, 5.0])


def test_refusals():
    with pytest.raises(ValueError, match="kind must be 'auto', 'contributions', .*, not 'shap'"):
        explain(fitted("aggregated"), NEW, kind="shap")
    with pytest.raises(ValueError, match="has no weights of instances; it offers 'contributions', 'leave-one-out'"):
        explain(fitted("aggregated"), NEW, kind="weights")
    with pytest.raises(ValueError, match="bags have 2 features, but"):
        explain(fitted("aggregated"), sample(5, n_features=2)[0])
    with pytest.raises(NotFittedError, match="not fitted"):
        explain(bw.method("phase"), NEW)
    with pytest.raises(TypeError, match="expected Bags, not str"):
        explain(fitted("aggregated"), "bags")
