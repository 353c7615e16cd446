"""`novelty`: flagged at the nominal rate where nothing changed, caught where something did; equal to plain loops."""

import numpy as np
import pytest

import bagwise as bw
from bagwise.bags.training_profile import MIN_UNITS, TrainingProfile

NAMES = ["red", "nir", "sza"]


def bags_of(n, seed, *, shift=0.0, spread=1.0, columns=3, first=0):
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=columns) + spread * rng.normal(size=(rng.integers(5, 30), columns)) for _ in range(n)]
    for one in arrays:
        one[:, 0] += shift
    return bw.from_arrays(arrays, ids=[f"b{first + i}" for i in range(n)], feature_names=NAMES[:columns])


def targets(bags):
    return np.array([bag[:, 0].mean() for bag in bags])


TRAINING = bags_of(120, 0)
MODEL = bw.method("aggregated").fit(TRAINING, targets(TRAINING))


def flagged(model, bags, verdicts=("edge", "outside")):
    return np.isin(bw.novelty(model, bags).verdict, verdicts).mean()


def test_bags_of_the_same_distribution_are_flagged_at_the_nominal_rate():
    rates = [(flagged(bags_of(100, seed), bags_of(200, 100 + seed))) for seed in range(12)]
    assert 0.03 < np.mean(rates) < 0.07
    outside = [(flagged(bags_of(100, seed), bags_of(200, 100 + seed), ["outside"])) for seed in range(12)]
    assert 0.003 < np.mean(outside) < 0.025


def test_shifted_bags_are_caught():
    assert flagged(MODEL, bags_of(100, 1, shift=8.0), ["outside"]) > 0.95
    assert flagged(MODEL, bags_of(100, 1, spread=3.0)) > 0.7


def test_a_bag_with_some_instances_far_out_is_caught_by_its_share():
    new = bags_of(40, 2)
    instances = new.instances.copy()
    rows = new.rows([7])
    instances[rows[: len(rows) // 4], 1] = 900.0
    found = bw.novelty(MODEL, new.replace(instances, feature_names=NAMES))
    assert found.verdict[7] == "outside"
    assert found.table()["column_outside"][7] == "nir"
    assert found.outside[7, 1] == pytest.approx((len(rows) // 4) / len(rows))
    assert "bag 'b7', with" in found.summary() and "column 'nir'" in found.summary()


def test_groups_are_left_out_as_a_whole():
    """Bags of one group resemble each other; those of new groups must not all be called strange."""
    rng = np.random.default_rng(3)

    def grouped(n_groups, name):
        centres = 3 * rng.normal(size=(n_groups, 3))
        arrays = [centre + 0.3 * rng.normal(size=(10, 3)) for centre in np.repeat(centres, 4, axis=0)]
        return bw.from_arrays(arrays, groups=[f"{name}{g}" for g in np.repeat(np.arange(n_groups), 4)])

    training, new = grouped(20, "a"), grouped(60, "b")
    assert flagged(training, new) < 0.2
    ungrouped = bw.from_arrays(list(training))
    assert flagged(ungrouped, new) > 0.3


def naive_shares(bags, low, high):
    return [
        sum(
            share
            for row, share in zip(bag, shares, strict=True)
            if any(not lo <= v <= hi for v, lo, hi in zip(row, low, high, strict=True))
        )
        for bag, shares in zip(bags, np.split(bags.shares(), bags.offsets[1:-1]), strict=True)
    ]


def test_shares_and_distances_are_those_of_plain_loops():
    rng = np.random.default_rng(4)
    training = bags_of(30, 5)
    weighted = training.with_weights(rng.uniform(size=training.n_instances).round(1) + 0.1)
    profile = TrainingProfile(weighted)
    new = bags_of(20, 6, spread=1.5)
    new = new.with_weights(rng.uniform(size=new.n_instances))
    found = bw.novelty(weighted, new)
    low, high = training.instances.min(axis=0), training.instances.max(axis=0)
    np.testing.assert_allclose(found.share_outside, naive_shares(new, low, high), rtol=1e-12)

    left_out = []
    for i in range(len(training)):
        others = np.concatenate([bag for j, bag in enumerate(training) if j != i])
        left_out += naive_shares(weighted[[i]], others.min(axis=0), others.max(axis=0))
    np.testing.assert_allclose(profile.shares, left_out, rtol=1e-6)

    def row(bag, weights):
        z = (bag - profile.centre) * profile.factor
        near = np.exp(-((z[:, None] - profile.landmarks) ** 2).sum(axis=2) / (2 * profile.width))
        return (np.average(near, axis=0, weights=weights) - profile.mean) @ profile.whitening

    def rows(bags):
        weights = np.split(bags.weights, bags.offsets[1:-1])
        return [row(bag, w) for bag, w in zip(bags, weights, strict=True)]

    known = rows(weighted)
    for i, one in enumerate(rows(new)):
        nearest = sorted(np.linalg.norm(one - other) for other in known)[:3]
        assert found.distance[i] == pytest.approx(np.mean(nearest), rel=1e-5)
    for i, one in enumerate(known):
        nearest = sorted(np.linalg.norm(one - other) for j, other in enumerate(known) if j != i)[:3]
        assert profile.distances[i] == pytest.approx(np.mean(nearest), rel=1e-4)


def test_no_bag_depends_on_the_others_of_the_call():
    new = bags_of(30, 7)
    whole, alone = bw.novelty(MODEL, new), [bw.novelty(MODEL, new[[i]]) for i in range(30)]
    assert whole.distance.tolist() == [one.distance[0] for one in alone]
    assert whole.verdict.tolist() == [one.verdict[0] for one in alone]


def test_covariates_missing_values_and_constant_columns():
    rng = np.random.default_rng(8)
    training = bags_of(60, 9, columns=2)
    instances = np.column_stack([training.instances, np.ones(training.n_instances)])
    instances[rng.uniform(size=instances.shape) < 0.1] = np.nan
    instances[:, 2] = 1.0

    def with_all(bags, values, sza):
        bags = bw.Bags(values, bags.offsets, feature_names=["red", "nir", "flag"], missing="impute")
        return bags.with_covariates(np.full((len(bags), 1), sza) + rng.normal(size=(len(bags), 1)), ["sza"])

    training = with_all(training, instances, 30.0)
    model = bw.method("aggregated").fit(training, rng.normal(size=60))
    same = bw.novelty(model, training)
    assert same.columns == ("red", "nir", "flag", "sza") and (same.share_outside == 0).all()
    moved = bw.novelty(model, training.with_covariates(np.full((60, 1), 80.0), ["sza"]))
    assert (moved.verdict == "outside").all() and (moved.table()["column_outside"] == "sza").all()
    assert np.isfinite(moved.distance).all()


SLOW = [
    pytest.param(name, marks=pytest.mark.slow)
    for name in bw.method_names()
    if name not in ("auto", "aggregated", "blr")
]


@pytest.mark.parametrize("name", ["aggregated", "blr", *SLOW])
def test_the_profile_travels_in_the_model_file(name, tmp_path):
    y = targets(TRAINING)
    model = bw.method(name).fit(TRAINING, y)
    bw.save_model(model, tmp_path / "with.bagwise")
    new = bags_of(20, 10, shift=2.0)
    again = bw.novelty(bw.load_model(tmp_path / "with.bagwise"), new)
    assert again.distance.tolist() == bw.novelty(model, new).distance.tolist()
    del model.profile_
    bw.save_model(model, tmp_path / "without.bagwise")
    assert (tmp_path / "with.bagwise").stat().st_size - (tmp_path / "without.bagwise").stat().st_size < 16_000
    with pytest.raises(ValueError, match="keeps no profile .* pass the training bags in its place"):
        bw.novelty(bw.load_model(tmp_path / "without.bagwise"), new)
    assert bw.novelty(TRAINING, new).verdict.tolist() == again.verdict.tolist()


def test_intervals_and_auto_keep_one_profile_and_their_parts_none(monkeypatch):
    made = []
    build = TrainingProfile.__init__
    monkeypatch.setattr(TrainingProfile, "__init__", lambda self, bags: made.append(bags) or build(self, bags))
    y = targets(TRAINING)
    inner = bw.method("auto", members=["aggregated", "statistics"], folds=3)
    model = bw.Intervals(inner, folds=3).fit(TRAINING, y)
    assert len(made) == 1
    new = bags_of(10, 11)
    assert bw.novelty(model, new).distance.tolist() == bw.novelty(TRAINING, new).distance.tolist()


def test_scan_fits_compare_means(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(TRAINING.instances, columns=NAMES).assign(
        bag=TRAINING.expand(TRAINING.ids), y=TRAINING.expand(targets(TRAINING))
    )
    model = bw.fit_scan(bw.scan(frame, bag="bag", target="y", chunk_rows=500), "aggregated")
    new = bags_of(60, 12)
    assert flagged(model, new) < 0.2
    assert flagged(model, bags_of(60, 12, shift=8.0)) > 0.9
    assert bw.novelty(model, new).share_outside.tolist() == bw.novelty(TRAINING, new).share_outside.tolist()


def test_what_is_refused():
    few = bags_of(MIN_UNITS - 1, 13)
    with pytest.raises(ValueError, match="there were 9 training bags .* needs at least 10"):
        bw.novelty(bw.method("aggregated").fit(few, targets(few)), few)
    with pytest.raises(ValueError, match="bags have 2 columns, covariates included, and the model was fitted on 3"):
        bw.novelty(MODEL, bw.from_arrays([np.zeros((3, 2))]))
    with pytest.raises(ValueError, match="the features differ from those at fit"):
        bw.novelty(MODEL, bw.from_arrays([np.zeros((3, 3))], feature_names=["red", "nir", "b3"]))
    with pytest.raises(ValueError, match="edge and outside must be shares"):
        bw.novelty(MODEL, TRAINING, edge=95, outside=99)
    with pytest.raises(ValueError, match="this BagPipeline keeps no profile"):
        bw.novelty(bw.method("aggregated"), TRAINING)
