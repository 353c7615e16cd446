"""Contract checks for bag estimators, ours or yours: what `fit(bags, y)` and `predict(bags)` promise.

scikit-learn's own checks need a 2-D X. These are for estimators whose samples are bags.
"""

from __future__ import annotations

from collections.abc import Callable

from sklearn.base import clone

from bagwise.testing import contract_checks
from bagwise.testing.contract_checks import sample

__all__ = ["bag_estimator_checks", "check_bag_estimator", "parametrize_with_checks", "sample"]

CHECKS: dict[str, Callable] = {
    name.removeprefix("check_"): check for name, check in vars(contract_checks).items() if name.startswith("check_")
}
# Laws that a good estimator may break, because its prediction is meant to: they are asked for.
OPTIONAL = ("repeated_instances_change_nothing",)


def check_bag_estimator(estimator, *, laws: tuple[str, ...] = (), skip: tuple[str, ...] = ()) -> None:
    """Run every contract check on an unfitted bag regressor; the first broken one raises AssertionError.

    Parameters
    ----------
    estimator : unfitted, with ``fit(bags, y)`` and ``predict(bags)``
    laws : names of optional checks that this estimator promises to pass
        There is one so far, ``"repeated_instances_change_nothing"``: a bag whose instances all come twice has the same
        prediction, as it should where the prediction is a function of the bag's distribution.
    skip : names of checks to leave out (see `bag_estimator_checks`)
        The most costly one is ``"one_huge_bag_among_single_instances"``, a bag of 100,000.

    Examples
    --------
    >>> import bagwise as bw
    >>> bw.testing.check_bag_estimator(bw.method("aggregated"), laws=["repeated_instances_change_nothing"])
    """
    for name, check in bag_estimator_checks(laws=laws, skip=skip):
        try:
            check(clone(estimator))
        except Exception as error:
            error.add_note(f"in the contract check {name!r}: {(check.__doc__ or '').splitlines()[0]}")
            raise


def bag_estimator_checks(*, laws: tuple[str, ...] = (), skip: tuple[str, ...] = ()) -> list[tuple[str, Callable]]:
    """(name, check) for every check: for ``pytest.mark.parametrize``.

    Parameters
    ----------
    laws, skip : as in `check_bag_estimator`

    Examples
    --------
    >>> from bagwise.testing import bag_estimator_checks
    >>> [name for name, check in bag_estimator_checks() if "order" in name]
    ['order_of_bags_permutes_the_output', 'order_of_instances_never_matters']
    """
    _refuse_unknown(laws, OPTIONAL, "optional laws")
    _refuse_unknown(skip, CHECKS, "checks")
    left_out = {*skip, *OPTIONAL} - {*laws}
    return [(name, check) for name, check in CHECKS.items() if name not in left_out]


def parametrize_with_checks(estimators, *, laws: tuple[str, ...] = (), skip: tuple[str, ...] = ()):
    """A pytest decorator: a test with the arguments ``estimator`` and ``check``, for every pair of the two.

    Parameters
    ----------
    estimators : list of unfitted estimators, or dict of them by the name that pytest shows
    laws, skip : as in `check_bag_estimator`

    Examples
    --------
    In a test file of yours:

    >>> import bagwise as bw
    >>> from bagwise.testing import parametrize_with_checks
    >>> @parametrize_with_checks([bw.method("aggregated"), bw.method("prime")])
    ... def test_contract(estimator, check):
    ...     check(estimator)

    A dict names them, so that pytest says ``test_contract[ours-company_never_matters]``:

    >>> decorator = parametrize_with_checks({"ours": bw.method("aggregated")})
    >>> decorator.args[1][0].id
    'ours-parameters'
    """
    import pytest

    named = estimators.items() if isinstance(estimators, dict) else [(_shown(one), one) for one in estimators]
    checks = bag_estimator_checks(laws=laws, skip=skip)
    cases = [
        pytest.param(clone(estimator), check, id=f"{label}-{name}")  # its own copy: a check fits what it is given
        for label, estimator in named
        for name, check in checks
    ]
    return pytest.mark.parametrize(("estimator", "check"), cases)


def _shown(estimator) -> str:
    """As it was written, if that fits on a line, else its class."""
    text = "".join(repr(estimator).split())
    return text if len(text) <= 60 else type(estimator).__name__


def _refuse_unknown(names, known, what: str) -> None:
    wrong = [names] if isinstance(names, str) else [name for name in names if name not in known]
    if wrong:
        raise ValueError(f"{wrong[0]!r}: give a list of {what}, of {', '.join(known)}")
