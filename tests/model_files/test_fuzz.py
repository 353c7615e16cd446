"""Bytes changed at random: a file that is not what it was is refused with a clear ValueError."""

import json

import numpy as np
import pytest
from tests.helpers.saved_files import resealed, small_file

from bagwise.model_files import load_model


def mutated(data: bytes, rng) -> bytes:
    """Cut, with bytes changed, dropped, repeated or moved."""
    kind = rng.integers(5)
    at = np.sort(rng.integers(0, len(data), size=2))
    if kind == 0:
        return data[: at[0]]
    if kind == 1:
        return data[: at[0]] + data[at[1] :]
    if kind == 2:
        return data[: at[1]] + data[at[0] :]
    changed = bytearray(data)
    first = 0 if kind == 3 else max(0, len(data) - 400)  # near the end is the table of contents
    for place in rng.integers(first, len(data), size=rng.integers(1, 9)):
        changed[place] = rng.integers(256)
    return bytes(changed)


def check_refused(data: bytes, path) -> None:
    path.write_bytes(data)
    with pytest.raises(ValueError, match="cannot open") as caught:
        load_model(path)
    assert str(caught.value).startswith(f"cannot open {path}: ") and "\n" not in str(caught.value)


COUNTS = [200, pytest.param(10_000, marks=pytest.mark.slow)]


@pytest.mark.parametrize("count", COUNTS)
def test_changed_bytes_are_refused(count, tmp_path):
    whole, rng = small_file(), np.random.default_rng(0)
    for _ in range(count):
        changed = mutated(whole, rng)
        if changed != whole:
            check_refused(changed, tmp_path / "m")


def test_every_changed_bit_near_the_end_is_refused(tmp_path):
    """The end of a zip is a table of contents with dates, attributes and comments that nobody reads."""
    whole = small_file()
    bits = [8 * (len(whole) - 100) + k for k in range(800)] + list(range(0, 8 * len(whole), 997))
    for bit in bits:
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        check_refused(bytes(changed), tmp_path / "m")


@pytest.mark.parametrize("more", [b"\0", b"junk", 70_000 * b"x"], ids=len)
def test_what_is_appended_is_refused(more, tmp_path):
    check_refused(small_file() + more, tmp_path / "m")


@pytest.mark.parametrize("count", COUNTS)
def test_damage_under_right_checksums_is_an_error_at_most(count, tmp_path):
    """The plan and the arrays themselves are damaged."""
    path, rng = tmp_path / "m", np.random.default_rng(0)

    def change(plan, arrays):
        if rng.integers(2):
            name = rng.choice(sorted(arrays))
            arrays[name] = mutated(arrays[name], rng)
            return plan
        text = json.dumps(plan)
        at = rng.integers(len(text))
        letter = rng.choice([*'0a"{[_.,:', "null", "__class__"])
        try:
            return json.loads(text[:at] + str(letter) + text[at + rng.integers(3) :])
        except ValueError:
            return {key: plan[key] for key in list(plan)[: rng.integers(6)]}

    for _ in range(count):
        path.write_bytes(resealed(small_file(), change))
        try:
            load_model(path)
        except ValueError as error:
            assert str(error).startswith(f"cannot open {path}: ") and "\n" not in str(error)
