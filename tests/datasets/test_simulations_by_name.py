"""The simulations that `bagwise datasets` lists, by name."""

import numpy as np
import pytest

from bagwise.datasets.simulations import SIMULATIONS, simulate


@pytest.mark.parametrize("name", SIMULATIONS)
def test_each_simulation_has_the_bags_asked_for(name):
    bags, y = simulate(name, 12, random_state=1)
    assert len(bags) == len(y) == 12 and np.isfinite(y).all()
    again, _ = simulate(name, 12, random_state=1)
    assert again == bags


def test_unknown_names_and_numbers_are_refused():
    with pytest.raises(ValueError, match="there is no data set 'aerosl'; did you mean 'aerosol'?"):
        simulate("aerosl")
    with pytest.raises(ValueError, match="n_bags must be at least 1, not 0"):
        simulate("mean", 0)
