"""Faults while saving leave the old file as it was, and nothing beside it."""

import errno
import os
import resource
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from saved_files import small_model

import bagwise as bw
from bagwise.saving import open_model, save
from bagwise.testing.contracts import sample


@pytest.fixture
def old(tmp_path):
    """A model file that is to survive, in a folder of its own."""
    path = tmp_path / "model.bagwise"
    save(small_model(), path)
    before = path.read_bytes()
    yield path
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["model.bagwise"]


def another_model():
    bags, y = sample(random_state=1)
    return bw.method("aggregated").fit(bags, y)


@contextmanager
def files_of_at_most(size: int):
    """Writing past this size fails half-way, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_write_that_stops_half_way(old):
    model = another_model()
    with files_of_at_most(4096), pytest.raises(OSError) as caught:
        save(model, old)
    assert caught.value.errno == errno.EFBIG


def test_a_full_disk(old, monkeypatch):
    def full(path, data):
        with open(path, "wb") as stream:
            stream.write(data[:1000])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left on device"):
        save(another_model(), old)


@contextmanager
def as_nobody():
    """Without the rights of root, where the tests have them."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_folder_without_permission(old):
    model = another_model()
    old.parent.chmod(0o555)
    try:
        with as_nobody(), pytest.raises(PermissionError, match="Permission denied"):
            save(model, old)
    finally:
        old.parent.chmod(0o755)


def test_a_model_that_cannot_be_saved(old):
    model = another_model()
    model.thing_ = lambda: None
    with pytest.raises(ValueError, match=r"it holds .*<lambda>"):
        save(model, old)


def test_a_new_model_takes_the_place_of_the_old(tmp_path):
    path, model = tmp_path / "model.bagwise", another_model()
    save(small_model(), path)
    save(model, path)
    bags, _ = sample()
    np.testing.assert_array_equal(open_model(path).predict(bags), model.predict(bags))
    assert [file.name for file in tmp_path.iterdir()] == ["model.bagwise"]
