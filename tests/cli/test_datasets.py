"""`bagwise datasets`: simulations as tables."""

import numpy as np
import pytest
from tests.helpers.typed import done

import bagwise as bw
from bagwise.datasets.simulations import SIMULATIONS, simulate


def test_the_list_names_all():
    result = done("datasets")
    assert all(name in result.stdout for name in SIMULATIONS)


@pytest.mark.parametrize("name", SIMULATIONS)
def test_every_one_can_be_taken(name):
    bags, y = simulate(name, 12, random_state=1)
    assert len(bags) == len(y) == 12 and np.isfinite(y).all()
    again, _ = simulate(name, 12, random_state=1)
    assert again == bags


@pytest.mark.parametrize("ending", ["csv", "parquet", "npz"])
def test_a_written_table_is_the_data(tmp_path, ending):
    path = tmp_path / f"mean.{ending}"
    done("datasets", "mean", "--bags", "9", "--seed", "3", "--out", path)
    expected, y = bw.datasets.make_problem("mean", 9, random_state=3)
    bags, targets = bw.load(path, **({} if ending == "npz" else {"bag": "bag", "target": "target"}))
    np.testing.assert_array_equal(bags.instances, expected.instances)
    np.testing.assert_array_equal(targets, y)


def test_mistakes():
    with pytest.raises(ValueError, match="there is no data set 'aerosl'; did you mean 'aerosol'?"):
        simulate("aerosl")
    with pytest.raises(ValueError, match="n_bags must be at least 1, not 0"):
        simulate("mean", 0)
