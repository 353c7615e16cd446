"""Where the heavy arithmetic runs: the CPU, or a GPU if one was asked for, or is there and worth it.

Nothing here imports torch before a GPU was asked for, or the work is such that one would be worth having.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

from bagwise.first_use import once


def settled(device: str, *, worth: bool) -> str:
    """``"cpu"``, or the name of a GPU that is there; ``"auto"`` takes one only if it is ``worth`` it.

    Examples
    --------
    >>> settled("cpu", worth=True), settled("auto", worth=False)
    ('cpu', 'cpu')
    """
    if device == "cpu":
        return device
    if device == "auto":
        return "cuda" if worth and gpu() else "cpu"
    if not (isinstance(device, str) and device.partition(":")[0] == "cuda"):
        raise ValueError(f"device must be 'cpu', 'cuda' (or 'cuda:1' and so on) or 'auto', not {device!r}")
    if find_spec("torch") is None:
        raise ImportError(f"device={device!r} needs torch; install it with: pip install 'bagwise[torch]'")
    if not gpu():
        raise ValueError(
            f"device={device!r}, but torch sees no GPU here; use device='cpu', or 'auto' to take what is there"
        )
    return device


@once
def gpu() -> bool:
    """Whether torch is installed and sees a GPU."""
    if find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


@once
def announce(what: str, place: str) -> None:
    """Say, once in a process, that this is done on a GPU."""
    import torch

    name = torch.cuda.get_device_name(place)
    print(f"bagwise: {what} on {place}, {name}", file=sys.stderr, flush=True)
