"""Modules of triton are collected for their doctests only where triton is installed."""

from importlib.util import find_spec

KERNELS = ("parts", "fused", "streamed")
collect_ignore = [] if find_spec("triton") else [f"src/bagwise/instances/networks/triton_{name}.py" for name in KERNELS]
