"""`explain`: which instance matters, by the best answer that a method has."""

from __future__ import annotations

import numpy as np

from bagwise.bags import Bags, check_bags
from bagwise.bags.reach import compared
from bagwise.bags.segments import segment_sum
from bagwise.explaining.explanation import KINDS, Explanation
from bagwise.explaining.leaving_out import MAX_INSTANCES, leave_one_out
from bagwise.explaining.verbs import tell, unwrapped

ROUNDING = 1e-6  # contributions further from the prediction than this share of it are none


def explain(model, bags, *, kind: str = "auto", max_instances: int = MAX_INSTANCES, n_jobs=None) -> Explanation:
    r"""What every instance has to do with the prediction of its bag, for any fitted method.

    Three kinds of answer:

    - contributions c_il, for methods with an additive form: ŷ_i = Σ_l c_il exactly;
    - weights w_il ≥ 0, Σ_l w_il = 1: attention, the chance to be the primary instance, or the weight in a median;
    - leave-one-out effects, for any method: e_il = ŷ(bag i) - ŷ(bag i without instance l). A bag of one instance has
      nothing to compare with: its effect is 0, and ``alone`` of the explanation marks it.

    Parameters
    ----------
    model : fitted bag regressor
        Of the catalogue, or your own: it is asked for ``contributions(bags)``, ``instance_weights(bags)`` and
        ``predict_instances(bags)``, those that it has. Intervals and searches are looked into.
    bags : Bags
    kind : {"auto", "contributions", "weights", "leave-one-out"}
        "auto" is the first of the three that the method has. Contributions, weights and instance predictions are in
        the answer whenever the method has them, whatever the kind; effects only if they are asked for.
    max_instances : int
        The largest bag that leave-one-out accepts: one of L instances is predicted L times.
    n_jobs : int, optional
        Processes that leave-one-out may use. The numbers do not depend on it.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> from bagwise.explaining import explain
    >>> bags, y = bw.datasets.make_gaussian(40, instances=5)
    >>> model = bw.method("aggregated").fit(bags, y)
    >>> explanation = explain(model, bags)
    >>> bool(np.allclose(explanation.values.reshape(40, 5).sum(axis=1), model.predict(bags), rtol=1e-12))
    True
    >>> explain(model, bags, kind="leave-one-out").effects.shape
    (200,)
    """
    if kind not in ("auto", *KINDS):
        raise ValueError(f"kind must be 'auto', {', '.join(map(repr, KINDS))}, not {kind!r}")
    model, bags = unwrapped(model), check_bags(bags, allow_missing=True, allow_weights=True, apart=True)
    predictions = np.asarray(model.predict(bags), dtype=np.float64)
    bags = compared(bags)  # by predict, which has warned
    told = tell(model, bags)
    kind = _chosen(kind, told, model)
    if told["contributions"] is not None:
        told["contributions"] = _balanced(told["contributions"], predictions, bags)
    if kind == "leave-one-out":
        told["effects"] = leave_one_out(model, bags, predictions, max_instances=max_instances, n_jobs=n_jobs)
    return Explanation(kind, bags, predictions, **told)


def _chosen(kind: str, told: dict, model) -> str:
    offered = [name for name in KINDS if name == "leave-one-out" or told[name] is not None]
    if kind == "auto":
        return offered[0]
    if kind not in offered:
        raise ValueError(
            f"{type(model).__name__} has no {kind} of instances; it offers {', '.join(map(repr, offered))}: "
            "pass one of these as kind, or 'auto'"
        )
    return kind


def _balanced(parts: np.ndarray, predictions: np.ndarray, bags: Bags) -> np.ndarray:
    """Contributions that sum to the prediction, what rounding left over divided among the instances of the bag."""
    over = predictions - segment_sum(parts, bags.offsets)
    size = np.maximum(np.abs(predictions), segment_sum(np.abs(parts), bags.offsets))
    if (np.abs(over) > ROUNDING * size).any():
        raise ValueError(
            f"contributions miss the prediction by {np.abs(over).max():.3g}; contributions(bags) of a method must sum "
            "to predict(bags) in every bag"
        )
    return parts + bags.expand(over / bags.sizes)
