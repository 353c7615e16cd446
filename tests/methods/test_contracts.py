"""Every method of the catalogue keeps every promise of a bag estimator."""

import importlib.util

import pytest

import bagwise as bw
from bagwise.testing import bag_estimator_checks

METHODS = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(
            bw.card(name).needs is not None and importlib.util.find_spec(bw.card(name).needs) is None,
            reason=f"{name} needs the extra {bw.card(name).needs}",
        ),
    )
    for name in bw.methods()
]


@pytest.mark.parametrize(
    ("what", "check"), bag_estimator_checks(), ids=lambda value: value if isinstance(value, str) else ""
)
@pytest.mark.parametrize("name", METHODS)
def test_contract(name, what, check):
    check(bw.method(name))
