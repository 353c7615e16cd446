"""Generated inputs: their number, and requirements on errors."""

import traceback
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import bagwise

ROOM = Path(bagwise.__file__).parent
EFFORTS = [pytest.param("few", id="few"), pytest.param("many", id="many", marks=pytest.mark.slow)]


def effort(test):
    """Run a test with few inputs by default, and with many among the slow tests."""
    return pytest.mark.parametrize("effort", EFFORTS)(test)


def try_all(effort: str, check, *strategies, few: int = 60, many: int = 4000) -> None:
    """Run `check` on generated inputs; hypothesis shrinks and shows the first failure."""
    quiet = settings(
        max_examples=few if effort == "few" else many,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        derandomize=True,  # the same inputs on every machine
        suppress_health_check=list(HealthCheck),
    )
    quiet(given(*strategies)(check))()


def told(call, *args, **options):
    """Return the result of a call, or None if bagwise itself (not a dependency) raised an error."""
    try:
        return call(*args, **options)
    except (ValueError, TypeError, ImportError, OSError, MemoryError) as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        assert ROOM in Path(last.filename).parents, f"raised in {last.filename}:{last.lineno}: {error!r}"
        assert len(str(error)) > 20, f"{error!r} says too little"
        return None


# What people's numbers look like: plain ones mostly, and now and then an extreme, a hole or an infinity.
plain = st.floats(-100, 100, width=32)
extreme = st.sampled_from([0.0, -0.0, 1e-308, 5e-324, 1e150, -1e150, 1e300, 1.7e308, np.nan, np.inf, -np.inf])
numbers = st.one_of(plain, plain, plain, plain, extreme)
finite = st.one_of(plain, plain, plain, st.sampled_from([0.0, 1e-12, 1e12, 1e30, -1e30]))


def rows(size, width, values=numbers):
    return st.lists(st.lists(values, min_size=width, max_size=width), min_size=size, max_size=size)


@st.composite
def ragged(draw, values=numbers, least=0, smallest=0):
    """Generate a list of arrays: bags of `smallest` to 5 instances, 1 to 4 features, in one of several dtypes."""
    width = draw(st.integers(1, 4))
    sizes = draw(st.lists(st.integers(smallest, 5), min_size=least, max_size=8))
    dtype = draw(st.sampled_from([np.float64, np.float64, np.float32, np.int64]))
    arrays = []
    for size in sizes:
        content = np.array(draw(rows(size, width, values)), dtype=np.float64).reshape(size, width)
        with np.errstate(over="ignore", invalid="ignore"):
            arrays.append(content if dtype == np.float64 else np.nan_to_num(content).clip(-1e9, 1e9).astype(dtype))
    return arrays
