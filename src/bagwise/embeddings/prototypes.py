"""A few instances that stand for all of them: landmarks of Nyström maps, prototypes of similarity features."""

from __future__ import annotations

import numpy as np
from sklearn.cluster import KMeans

from bagwise.instances.random_features import row_keys
from bagwise.threads import one_thread

PICKS = ("random", "k-means")
ROWS_PER_CENTRE = 20  # k-means looks at no more rows than this per centre


def pick_prototypes(rows: np.ndarray, n: int, pick: str = "random", *, random_state: int = 0) -> np.ndarray:
    """At most ``n`` distinct rows ("random"), or the centres of ``n`` clusters of them ("k-means").

    Rows are drawn by a hash of their content and the seed, so that neither the order of the bags nor that of their
    instances changes what is picked; all distinct rows are taken when there are no more than ``n``.

    Examples
    --------
    >>> import numpy as np
    >>> pick_prototypes(np.array([[1.0], [2.0], [1.0]]), 5).tolist() in ([[1.0], [2.0]], [[2.0], [1.0]])
    True
    """
    if pick not in PICKS:
        raise ValueError(f"pick must be one of {', '.join(map(repr, PICKS))}, not {pick!r}")
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise ValueError(f"the number of prototypes must be a whole number above zero, not {n!r}")
    with np.errstate(over="ignore"):
        rounded = rows.astype(np.float32)  # the last digits depend on the order of earlier sums; the pick must not
    distinct = rows[np.unique(row_keys(rounded, random_state), return_index=True)[1]]
    if len(distinct) <= n or pick == "random":
        return distinct[:n].astype(np.float64)
    sample = distinct[: ROWS_PER_CENTRE * n].astype(np.float64)
    with one_thread():  # threads add up centres in any order
        return KMeans(n, n_init=1, random_state=random_state).fit(sample).cluster_centers_


def whitening(gram: np.ndarray) -> np.ndarray:
    """W with W Wᵀ the (pseudo-)inverse of a Gram matrix; directions that rounding has swallowed are left out."""
    values, vectors = np.linalg.eigh(gram)
    keep = values > values[-1] * len(gram) * np.finfo(float).eps
    return vectors[:, keep] / np.sqrt(values[keep])
