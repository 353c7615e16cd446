"""How a fitted method prints: what it is, what it learned from, how well it does, and only then its parts."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted


class FittedDisplay:
    """A short ``repr`` once fitted, and the same above scikit-learn's diagram in a notebook.

    Unfitted, an estimator prints as scikit-learn prints it, with its parameters.

    Examples
    --------
    >>> import bagwise as bw
    >>> bags, y = bw.datasets.make_gaussian(30, instances=5)
    >>> print(bw.method("instance-mean").fit(bags, y))
    BagPipeline of the method instance-mean, fitted on 30 bags with 1 feature
    Steps: instances (EachInstance), head (PoolPredictions)
    """

    def _ends(self) -> tuple[Any, Any]:
        """What is given the bags, and what predicts: the first and the last step of a pipeline."""
        return self, self

    def _error_text(self) -> str | None:
        """The error on bags that were held out, where fitting found one."""
        error = getattr(self._ends()[1], "error_", np.nan)
        if not np.isfinite(error):
            return None
        return f"Held-out RMSE {np.sqrt(error):.4g} (settings are chosen by it)"

    def _lines(self) -> list[str]:
        steps = self.steps if isinstance(self, Pipeline) else []
        n_bags, n_features = (getattr(self._ends()[0], name, None) for name in ("n_bags_in_", "n_features_in_"))
        name = getattr(self, "_method_name", None)  # set by `bagwise.method`; a clone does not have it
        known = f" of the method {name}" if name else ""
        on = "" if n_bags is None else f" on {_count(n_bags, 'bag')}"
        columns = "" if n_features is None else f" with {_count(n_features, 'feature')}"
        lines = [f"{type(self).__name__}{known}, fitted{on}{columns}", self._error_text()]
        if steps:
            lines.append("Steps: " + ", ".join(f"{name} ({_kind(step)})" for name, step in steps))
        return [line for line in lines if line]

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return "\n".join(self._lines()) if _is_fitted(self) else super().__repr__(N_CHAR_MAX)  # type: ignore[call-arg]

    def _html_repr(self) -> str:
        diagram = super()._html_repr()  # type: ignore[misc]
        if not _is_fitted(self):
            return diagram
        first, *others = map(escape, self._lines())
        return f"<p>{'<br>'.join([f'<strong>{first}</strong>', *others])}</p>{diagram}"


def _is_fitted(model) -> bool:
    try:
        check_is_fitted(model)
    except (NotFittedError, TypeError):
        return False
    return True


def _kind(step) -> str:
    return step if step is None or isinstance(step, str) else type(step).__name__


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}" + ("" if n == 1 else "s")
