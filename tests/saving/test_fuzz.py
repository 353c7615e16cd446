"""Bytes changed at random: a file is refused with a clear ValueError, or it opens and is what it was."""

import json

import numpy as np
import pytest
from saved_files import resealed, small_file, small_model

from bagwise.saving import open_model
from bagwise.testing.contracts import sample


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


def check_refused_or_same(count: int, tmp_path) -> int:
    bags, _ = sample()
    expected, path, rng = small_model().predict(bags), tmp_path / "m", np.random.default_rng(0)
    opened = 0
    for _ in range(count):
        path.write_bytes(mutated(small_file(), rng))
        try:
            model = open_model(path)
        except ValueError as error:
            assert str(error).startswith(f"cannot open {path}: ") and "\n" not in str(error)
        else:
            np.testing.assert_array_equal(model.predict(bags), expected)
            opened += 1
    return opened


def test_changed_bytes_are_refused_or_do_not_matter(tmp_path):
    assert check_refused_or_same(300, tmp_path) < 75  # most changes matter


@pytest.mark.slow
def test_many_changed_bytes_are_refused_or_do_not_matter(tmp_path):
    check_refused_or_same(10_000, tmp_path)


def check_resealed(count: int, tmp_path) -> None:
    """The same with right checksums: the plan and the arrays themselves are damaged."""
    path, rng = tmp_path / "m", np.random.default_rng(0)

    def change(plan, arrays):
        if rng.integers(2):
            name = rng.choice(sorted(arrays))
            arrays[name] = mutated(arrays[name], rng)
            return plan
        text = json.dumps(plan)
        at = rng.integers(len(text))
        letter = rng.choice([*'0a"{[_.,:', "null", "__id__"])
        try:
            return json.loads(text[:at] + str(letter) + text[at + rng.integers(3) :])
        except ValueError:
            return {"protocol": int(rng.integers(4)), **{key: plan[key] for key in list(plan)[: rng.integers(6)]}}

    for _ in range(count):
        path.write_bytes(resealed(small_file(), change))
        try:
            open_model(path)
        except ValueError as error:
            assert str(error).startswith(f"cannot open {path}: ") and "\n" not in str(error)


def test_damage_under_right_checksums_is_an_error_at_most(tmp_path):
    check_resealed(200, tmp_path)


@pytest.mark.slow
def test_much_damage_under_right_checksums_is_an_error_at_most(tmp_path):
    check_resealed(10_000, tmp_path)
