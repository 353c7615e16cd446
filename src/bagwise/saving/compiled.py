"""What compiled code follows without looking: the indices of trees, the shapes of networks.

A file whose checksums were made again after a change could otherwise send `predict` out of its arrays. So these
parts are checked, once a model is built and before it is handed out.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bagwise.saving.refusing import AGAIN, Refused
from bagwise.saving.trees import check_forest, check_predictor, check_tree

NETWORK = "bagwise.instances.network_ensemble.NetworkEnsemble"
TREES = {"sklearn.tree._tree.Tree", "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"}


def check_compiled(model, names: set[str]) -> None:
    """Refuse a model, made of types of these names, that holds a tree or a network which leads out of its arrays."""
    checks = _checks(names)
    if not checks:
        return
    for holder, part in held(model):
        for kind, check in checks:
            if isinstance(part, kind):
                check(part, holder)


def check_network(network, holder=None) -> None:
    """The arrays of a `NetworkEnsemble` must have the shapes that its sizes call for."""
    from bagwise.instances.network_layout import BIAS_AT, COLUMNS, layout

    sizes, count = network.sizes, len(network.parameters)
    if not all(type(size) is int and size > 0 for size in sizes) or len(sizes) < 2 or sizes[-1] != 1:
        raise Refused(f"a network has the sizes {sizes}; {AGAIN}")
    last = layout(sizes)[-1]
    shapes = {"parameters": (count, last[BIAS_AT] + last[COLUMNS])}
    shapes |= dict.fromkeys(("x_shift", "x_factor"), (count, sizes[0])) | dict.fromkeys(
        ("y_shift", "y_scale"), (count,)
    )
    for name, shape in shapes.items():
        if getattr(network, name).shape != shape:
            raise Refused(f"the {name} of a network have not the shape {tuple(map(int, shape))}; {AGAIN}")


def held(model) -> Iterator[tuple[object, object]]:
    """(holder, part) for every part of a model; the holder has it as an attribute, perhaps inside a list.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> [(type(holder).__name__, part) for holder, part in held(Ridge(alpha=[2.5]))][-1]
    ('Ridge', 2.5)
    """
    waiting, seen = [(None, model)], set()
    while waiting:
        holder, part = waiting.pop()
        yield holder, part
        waiting.extend((holder, value) for value in _items(part))
        if hasattr(part, "__dict__") and id(part) not in seen:
            seen.add(id(part))
            waiting.extend((part, value) for value in vars(part).values())


def _items(part) -> list:
    if isinstance(part, dict):
        return list(part.values())
    if isinstance(part, np.ndarray):
        return part.ravel().tolist() if part.dtype == object else []
    return list(part) if isinstance(part, list | tuple | set) else []


def _checks(names: set[str]) -> list[tuple]:
    """(type, check) for what a model may hold, imported only if it does."""
    checks = []
    if names & TREES:
        from sklearn.ensemble._forest import BaseForest
        from sklearn.ensemble._gb import BaseGradientBoosting
        from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
        from sklearn.tree._tree import Tree

        checks = [
            (Tree, check_tree),
            (TreePredictor, check_predictor),
            (BaseForest | BaseGradientBoosting, check_forest),
        ]
    if NETWORK in names:
        from bagwise.instances.network_ensemble import NetworkEnsemble

        checks.append((NetworkEnsemble, check_network))
    return checks
