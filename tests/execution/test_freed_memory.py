"""Check that a pass keeps freed memory in a worker that returns it to the system at once."""

import os
import subprocess
import sys

import pytest

from bagwise.execution import resources
from bagwise.execution.resources import TRIM_THRESHOLD

COUNT = """
import resource
import numpy as np
from bagwise.execution.resources import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        np.ones(250_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
outside = faults()
with keep_freed_memory():
    faults()
    inside = faults()
print(inside, outside, faults())
"""


@pytest.mark.skipif(resources._library() is None, reason="another C library")
def test_memory_is_reused_inside_the_context_and_cleared_each_time_outside():
    environment = os.environ | {TRIM_THRESHOLD: "65536"}
    run = subprocess.run([sys.executable, "-c", COUNT], env=environment, capture_output=True, text=True, check=True)
    inside, outside, after = map(int, run.stdout.split())
    assert inside < outside / 10 and after > outside / 2
