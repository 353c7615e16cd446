"""Passes over partitions: a function of each, mapped by an executor; the results are arrays in a folder.

A partition whose result is in the folder is not made again. So a fit that was interrupted continues where it stopped.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from errno import ENOSPC
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from bagwise.execution import executor_for
from bagwise.execution.resources import keep_freed_memory, memory_map, one_thread
from bagwise.execution.tasks import Lost
from bagwise.io.atomic_files import new_folder
from bagwise.io.table_files import is_url
from bagwise.io.table_output import duration
from bagwise.model_files.fingerprint import describe, digest, of_library
from bagwise.model_files.store import Store

STAMPS_AT_ONCE = 16  # files of which the size and time are read in parallel
LEAST_SECONDS = 0.1  # between two steps that are reported


class Passes:
    """Passes over partitions, in the folder ``work``, or in a temporary one ``within`` another, removed at the end."""

    def __init__(self, executor=None, *, work: Path | None = None, within=None, progress: Callable | None = None):
        if executor is not None and not hasattr(executor, "run"):
            raise TypeError(
                f"Got {executor!r} as executor. An object with a method run is required. Pass "
                "bagwise.execution.Processes(2), for example."
            )
        self.executor = executor_for(None) if executor is None else executor
        self.progress, self.keeps, self.count = progress, work is not None, 0
        self._temporary = TemporaryDirectory(prefix="bagwise-", dir=within, ignore_cleanup_errors=True)
        if work is not None:
            self._temporary.cleanup()
        self.folder = (Path(self._temporary.name) if work is None else work).absolute()

    def __enter__(self) -> Passes:
        return self

    def __exit__(self, *_) -> None:
        self._temporary.cleanup()

    def each(self, name: str, function: Callable, tasks: list[tuple], *shared, executor=None) -> list[Arrays]:
        """Return the arrays that ``function(*task, *shared)`` gives for each task, in order; they stay on disk.

        The first item of a task is a partition, or something else with a name and a number of rows. After an error no
        other task is started; that of the first task is raised unchanged.
        """
        self.count += 1
        folder = self.folder / f"{self.count:03d}-{name}"
        folder.mkdir(parents=True, exist_ok=True)
        places = [folder / f"{number:05d}" for number in range(len(tasks))]
        missing = [(place, task) for place, task in zip(places, tasks, strict=True) if not _is_whole(place)]
        rows, total = sum(task[0].n_rows for _, task in missing), sum(first.n_rows for first, *_ in tasks)
        done = total - rows
        started = reported = time.perf_counter()
        errors: dict[Path, tuple] = {}
        waiting = takewhile(lambda _: not errors, missing)
        runs = (executor or self.executor).run(_Writing(name), waiting, (function, *shared)) if missing else ()
        for (place, (first, *_)), error in runs:
            if error is not None:
                errors[place] = first, error
            done, now = done + first.n_rows, time.perf_counter()
            if self.progress is not None and (now - reported >= LEAST_SECONDS or done == total):
                reported, rate = now, (done - total + rows) / max(now - started, 1e-9)
                self.progress(PassStep(self.count, name, done, total, rate, (total - done) / rate))
        if errors:
            first, error = errors[min(errors)]
            raise RuntimeError(f"{first.name}: {error.reason}") if isinstance(error, Lost) else error
        return [Arrays(place) for place in places]

    def forget(self, since: int) -> None:
        """Remove the results of passes after number ``since`` from a temporary folder; a work folder keeps them."""
        for path in () if self.keeps else self.folder.glob("*-*"):
            if int(path.name.partition("-")[0]) > since:
                shutil.rmtree(path, ignore_errors=True)


class _Writing(NamedTuple):
    """Function that writes the result of a task to a folder; a dashboard shows its tasks by ``name``.

    It returns an error as a value, because a cluster takes an exception for a dead worker.
    """

    name: str

    def __call__(self, task: tuple[Path, tuple], function: Callable, *shared) -> Exception | None:
        place, call = task
        try:
            with one_thread(), keep_freed_memory():
                write_arrays(place, function(*call, *shared))
        except Exception as error:
            return error
        return None


# Arrays on disk -----------------------------------------------------------------------------------------------------


class Arrays(Mapping):
    """Arrays in a folder, by name; each is a memory map."""

    def __init__(self, place: Path):
        self.place = place

    def path(self, name: str) -> Path:
        """Return the file of an array, ``name.npy``."""
        return self.place / f"{name}.npy"

    def __getitem__(self, name: str) -> np.ndarray:
        objects = self.place / f"{name}.arrow"
        if objects.exists():
            from pyarrow import feather

            values = feather.read_table(objects, memory_map=False)["values"].to_pylist()
            return np.array([*values, None], dtype=object)[:-1]
        try:
            return memory_map(self.path(name))
        except FileNotFoundError:
            if self.place.exists():
                raise KeyError(name) from None
            raise FileNotFoundError(
                f"There is no folder {self.place} here. The work folder must be one that all workers reach. Give such "
                "a folder as work."
            ) from None

    def __iter__(self) -> Iterator[str]:
        return (path.stem for path in self.place.iterdir())

    def __len__(self) -> int:
        return sum(1 for _ in self)


def write_arrays(place: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays to a folder, which appears whole or not at all; None is left out."""

    def write(folder: Path) -> None:
        for name, value in arrays.items():
            if value is not None:
                _write(folder / name, np.asarray(value))

    try:
        new_folder(place, write)
    except FileExistsError:  # another worker has made the same result
        pass
    except OSError as error:
        reason = error.strerror or f"No space left on device ({error})"  # numpy counts the bytes that were written
        raise OSError(
            error.errno or ENOSPC,
            f"{reason}. The results of a pass need a folder with more space, which all workers reach. Give one as work",
            str(place.parent.parent),
        ) from error


def _write(path: Path, array: np.ndarray) -> None:
    """Write an array of numbers or text as ``.npy``, one of other objects as an Arrow column."""
    if not array.dtype.hasobject:
        return np.save(f"{path}.npy", array, allow_pickle=False)
    import pyarrow as pa
    from pyarrow import feather

    try:
        table = pa.table({"values": pa.array(array.tolist())})
    except (pa.ArrowException, OverflowError) as error:
        raise TypeError(
            f"Got ids or groups of several types ({error}). One type is required. Convert the column."
        ) from error
    feather.write_feather(table, f"{path}.arrow", compression="uncompressed")


def _is_whole(place: Path) -> bool:
    """Return whether the folder of a result exists and its files can be opened; remove a damaged one."""
    if not place.exists():
        return False
    try:
        list(Arrays(place).values())
    except Exception:  # whatever a damaged file may cause
        shutil.rmtree(place)
        return False
    return True


# The work folder ----------------------------------------------------------------------------------------------------


def open_work(work, scan, method) -> Path | None:
    """Return the folder of the passes of a fit; refuse one of other data, another method or another version.

    Data are identified by what is read, and the size and time of each file, or the content of bags in memory.
    """
    if work is None:
        return None
    if is_url(work):
        raise ValueError(f"Got the URL {work} as work. The work folder is a path that all workers reach.")
    data = {"method": f"{type(method).__name__} ({digest(describe(method))})"}
    data["columns, conditions or chunks"] = digest(describe((scan.layout, scan.categories, scan.chunk_rows)))
    if scan.files:
        with ThreadPoolExecutor(STAMPS_AT_ONCE) as pool:
            data |= pool.map(lambda part: (f"contents of {part.name}", part.stamp()), scan.files.values())
    else:
        data["bags"] = digest(describe([(chunk.bags, chunk.y, chunk.weight) for chunk in scan.chunks]))
    store = Store.of_work(work, "fit of a scan", library=of_library(), data=data)
    return store.cells / digest(of_library(), *data.items())


# Progress -----------------------------------------------------------------------------------------------------------


class PassStep(NamedTuple):
    """The progress of a pass: its number and name, rows done of all, rows per second and seconds left.

    Examples
    --------
    >>> print(PassStep(6, "fold-sums", 30_000_000, 50_000_000, 1_250_000.0, 16.0))
    pass 6, fold-sums: 30,000,000 of 50,000,000 rows, 1,250,000 rows/s, 16 s left
    """

    number: int
    name: str
    rows: int
    total: int
    rate: float
    seconds_left: float

    def __str__(self) -> str:
        text = f"pass {self.number}, {self.name}: {self.rows:,} of {self.total:,} rows"
        return f"{text}, {self.rate:,.0f} rows/s, {duration(self.seconds_left)} left"


class PassDisplay:
    """A context that shows the last step and the time since the fit began in a terminal; elsewhere it shows nothing."""

    def __init__(self, activity: str = "fitting", *, console=None):
        from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

        from bagwise.execution.progress import progress_display

        columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
        self.progress, self.activity = progress_display(*columns, console=console), activity
        self.task = self.progress.add_task(activity, total=None)

    def __enter__(self) -> PassDisplay:
        self.progress.start()
        return self

    def __exit__(self, *_) -> None:
        self.progress.stop()

    def __call__(self, step: PassStep) -> None:
        self.progress.update(self.task, description=f"{self.activity}, {step}")
