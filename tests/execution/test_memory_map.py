"""Read headers of ``.npy`` files one thread at a time: before Python 3.11.8, two at once can end in SystemError."""

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

import numpy as np

from bagwise.execution.resources import memory_map


def test_threads_take_turns(tmp_path, monkeypatch):
    paths = [tmp_path / f"{k}.npy" for k in range(8)]
    for k, path in enumerate(paths):
        np.save(path, np.full(3, k))
    load, reading, at_once = np.load, Lock(), []

    def watched(*args, **options):
        at_once.append(not reading.acquire(blocking=False))
        time.sleep(0.01)
        if not at_once[-1]:
            reading.release()
        return load(*args, **options)

    monkeypatch.setattr(np, "load", watched)
    with ThreadPoolExecutor(4) as pool:
        arrays = list(pool.map(memory_map, paths))
    assert not any(at_once)
    assert [array[0] for array in arrays] == list(range(8))
