import pickle

import pandas as pd
import pytest

import bagwise as bw
from bagwise.bags.validation import ParameterError, ParameterTypeError

TABLE = pd.DataFrame({"site": ["a", "a", "b"], "red": [1.0, 2.0, 3.0], "aod": [0.1, 0.1, 0.3]})


@pytest.mark.parametrize(
    ("parameter", "options", "words"),
    [
        ("bag", {}, "bag= is needed"),
        ("groups", {"bag": "site", "groups": "red"}, "more than one group in column 'red'"),
        ("missing", {"bag": "site", "missing": "drop"}, "missing must be"),
        ("ignore", {"bag": "site", "ignore": "nir"}, "there is no column 'nir'"),
    ],
)
def test_errors_carry_the_parameter(parameter, options, words):
    with pytest.raises(ParameterError, match=words) as caught:
        bw.load(TABLE, **options)
    assert caught.value.parameter == parameter
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.parameter, str(again)) == (parameter, str(caught.value))


def test_a_wrong_type_is_both_errors():
    with pytest.raises(TypeError, match="the target must be numbers") as caught:
        bw.load(TABLE.assign(aod=["x", "x", "y"]), bag="site", target="aod")
    assert isinstance(caught.value, ParameterTypeError) and caught.value.parameter == "target"
