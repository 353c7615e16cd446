"""Collection without optional libraries, the skip of tests that need torch, and the same random numbers per test."""

from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent
WITHOUT_TORCH = "needs torch; `make test-torch` installs it and runs these tests"
MODULES_BY_LIBRARY = {  # modules whose doctests, or imports, need an optional library
    "torch": ["src/bagwise/instances/networks/gpu.py", "src/bagwise/regressors/attention/gpu.py"],
    "triton": ["src/bagwise/instances/networks/triton_kernels.py"],
    "anndata": ["src/bagwise/io/annotated_data.py"],
    "xarray": ["src/bagwise/io/cube.py"],
    "rdkit": ["src/bagwise/io/molecules.py"],
}
collect_ignore = [path for library, paths in MODULES_BY_LIBRARY.items() if not find_spec(library) for path in paths]
# With --doctest-modules they would be collected as tests, under one name: two folders of tests in one call fail so.
collect_ignore_glob = ["tests/*/conftest.py"]

INITIAL_STATES = {}  # the state after import of each random generator that is a global of a test module


def pytest_collection_modifyitems(items):
    for module in {item.module for item in items if getattr(item, "module", None) is not None}:
        INITIAL_STATES.update({generator: generator.bit_generator.state for generator in random_generators(module)})
    torch_modules = {ROOT / path for path in MODULES_BY_LIBRARY["torch"]}
    for item in items:
        if item.path in torch_modules:
            item.add_marker(pytest.mark.torch)
        if not find_spec("torch") and item.get_closest_marker("torch"):
            item.add_marker(pytest.mark.skip(reason=WITHOUT_TORCH))


def pytest_terminal_summary(terminalreporter):
    skipped = terminalreporter.stats.get("skipped", [])
    if any(WITHOUT_TORCH in str(report.longrepr) for report in skipped):
        terminalreporter.write_line(f"Skipped what {WITHOUT_TORCH}.")


@pytest.fixture(autouse=True)
def same_numbers(request):
    """Reset the global random generators of the test module, so that a test does not depend on those run before it."""
    for generator in random_generators(request.module) if hasattr(request.node, "module") else ():
        generator.bit_generator.state = INITIAL_STATES[generator]


def random_generators(module) -> list:
    return [value for value in vars(module).values() if hasattr(value, "bit_generator")]
