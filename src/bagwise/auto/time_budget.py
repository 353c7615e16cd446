"""The time budget of `AutoRegressor`: seconds left, and whether a member can be fitted in them."""

from __future__ import annotations

import time

import numpy as np

WHOLE = 1.25  # seconds of a fit to all bags for one of a fit without a fifth of them, or of a fit on a busier machine
FIRST_PROBE, PROBE_GROWTH = 16, 8  # bags of the first fit that estimates seconds, and growth from one to the next
MOST_PROBED = 1 / 8  # of the bags
PROBE_SHARE = 1 / 4  # of the seconds left that such a fit may take
COSTLY_SHARE = 0.1  # of the budget: with less, not even a fit to a few bags of a costly member is begun


class TimeBudget:
    """Seconds of a fit, and what was learned of the cost of members.

    Parameters
    ----------
    seconds : float or None
        None is no limit.

    Attributes
    ----------
    longest_probe : seconds of the longest fit to a few bags
    quickest_skipped : seconds of the quickest member without networks that was skipped
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
        remaining = self.left - reserve
        return (
            "" if seconds <= share * remaining else f"about {seconds:.0f} s, and {max(remaining, 0.0):.0f} s were left"
        )

    def refusal(self, costly: bool, reserve: float) -> str:
        """Return why a member is skipped without a fit to a few bags, or ""."""
        if self.left <= reserve:
            return "no time was left"
        if costly and self.quickest_skipped < np.inf:
            # Even a fit to a few bags takes seconds in a new process, which first loads compiled networks or torch.
            seconds = self.quickest_skipped
            why = self.shortage(seconds, reserve) or f"about {seconds:.0f} s"
            return f"longer than a quicker member, which takes {why}"
        # Members come in order of cost: another such fit takes about as long as the longest so far, or longer.
        least = max(2 * self.longest_probe, COSTLY_SHARE * self.seconds if costly else 0.0)
        return "no time was left to see how long it takes" if self.left - reserve <= least else ""

    def estimate(self, probe, order: np.ndarray, n_train: float, n_fits: float, reserve: float) -> float:
        """Return the seconds of all fits of a member from fits to a few bags, more bags where fewer leave a doubt.

        Few bags overrate the fixed cost of a fit, as seconds are taken to be proportional to bags.

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
            total, remaining = n_fits * seconds * n_train / n, self.left - reserve
            more = min(PROBE_GROWTH * n, int(MOST_PROBED * len(order)))
            if total <= remaining or more < 2 * n or seconds * more / n > PROBE_SHARE * remaining:
                return total
            n = more
