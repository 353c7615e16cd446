"""Input is converted to bags with exactly its values, or refused by an error of bagwise."""

import numpy as np
import pytest
from hypothesis import strategies as st
from tests.helpers.generating import effort, finite, ragged, told, try_all

import bagwise as bw


@effort
def test_arrays_come_back_as_they_went_in(effort):
    def check(arrays):
        bags = told(bw.from_arrays, arrays)
        usable = len(arrays) > 0 and all(len(a) and (np.abs(a.astype(float)) <= 1e100).all() for a in arrays)
        assert (bags is not None) == usable
        if bags is not None:
            assert len(bags) == len(arrays) and bags.n_instances == sum(map(len, arrays))
            for bag, array in zip(bags, arrays, strict=True):
                np.testing.assert_array_equal(bag, array)

    try_all(effort, check, ragged())


@effort
def test_selections_are_what_lists_would_give(effort):
    def check(arrays, data):
        bags = bw.from_arrays(arrays)
        picked = data.draw(st.lists(st.integers(-len(bags), len(bags) - 1), max_size=6))
        for bag, position in zip(bags[picked], picked, strict=True):
            np.testing.assert_array_equal(bag, arrays[position])
        mask = data.draw(st.lists(st.booleans(), min_size=len(bags), max_size=len(bags)))
        assert bags[np.array(mask)].ids.tolist() == [i for i, kept in enumerate(mask) if kept]
        wrong = data.draw(st.integers(len(bags), 2**40))
        try:
            bags[[wrong]]
        except IndexError as error:
            assert f"no bag at position {wrong}" in str(error)
        else:
            raise AssertionError("a bag that is not there was given")

    try_all(effort, check, ragged(finite, least=1, smallest=1), st.data())


@effort
@pytest.mark.filterwarnings("ignore:.*looks like a fill value")
@pytest.mark.filterwarnings("ignore:.*have the same features as an instance of another bag")
def test_saved_and_loaded_bags_are_equal(effort, tmp_path):
    labels = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=6)

    def check(arrays, names):
        names = [f"{name}{i}" for i, name in enumerate(names)][: len(arrays)]
        bags = bw.from_arrays(arrays, ids=names if len(names) == len(arrays) else None)
        y = np.arange(len(bags)) / 7
        bw.save_npz(tmp_path / "bags.npz", bags, y)
        again, targets = bw.load(tmp_path / "bags.npz")
        assert again == bags and (targets == y).all()

    try_all(effort, check, ragged(finite, least=1, smallest=1), st.lists(labels, max_size=8), few=40, many=2000)
