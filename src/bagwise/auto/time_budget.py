"""Time budget of `AutoRegressor`: the seconds left, and whether a member can be fitted in this time."""

from __future__ import annotations

import time
from importlib import import_module

import numpy as np

REFIT_FACTOR = 1.25  # time of a fit on all bags relative to a fit on four fifths, on a possibly busier machine
# A probe is a fit on a few bags that estimates how long a fit on all bags takes.
FIRST_PROBE, PROBE_GROWTH = 16, 2  # number of bags of the first probe, and its factor for each further probe
MAX_PROBE_SHARE = 1 / 8  # maximum share of the bags
PROBE_SHARE = 1 / 4  # a probe or the first fold may take this share of the remaining seconds
MIN_COSTLY = 0.1  # with less than this share of the budget left, a costly member is not probed
FIRST_PROBE_SECONDS = 1.0  # minimum seconds of the first costly probe in a process, which loads compiled code
COMPILE_SHARE = 1 / 2  # compiling may take this share of the remaining seconds
# Modules with compiled kernels, and the seconds to compile them once on a machine.
NETWORKS, ATTENTION = (
    ("bagwise.instances.networks.simd", 10.0),
    ("bagwise.regressors.attention.attention_kernels", 45.0),
)
KERNELS = {"instance-kme": NETWORKS, "em": NETWORKS, "quantile": NETWORKS, "attention": ATTENTION}


class TimeBudget:
    """Time limit of a fit in seconds (None for no limit), and measurements of how long members take.

    ``longest_probe`` has the seconds of the longest probe, ``quickest_skipped`` the estimated seconds of the quickest
    skipped member without networks.
    """

    def __init__(self, seconds: float | None):
        self.seconds, self.started = seconds, time.perf_counter()
        self.longest_probe, self.quickest_skipped = 0.0, np.inf

    @property
    def elapsed(self) -> float:
        return time.perf_counter() - self.started

    @property
    def remaining(self) -> float:
        return np.inf if self.seconds is None else self.seconds - self.elapsed

    def advance(self, elapsed: float) -> None:
        """Count the time of stored fits: set the elapsed time to at least the time at which they finished."""
        self.started = min(self.started, time.perf_counter() - elapsed)

    def shortage(self, seconds: float, reserve: float = 0.0, *, share: float = 1.0) -> str:
        """Return why these seconds exceed the share of the time left after a reserve, or "" if they do not."""
        remaining = max(self.remaining - reserve, 0.0)
        if seconds <= share * remaining:
            return ""
        needed, available = (f"{value:.0f}" if value >= 1 else f"{value:.1g}" for value in (seconds, remaining))
        return f"would take about {needed} s, with {available} s left"

    def refusal(self, name: str, costly: bool, reserve: float) -> str:
        """Return why a member is skipped without a probe, or "" if it is not."""
        remaining = self.remaining - reserve
        if remaining <= 0:
            return "no time was left"
        if costly and self.quickest_skipped < np.inf:
            why = self.shortage(self.quickest_skipped, reserve) or f"would take about {self.quickest_skipped:.0f} s"
            return f"a quicker member {why}"
        # Members are sorted by cost, so the next probe takes at least about as long as the longest so far.
        least = max(2 * self.longest_probe, costly and max(MIN_COSTLY * (self.seconds or 0.0), FIRST_PROBE_SECONDS))
        if remaining <= least:
            return "no time was left to estimate how long it takes"
        compiling = seconds_to_compile(name) if costly else 0.0
        why = self.shortage(compiling, reserve, share=COMPILE_SHARE)
        return f"compiling its kernels, once per machine, {why}" if why else ""

    def estimate(self, probe, order: np.ndarray, n_train: float, n_fits: float, reserve: float) -> float:
        """Estimate the seconds of a fit by probes of increasing size, until it is clear whether the fits are in time.

        The estimate assumes that the time is proportional to the number of bags, which overestimates it, because a fit
        also has fixed costs. For the next probe, the square of the number is assumed instead, as for kernel methods.

        Parameters
        ----------
        probe : function that fits on the bags at given positions and returns the seconds
        order : positions of all bags, ordered such that evenly spaced ones are from all folds
        n_train : number of training bags of a fit
        n_fits : number of consecutive fits
        reserve : seconds of the budget to be left for other fits
        """
        n = min(FIRST_PROBE, len(order))
        while True:
            seconds = probe(np.sort(order[np.linspace(0, len(order) - 1, n).round().astype(int)]))
            self.longest_probe = max(self.longest_probe, seconds)
            per_fit, remaining = seconds * n_train / n, self.remaining - reserve
            larger = min(PROBE_GROWTH * n, int(MAX_PROBE_SHARE * len(order)))
            if n_fits * per_fit <= remaining or larger < 2 * n or seconds * (larger / n) ** 2 > PROBE_SHARE * remaining:
                return per_fit
            n = larger


def seconds_to_compile(name: str) -> float:
    """Return the seconds to compile the kernels of a method; 0 if they are already compiled on this machine."""
    module, seconds = KERNELS.get(name.partition(":")[0], (None, 0.0))
    if module is None:
        return 0.0
    kernel = import_module(module).train_epoch
    file = getattr(kernel._cache, "_cache_file", None)  # None if no cache folder is writable
    return 0.0 if kernel.signatures or (file is not None and file._load_index()) else seconds
