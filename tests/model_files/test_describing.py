"""A method is told by all that decides what it computes, wherever that is written; and by nothing else."""

import functools
import importlib
import re
import sys
import threading

import numba
import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.preprocessing import FunctionTransformer
from tests.helpers.toy_estimators import TrainMean

import bagwise as bw
from bagwise.model_files import fingerprint as own_code
from bagwise.model_files.fingerprint import describe


def times(k):
    return lambda p: p * k


class Times:
    def __init__(self, k):
        self.k = k

    def __call__(self, p):
        return p * self.k

    def method(self, p):
        return p * self.k


def dressed(k):
    """Return a partial that looks like the function it wraps."""
    return functools.update_wrapper(functools.partial(np.multiply, k), times(1))


def marked(k):
    multiply = lambda p: p * multiply.k  # noqa: E731
    multiply.k = k
    return multiply


def recursive(k):
    def down(n):
        return k if n == 0 else down(n - 1)

    return down


MAKERS = {
    "closure": times,
    "defaults": lambda k: lambda p, factor=k: p * factor,
    "keyword-only default": lambda k: lambda p, *, factor=k: p * factor,
    "object": Times,
    "bound method": lambda k: Times(k).method,
    "partial": lambda k: functools.partial(np.multiply, k),
    "cached": lambda k: functools.lru_cache(lambda p: p * k),
    "compiled": lambda k: numba.njit(lambda p: p * k),
    "compiled in another way": lambda k: numba.njit(fastmath=k == 5)(lambda p: p + 1),
    "partial, dressed": dressed,
    "attribute": marked,
    "tensor": lambda k: pytest.importorskip("torch").full((3,), float(k)),
    "itself by name": recursive,
    "beside a lock": lambda k: lambda p, lock=threading.Lock(): p * k if lock else p,  # noqa: B008
    "a set": lambda k: lambda p, among=frozenset({"a", "b", k}): p in among,
    "inside a container": lambda k: {"by": [times(k)]},
    "vectorised": lambda k: np.vectorize(times(k)),
    "array of objects": lambda k: np.array([times(k), None], dtype=object),
    "a class": lambda k: type("Made", (Times,), {"k": k}),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_what_a_function_holds_counts(make):
    one, same, other = (describe(FunctionTransformer(make(k))) for k in (1, 1, 5))
    assert one == same != other


def test_two_functions_on_one_line_differ():
    one, other = [lambda p: p, lambda p: p * 5]
    assert describe(one) != describe(other)
    names = [lambda p: p.min(), lambda p: p.max()]  # the same bytecode, other names
    assert describe(names[0]) != describe(names[1])


OWN = """
import own_module_of_a_test_beside as beside
from sklearn.base import BaseEstimator

FACTOR = 2
k = 0

def shifted(p):
    return beside.moved(p) + 1

class Parent(BaseEstimator):
    k = 3

    @property
    def twice(self):
        return 2 * self.k

    @classmethod
    def made(cls):
        return cls()

    def predict(self, bags):
        return FACTOR * shifted(bags)

class Child(Parent):
    def fit(self, bags, y):
        super().__init__()
        return self
"""
BESIDE = """
def moved(p):
    return p - 1
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A function that writes two modules of one's own and describes the class in them, anew each time."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def described(main=OWN, beside=BESIDE):
        for name, text in (("own_module_of_a_test_beside", beside), ("own_module_of_a_test", main)):
            (tmp_path / f"{name}.py").write_text(text)
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return describe(importlib.import_module("own_module_of_a_test").Child())

    yield described
    for name in ("own_module_of_a_test_beside", "own_module_of_a_test"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("FACTOR = 2", "FACTOR = 3"),  # a constant that a base class names
        ("(p) + 1", "(p) + 2"),  # a function that it calls
        ("    k = 3", "    k = 4"),  # an attribute of it
        ("2 * self.k", "3 * self.k"),  # a property
        ("return cls()", "return cls"),  # a class method
        ("super().__init__()", "pass"),  # the class itself
    ],
)
def test_the_code_behind_an_own_class_counts(own, old, new):
    assert old in OWN
    assert own() != own(OWN.replace(old, new))


def test_a_module_of_ones_own_counts(own):
    assert own() == own() != own(beside=BESIDE.replace("p - 1", "p - 2"))


def test_comments_and_places_do_not_count(own):
    assert own() == own("# a comment\n\n" + OWN.replace("    k = 3", "    k = 3  # why"))


def test_being_used_does_not_change_a_class():
    kind = type("Used", (Times,), {})
    before = describe(kind)
    describe(kind(3))  # copying an instance leaves a note in its class
    assert describe(kind) == before


def test_code_with_a_version_is_told_by_its_version(monkeypatch):
    assert describe(Ridge()) == describe(Ridge()) and "#" not in describe(Ridge()) + describe(bw.method("aggregated"))
    assert "toy_estimators.TrainMean#" in describe(TrainMean())
    assert "DataFrame@" in describe(pytest.importorskip("pandas").DataFrame)
    monkeypatch.setattr(own_code, "released_version", lambda package: "1.0")
    old = describe(TrainMean())
    monkeypatch.setattr(own_code, "released_version", lambda package: "1.1")
    assert "toy_estimators.TrainMean@1.0(" in old and describe(TrainMean()) != old


def test_a_file_of_ones_own_may_be_called_as_one_of_python(tmp_path, monkeypatch):
    (tmp_path / "profile.py").write_text("def shift(p):\n    return p + 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "profile", raising=False)
    own_code.released_version.cache_clear()
    mine = importlib.import_module("profile")
    try:
        assert "#" in describe(mine.shift) and "#" not in describe(functools.reduce) + describe(re.sub)
    finally:
        del sys.modules["profile"]
        own_code.released_version.cache_clear()


def test_what_a_released_function_closes_over_counts():
    def released(k):
        made = times(k)
        made.__module__ = "sklearn.somewhere"
        return made

    assert describe(released(1)) == describe(released(1)) != describe(released(5))
