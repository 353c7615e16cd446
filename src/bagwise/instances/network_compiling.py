"""The compiled kernels, when first needed: importing bagwise stays quick, and the one long wait is explained."""

from __future__ import annotations

import sys

import numpy as np

from bagwise.first_use import once


@once
def kernels(dtype: np.dtype):
    """The module `network_kernels`, compiled for data of this dtype or loaded from numba's cache on disk."""
    from numba.core import event

    from bagwise.instances import network_kernels

    class Announce(event.Listener):
        """Say once that compiling has begun; numba tells so only when its cache has nothing."""

        said = False

        def on_start(self, _):
            if not self.said:
                print("bagwise: compiling the network kernels, once (about 10 s) ...", file=sys.stderr, flush=True)
            self.said = True

        def on_end(self, _):
            pass

    with event.install_listener("numba:compile", Announce()):
        network_kernels.compile_for(dtype)
    return network_kernels


def frozen(array) -> np.ndarray:
    """A read-only view: one compiled version serves arrays that can be written, that cannot, and that are on disk."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view
