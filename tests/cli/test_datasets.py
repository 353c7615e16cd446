"""`bagwise datasets`: simulations as tables."""

import numpy as np
import pytest
from tests.helpers.typed import done

import bagwise as bw
from bagwise.datasets.simulations import SIMULATIONS


def test_the_list_names_all():
    result = done("datasets")
    assert all(name in result.stdout for name in SIMULATIONS)


@pytest.mark.parametrize("ending", ["csv", "parquet", "npz"])
def test_a_written_table_is_the_data(tmp_path, ending):
    path = tmp_path / f"mean.{ending}"
    done("datasets", "mean", "--bags", "9", "--seed", "3", "--out", path)
    expected, y = bw.datasets.make_problem("mean", 9, random_state=3)
    bags, targets = bw.load(path, **({} if ending == "npz" else {"bag": "bag", "target": "target"}))
    np.testing.assert_array_equal(bags.instances, expected.instances)
    np.testing.assert_array_equal(targets, y)
