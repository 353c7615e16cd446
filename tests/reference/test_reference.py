"""Nothing moves under a user's feet: predictions and public signatures are those that were kept.

`write_reference.py` writes the files again, where a change is meant.
"""

import pytest
from reference_cases import (
    SIGNATURES,
    VALUES,
    answers,
    data_sets,
    distance,
    fitted,
    gives_std,
    method_cases,
    read,
    signatures,
    split,
    tolerance,
)

# A second or so on the larger sets; the first set has them in every run.
COSTLY = ("additive", "attention", "instance-kme-attention", "bdr", "shrinkage", "bmir:paper")
KEPT = read(VALUES)


def cases():
    for data in data_sets():
        for case in method_cases():
            preset = ":" in case
            slow = case.startswith(COSTLY) and data != "equal" and (data != "beside" or preset)
            slow |= (preset and data != "equal") or (case == "auto:best" and data != "equal")
            yield pytest.param(data, case, marks=[pytest.mark.slow] * slow)


@pytest.mark.parametrize(("data", "case"), list(cases()))
def test_predictions_are_those_kept(data, case):
    key = f"{data} {case}"
    assert key in KEPT["cases"], f"a new method: add {case!r} with write_reference.py"
    allowed = tolerance(KEPT, key)
    if allowed is None:
        pytest.skip("this case amplifies rounding, and was written on other kernels")
    found = answers(fitted(case, data), split(case, data)[2], std=gives_std(case))
    assert distance(found, KEPT["cases"][key]) <= allowed


def test_no_method_or_preset_is_gone():
    assert {key.partition(" ")[2] for key in KEPT["cases"]} - set(method_cases()) == set()


def test_public_signatures_are_those_kept():
    kept, now = read(SIGNATURES), signatures()
    lines = [f"removed: {name} {kept[name]}" for name in kept.keys() - now.keys()]
    lines += [f"added: {name} {now[name]}" for name in now.keys() - kept.keys()]
    both = kept.keys() & now.keys()
    lines += [f"changed: {name} {kept[name]}\n     to: {now[name]}" for name in both if kept[name] != now[name]]
    again = "if this is meant, say so in CHANGES.md and run: python tests/reference/write_reference.py signatures"
    assert not lines, "\n".join([*sorted(lines), again])
