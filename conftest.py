"""Modules of triton are collected for their doctests only where triton is installed."""

from importlib.util import find_spec

KERNELS = ("triton", "fused", "streamed", "orders_fused")
collect_ignore = [] if find_spec("triton") else [f"src/bagwise/instances/network_{name}.py" for name in KERNELS]
