"""What is collected where a library is missing; and the same random numbers in a test, whichever ran before it."""

from importlib.util import find_spec

import pytest

NEEDED = {
    "triton": [f"src/bagwise/instances/networks/triton_{name}.py" for name in ("parts", "fused", "streamed")],
    "anndata": ["src/bagwise/io/annotated_data.py"],
    "xarray": ["src/bagwise/io/cube.py"],
}
collect_ignore = [path for library, paths in NEEDED.items() if not find_spec(library) for path in paths]
# With --doctest-modules they would be collected as tests, under one name: two folders of tests in one call fail so.
collect_ignore_glob = ["tests/*/conftest.py"]


FIRST = {}  # state of every generator that is a global of a test module, as its import left it


def pytest_collection_modifyitems(items):
    for module in {item.module for item in items if getattr(item, "module", None) is not None}:
        FIRST.update({generator: generator.bit_generator.state for generator in generators(module)})


@pytest.fixture(autouse=True)
def same_numbers(request):
    """A test that drew from where others left off would have other data in another order, or with other workers."""
    for generator in generators(request.module) if hasattr(request.node, "module") else ():
        generator.bit_generator.state = FIRST[generator]


def generators(module) -> list:
    return [value for value in vars(module).values() if hasattr(value, "bit_generator")]
