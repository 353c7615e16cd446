"""Passes over partitions: a function of each, mapped by an executor; the results are arrays in a folder.

A partition whose result is in the folder is not made again. So a fit that was interrupted continues where it stopped.
"""

from __future__ import annotations

import dataclasses
import json
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from bagwise.bags.validation import Parameter, ParameterError
from bagwise.execution import executor_for
from bagwise.execution.resources import kept_memory, one_thread
from bagwise.execution.tasks import in_order
from bagwise.io.atomic_files import replace_file
from bagwise.io.table_files import is_url
from bagwise.io.table_output import duration
from bagwise.model_files.fingerprint import describe, digest, of_library
from bagwise.scale.chunks import AT_ONCE, FileRows, TableRows
from bagwise.scale.table_scan import Scan

ABOUT = "fit.json"
LEAST_SECONDS = 0.1  # between two steps that are reported


class Passes:
    """Passes over partitions, in a work folder or in a temporary one. A context: the temporary folder is removed.

    Parameters
    ----------
    executor : object with ``run``, optional
        Default: this process; inside `bagwise.cluster` its workers.
    work : path, optional
        The folder that keeps the results; all workers must reach it.
    within : path, optional
        Where a temporary folder is made instead. Default: the system's folder for temporary files.
    progress : function of a `PassStep`, optional
    """

    def __init__(self, executor=None, *, work: Path | None = None, within=None, progress: Callable | None = None):
        if executor is not None and not hasattr(executor, "run"):
            raise TypeError(
                f"Got {executor!r} as executor. An object with a method run is required, such as "
                "bagwise.execution.Processes(2)."
            )
        self.executor = executor_for(None) if executor is None else executor
        self.progress, self.keeps, self._count = progress, work is not None, 0
        self._temporary = TemporaryDirectory(prefix="bagwise-", dir=within, ignore_cleanup_errors=True)
        if work is not None:
            self._temporary.cleanup()
        self.folder = (Path(self._temporary.name) if work is None else work).absolute()

    def __enter__(self) -> Passes:
        return self

    def __exit__(self, *_) -> None:
        self._temporary.cleanup()

    def each(self, name: str, function: Callable, tasks: list[tuple], *shared) -> list[Arrays]:
        """Return the arrays that ``function(*task, *shared)`` gives for each task, in order; they stay on disk.

        The first item of a task is a partition, or something else with a name and a number of rows.
        """
        self._count += 1
        folder = self.folder / f"{self._count:03d}-{name}"
        folder.mkdir(parents=True, exist_ok=True)
        places = [folder / f"{number:05d}" for number in range(len(tasks))]
        missing = [_Task(place, task) for place, task in zip(places, tasks, strict=True) if not _is_whole(place)]
        if missing:
            report = self._report(name, tasks, missing)
            for _ in in_order(self.executor, _make, missing, (function, *shared), name=name, report=report):
                pass
        return [Arrays(place) for place in places]

    def _report(self, name: str, tasks: list, missing: list[_Task]) -> Callable[[int], None]:
        if self.progress is None:
            return lambda number: None
        rows = [getattr(task.call[0], "n_rows", 1) for task in missing]
        clock = PassClock(
            self._count, name, sum(getattr(task[0], "n_rows", 1) for task in tasks), sum(rows), self.progress
        )
        return lambda number: clock(rows[number])

    def forget(self, since: int) -> None:
        """Remove the results of passes after number ``since`` from a temporary folder; a work folder keeps them."""
        for path in () if self.keeps else self.folder.glob("*-*"):
            if int(path.name.partition("-")[0]) > since:
                shutil.rmtree(path, ignore_errors=True)

    @property
    def count(self) -> int:
        """The number of passes so far."""
        return self._count


class _Task(NamedTuple):
    """A call and the folder of its result."""

    place: Path
    call: tuple

    def __str__(self) -> str:
        return str(getattr(self.call[0], "name", f"partition {self.place.name}"))


def _make(task: _Task, function: Callable, *shared) -> None:
    with one_thread(), kept_memory():
        write_arrays(task.place, function(*task.call, *shared))


# Arrays on disk -----------------------------------------------------------------------------------------------------


class Arrays(Mapping):
    """Arrays in a folder, by name; each is a memory map."""

    def __init__(self, place: Path):
        self.place = place

    def path(self, name: str) -> Path:
        """Return the file of an array, ``name.npy``."""
        return self.place / f"{name}.npy"

    def __getitem__(self, name: str) -> np.ndarray:
        if (self.place / f"{name}.arrow").exists():
            return _read_objects(self.place / f"{name}.arrow")
        try:
            return np.load(self.path(name), mmap_mode="r", allow_pickle=False)
        except FileNotFoundError:
            if self.place.exists():
                raise KeyError(name) from None
            raise FileNotFoundError(
                f"There is no folder {self.place} here. The work folder must be one that all workers reach. Give "
                "such a folder as work."
            ) from None

    def __iter__(self) -> Iterator[str]:
        return (path.stem for path in self.place.iterdir())

    def __len__(self) -> int:
        return len(list(iter(self)))


def write_arrays(place: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays to a folder, which appears whole or not at all; None is left out."""
    temporary = place.with_name(f".{place.name}-{secrets.token_hex(4)}")
    try:
        temporary.mkdir(parents=True)
        for name, value in arrays.items():
            array = np.asarray(value)
            if value is not None and array.dtype.hasobject:
                _write_objects(temporary / f"{name}.arrow", array)
            elif value is not None:
                np.save(temporary / f"{name}.npy", array, allow_pickle=False)
        if not place.exists():  # another worker may have made the same result
            temporary.replace(place)
    except OSError as error:
        raise OSError(
            error.errno,
            f"{error.strerror}: the results of a pass cannot be written. A folder with more space, which all workers "
            "reach, is required. Give one as work",
            str(place.parent.parent),
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write_objects(path: Path, array: np.ndarray) -> None:
    """Write strings, dates and other objects as an Arrow column."""
    import pyarrow as pa

    try:
        table = pa.table({"values": pa.array(array.tolist())})
    except (pa.ArrowException, OverflowError) as error:
        raise TypeError(
            f"Got ids or groups of several types ({error}). One type is required. Convert the column."
        ) from error
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as stream:
        stream.write_table(table)


def _read_objects(path: Path) -> np.ndarray:
    import pyarrow as pa

    with pa.OSFile(str(path)) as source:
        values = pa.ipc.open_file(source).read_all()["values"].to_pylist()
    return np.array([*values, None], dtype=object)[:-1]


def _is_whole(place: Path) -> bool:
    """Return whether the folder of a result exists and its files can be opened; remove a damaged one."""
    if not place.exists():
        return False
    try:
        for name in Arrays(place):
            Arrays(place)[name]
    except Exception:  # whatever a damaged file may cause
        shutil.rmtree(place)
        return False
    return True


# The work folder ----------------------------------------------------------------------------------------------------


def open_work(work, scan: Scan, method) -> Path | None:
    """Create the work folder of a fit, or open it again; one of other data, method or version is refused."""
    if work is None:
        return None
    path = Path(work)
    if is_url(work):
        raise ValueError(f"Got the URL {work} as work. The work folder is a path that all workers reach.")
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"{path} is a file. The work folder must be a folder, or a new name.")
    path.mkdir(parents=True, exist_ok=True)
    about = {"library": of_library(), "method": describe(method), "data": describe_scan(scan)}
    place, names = path / ABOUT, sorted(one.name for one in path.iterdir() if one.name != "__pycache__")
    if ABOUT in names:
        difference = _difference(place, about)
        if difference is not None:
            text = f"{path} holds passes {difference}. Give another folder as "
            raise ParameterError("work", text, Parameter("work"), ", or remove this one.")
    elif names:
        raise FileExistsError(
            f"{path} is not a work folder of a fit: it holds {names[0]}. Give an empty folder, or a new name."
        )
    else:
        text = json.dumps(about, indent=1)
        replace_file(place, lambda path: path.write_text(text, encoding="utf-8"))
    return path


def _difference(place: Path, new: dict) -> str | None:
    """Return in which respect the passes in a folder are those of another fit; None if in none."""
    try:
        old = json.loads(place.read_text(encoding="utf-8"))
        if old["library"] != new["library"]:
            return f"by another version: {old['library']}, where this is {new['library']}"
        if old["method"] != new["method"]:
            return "of another method, or of the same with other parameters"
        files, others = old["data"]["files"], new["data"]["files"]
        changed = [name for name in {**others, **files} if files.get(name) != others.get(name)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return f"of an unknown fit, because {ABOUT} is damaged"
    if changed:
        first, more = changed[0], f" (and {len(changed) - 1:,} others)" if changed[1:] else ""
        what = "is gone" if first not in others else "has changed" if first in files else "is new"
        return f"over other data: {first}{more} {what}"
    return None if old["data"] == new["data"] else "over other columns, rows or chunks of the data"


def describe_scan(scan: Scan) -> dict:
    """Describe the data of a scan: its files by size and time, what is read of them, and how it is cut into chunks."""
    fields = {one.name: getattr(scan, one.name) for one in dataclasses.fields(scan)}
    read = {name: fields[name] for name in ("layout", "n_rows", "chunk_rows", "categories")}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        files = dict(pool.map(lambda part: (part.name, part.stamp()), scan.files.values()))
    return {"files": files, "read": digest(describe(read)), "chunks": digest(*map(_describe_chunk, scan.chunks))}


def _describe_chunk(chunk) -> str:
    rows = getattr(chunk, "rows", None)
    if isinstance(rows, FileRows):
        return f"{rows.part} {rows.groups} {rows.n_rows}"
    if isinstance(rows, TableRows):
        return digest(np.frombuffer(rows.packed(), np.uint8))
    return describe((chunk.bags, chunk.y))


# Progress -----------------------------------------------------------------------------------------------------------


class PassStep(NamedTuple):
    """The progress of a pass: its number and name, rows done of all, rows per second and seconds left (None at first).

    Examples
    --------
    >>> print(PassStep(6, "fold-sums", 30_000_000, 50_000_000, 1_250_000.0, 16.0))
    pass 6, fold-sums: 30,000,000 of 50,000,000 rows, 1,250,000 rows/s, 16 s left
    """

    number: int
    name: str
    rows: int
    total: int
    rate: float | None = None
    seconds_left: float | None = None

    def __str__(self) -> str:
        text = f"pass {self.number}, {self.name}: {self.rows:,} of {self.total:,} rows"
        if self.rate is None or self.seconds_left is None:
            return text
        return f"{text}, {self.rate:,.0f} rows/s, {duration(self.seconds_left)} left"


class PassClock:
    """Report the steps of a pass as its tasks end; tasks whose results were there take no time."""

    def __init__(self, number: int, name: str, total: int, missing: int, report: Callable[[PassStep], object]):
        self.number, self.name, self.total, self.report = number, name, total, report
        self.first = self.done = total - missing
        self.started = self._reported = time.perf_counter()

    def __call__(self, rows: int) -> None:
        self.done += rows
        now = time.perf_counter()
        if now - self._reported >= LEAST_SECONDS or self.done == self.total:
            self._reported = now
            rate = (self.done - self.first) / max(now - self.started, 1e-9)
            self.report(PassStep(self.number, self.name, self.done, self.total, rate, (self.total - self.done) / rate))


class PassDisplay:
    """A line in the terminal, on standard error, with the last step and the time since the fit began. A context.

    Where there is no terminal, nothing is written.
    """

    def __init__(self, activity: str = "fitting", *, console=None):
        from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

        from bagwise.execution.progress import progress_display

        columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
        self.progress = progress_display(*columns, console=console)
        self.activity = activity
        self.task = self.progress.add_task(activity, total=None)

    def __enter__(self) -> PassDisplay:
        self.progress.start()
        return self

    def __exit__(self, *_) -> None:
        self.progress.stop()

    def __call__(self, step: PassStep) -> None:
        self.progress.update(self.task, description=f"{self.activity}, {step}")
