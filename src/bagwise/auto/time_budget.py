"""The time budget of `AutoRegressor`: seconds left, and whether a member can be fitted in them."""

from __future__ import annotations

import time
from importlib import import_module

import numpy as np

WHOLE = 1.25  # seconds of a fit to all bags for one of a fit without a fifth of them, or of a fit on a busier machine
FIRST_PROBE, PROBE_GROWTH = 16, 2  # bags of the first fit that estimates seconds, and growth from one to the next
MOST_PROBED = 1 / 8  # of the bags
PROBE_SHARE = 1 / 4  # of the seconds left that such a fit, or a first fold, may take
COSTLY_SHARE = 0.1  # of the budget: with less, not even a fit to a few bags of a costly member is begun
FIRST_USE = 1.0  # seconds, at least, that the first such fit in a process takes to load compiled code
COMPILE_SHARE = 1 / 2  # of the seconds left that compiling may take
# The kernels of a method, and the seconds it takes to compile them once on a machine.
NETWORKS, ATTENTION = (
    ("bagwise.instances.networks.simd", 10.0),
    ("bagwise.regressors.attention.attention_kernels", 45.0),
)
KERNELS = {"instance-kme": NETWORKS, "em": NETWORKS, "quantile": NETWORKS, "attention": ATTENTION}


class TimeBudget:
    """Seconds of a fit (None is no limit), and what was learned of the cost of members.

    ``longest_probe`` has the seconds of the longest fit to a few bags, ``quickest_skipped`` those that the quickest
    skipped member without networks would take.
    """

    def __init__(self, seconds: float | None):
        self.seconds, self.started = seconds, time.perf_counter()
        self.longest_probe, self.quickest_skipped = 0.0, np.inf

    @property
    def passed(self) -> float:
        return time.perf_counter() - self.started

    @property
    def left(self) -> float:
        return np.inf if self.seconds is None else self.seconds - self.passed

    def advance(self, passed: float) -> None:
        """Count the seconds of stored fits: set the clock to at least the time at which they were finished."""
        self.started = min(self.started, time.perf_counter() - passed)

    def shortage(self, seconds: float, reserve: float = 0.0, *, share: float = 1.0) -> str:
        """Return why so many seconds are too many for a share of those left beside a reserve, or ""."""
        remaining = max(self.left - reserve, 0.0)
        if seconds <= share * remaining:
            return ""
        needed, available = (f"{value:.0f}" if value >= 1 else f"{value:.1g}" for value in (seconds, remaining))
        return f"would take about {needed} s, with {available} s left"

    def refusal(self, name: str, costly: bool, reserve: float) -> str:
        """Return why a member is skipped without a fit to a few bags, or ""."""
        remaining = self.left - reserve
        if remaining <= 0:
            return "no time was left"
        if costly and self.quickest_skipped < np.inf:
            why = self.shortage(self.quickest_skipped, reserve) or f"would take about {self.quickest_skipped:.0f} s"
            return f"a quicker member {why}"
        # Members come in order of cost: another such fit takes about as long as the longest so far, or longer.
        least = max(2 * self.longest_probe, costly and max(COSTLY_SHARE * (self.seconds or 0.0), FIRST_USE))
        if remaining <= least:
            return "no time was left to estimate how long it takes"
        compiling = seconds_to_compile(name) if costly else 0.0
        why = self.shortage(compiling, reserve, share=COMPILE_SHARE)
        return f"to compile its kernels, once on a machine, {why}" if why else ""

    def estimate(self, probe, order: np.ndarray, n_train: float, n_fits: float, reserve: float) -> float:
        """Return the seconds of a fit from fits to a few bags, more bags where fewer leave a doubt.

        Seconds are taken to be proportional to bags, which overrates the fixed cost of a fit. But whether there is time
        for a fit to more bags is judged by the square of their number: those of kernels grow as fast.

        Parameters
        ----------
        probe : function of positions of bags that returns the seconds of a fit to them
        order : positions of the bags, such that evenly spaced ones come from all folds
        n_train : number of bags of a fit
        n_fits : number of fits, one after the other
        reserve : seconds of the budget for others
        """
        n = min(FIRST_PROBE, len(order))
        while True:
            seconds = probe(np.sort(order[np.linspace(0, len(order) - 1, n).round().astype(int)]))
            self.longest_probe = max(self.longest_probe, seconds)
            each, remaining = seconds * n_train / n, self.left - reserve
            more = min(PROBE_GROWTH * n, int(MOST_PROBED * len(order)))
            if n_fits * each <= remaining or more < 2 * n or seconds * (more / n) ** 2 > PROBE_SHARE * remaining:
                return each
            n = more


def seconds_to_compile(name: str) -> float:
    """Return the seconds of compiling the kernels of a method; 0 if a process did so on this machine before."""
    module, seconds = KERNELS.get(name.partition(":")[0], (None, 0.0))
    if module is None:
        return 0.0
    kernel = import_module(module).train_epoch
    file = getattr(kernel._cache, "_cache_file", None)  # none where no folder can be written
    return 0.0 if kernel.signatures or (file is not None and file._load_index()) else seconds
