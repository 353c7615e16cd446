"""The sequential test of novelty: false alarms at most the level, and changes that are found."""

import numpy as np
import pytest

import bagwise as bw
from bagwise.explanations.novelty_verdicts import detect_drift


def test_false_alarms_are_at_most_the_level():
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(1000):
        distance = rng.exponential(size=300)
        alarms += detect_drift(distance[:100], distance[100:], np.arange(200), 0.05).alarm is not None
    assert alarms <= 50 + 3 * np.sqrt(1000 * 0.05 * 0.95)


def test_p_values_are_ranks_among_training_and_earlier_bags():
    drift = detect_drift(np.array([1.0, 2.0, 3.0]), np.array([2.5, 4.0, 0.5]), np.arange(3), 0.01)
    assert drift.p_value.tolist() == pytest.approx([2 / 4, 1 / 5, 6 / 6])


def test_evidence_is_the_mixture_over_bets_and_starts():
    rng = np.random.default_rng(1)
    drift = detect_drift(rng.random(50), rng.random(8), np.arange(8), 0.01)
    bets = np.linspace(0.1, 0.9, 9)
    for t in range(8):
        total = 0.0
        for k in range(t + 1):
            products = [np.prod(bet * drift.p_value[k : t + 1] ** (bet - 1)) for bet in bets]
            total += np.mean(products) / ((k + 1) * (k + 2))
        assert drift.evidence[t] == pytest.approx(total + 1 / (t + 2), rel=1e-12)


def make_stream(seed=0, shift=0.0):
    bags, y = bw.datasets.make_gaussian(260, instances=20, random_state=seed)
    model = bw.method("aggregated").fit(bags[:120], y[:120])
    new = bags[120:]
    later = new.expand(np.arange(140) >= 70)[:, None]
    return model, new.replace(new.instances + shift * later)


def test_a_change_is_found_after_it_happened():
    model, stream = make_stream(shift=6.0)
    drift = bw.novelty(model, stream, by_time=True).drift
    assert drift.alarm is not None and 70 <= drift.alarm < 85
    assert str(stream.ids[drift.alarm]) in drift.summary()
    assert bw.novelty(model, make_stream()[1], by_time=True).drift.alarm is None
    assert bw.novelty(model, stream).drift is None


def test_bags_are_taken_in_order_of_time():
    model, stream = make_stream(shift=6.0)
    dated = stream.with_validation(bw.Validation(time=np.arange(140)))
    shuffled = dated[np.random.default_rng(0).permutation(140)]
    first, second = (bw.novelty(model, bags, by_time=True).drift for bags in (dated, shuffled))
    assert first.alarm == second.alarm and np.allclose(first.evidence, second.evidence)
    assert list(first.table()["bag"]) == list(second.table()["bag"]) == list(dated.ids)


def test_a_wrong_level_is_named():
    model, stream = make_stream()
    with pytest.raises(ValueError, match="level"):
        bw.novelty(model, stream, by_time=True, level=95)
