"""Failures of the system: a full disk, missing permissions."""

import os
import resource
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = str(Path(__file__).parents[2])  # so that a new interpreter finds tests.helpers
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NO_COLOR": "1", "COLUMNS": "500"}
ENVIRONMENT["PYTHONPATH"] = os.pathsep.join([ROOT, *filter(None, [os.environ.get("PYTHONPATH")])])
BAGWISE = [sys.executable, "-c", "from bagwise.cli import run; run()"]


@contextmanager
def files_of_at_most(size: int):
    """Make writes beyond this size fail, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@contextmanager
def as_nobody():
    """Drop the rights of root, if any, because permissions do not apply to root."""
    is_root = os.geteuid() == 0
    if is_root and not all(folder.stat().st_mode & 0o001 for folder in Path(ROOT, "src").parents):
        pytest.skip("other users cannot enter a folder above the checkout, so modules could not be imported")
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


@contextmanager
def without_permission(folder: Path):
    """Refuse the creation of files in the folder."""
    folder.chmod(0o555)
    try:
        with as_nobody():
            yield
    finally:
        folder.chmod(0o755)


@contextmanager
def open_folder():
    """Create a temporary folder that all users may enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def whole(folder: Path) -> dict[str, bytes]:
    """Return the content of each file in a folder, hidden files included."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
