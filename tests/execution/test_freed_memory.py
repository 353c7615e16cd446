"""In a worker that was told to give memory back at once, a pass keeps it while it lasts."""

import os
import subprocess
import sys

import pytest

from bagwise.execution import resources
from bagwise.execution.resources import TOLD

COUNT = """
import resource
import numpy as np
from bagwise.execution.resources import kept_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        np.ones(250_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
outside = faults()
with kept_memory():
    faults()
    inside = faults()
print(inside, outside, faults())
"""


@pytest.mark.skipif(resources._library() is None, reason="another C library")
def test_arrays_of_a_told_process_are_cleared_once_inside_and_every_time_outside():
    told = os.environ | {TOLD: "65536"}
    done = subprocess.run([sys.executable, "-c", COUNT], env=told, capture_output=True, text=True, check=True)
    inside, outside, after = map(int, done.stdout.split())
    assert inside < outside / 10 and after > outside / 2
