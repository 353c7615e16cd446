"""Every method of the catalogue keeps every promise of a bag estimator."""

import pytest
from tests.helpers.short_fits import brief, trained

import bagwise as bw
from bagwise.testing import bag_estimator_checks

# Methods whose fit takes a second or so: every run checks what is most easily broken, the slow run everything.
COSTLY = {
    "additive",
    "aggregate-gp",
    "attention",
    "auto",
    "instance-kme-attention",
    "instance-kme-shrinkage",
    "shrinkage",
    "bdr",
    "bmir",
    "statistics",
}
ALWAYS = {"company_never_matters", "order_of_instances_never_matters", "tiny_data", "wrong_features_are_refused"}
MINUTES = {"one_huge_bag_among_single_instances"}
REPEATS = "repeated_instances_change_nothing"
# The prediction of these depends on the number of instances too, as it should.
COUNTS_INSTANCES: dict[str, str] = {
    "auto": "some of its members see the size of the bag",
    "bdr": "the mean of more instances is known better",
    "bmir": "the three likeliest instances count, and repeated ones take the place of others",
    "instance-kme-shrinkage": "the mean of more instances is shrunk less",
    "shrinkage": "the mean of more instances is shrunk less",
    "statistics": "the size is a statistic",
}


def cases():
    for name in bw.method_names():
        short = trained(bw.method(name))  # the slow run trains in full
        for what, check in bag_estimator_checks(laws=() if name in COUNTS_INSTANCES else (REPEATS,)):
            rare = what in MINUTES or (name in COSTLY and what not in ALWAYS)
            if not rare:
                yield pytest.param(name, check, True, id=f"{name}-{what}")
            if rare or short:
                yield pytest.param(name, check, False, marks=[pytest.mark.slow], id=f"{name}-{what}-in full")


@pytest.mark.parametrize(("name", "check", "short"), list(cases()))
def test_contract(name, check, short):
    model = bw.method(name)
    check(brief(model) if short else model)
