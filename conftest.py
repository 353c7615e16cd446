"""Modules whose doctests need a library are collected only where it is installed."""

from importlib.util import find_spec

NEEDED = {
    "triton": [f"src/bagwise/instances/networks/triton_{name}.py" for name in ("parts", "fused", "streamed")],
    "anndata": ["src/bagwise/io/annotated_data.py"],
    "xarray": ["src/bagwise/io/cube.py"],
}
collect_ignore = [path for library, paths in NEEDED.items() if not find_spec(library) for path in paths]
# With --doctest-modules they would be collected as tests, under one name: two folders of tests in one call fail so.
collect_ignore_glob = ["tests/*/conftest.py"]
