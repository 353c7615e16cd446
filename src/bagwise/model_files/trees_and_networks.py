"""Checks of trees and networks, whose arrays compiled code reads without bounds checks.

A manipulated file with a valid checksum could make `predict` read outside its arrays. In a tree each child must come
after its parent (which excludes cycles and indices outside the tree), and each split must use a feature that the
estimator of the tree requires. The arrays of a network must have the shapes that its sizes require.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from bagwise.model_files.archive import AGAIN, Refused


def check_tree_sizes(node: dict, read: Callable[[str], np.ndarray]) -> None:
    """Refuse a node of a tree with several outputs, or fewer rows than it claims to have nodes."""
    _, classes, outputs = node["arguments"]["content"]
    state = node["content"]["content"]
    count, rows = state["node_count"], read(state["nodes"]["file"])
    if outputs != 1 or read(classes["file"]).tolist() != [1]:
        raise Refused(f"a tree has more than one output; {AGAIN}")
    if type(count) is not int or rows.shape != (count,):
        raise Refused(f"a tree has {len(rows)} nodes and claims {count}; {AGAIN}")


# Only the split or the value of each node is stored: 21 bytes per node instead of 72.
_SHORT = np.dtype([("left", "<i4"), ("right", "<i4"), ("feature", "<i4"), ("missing", "u1"), ("number", "<f8")])
_COLUMNS = {"left_child": "left", "right_child": "right", "feature": "feature", "missing_go_to_left": "missing"}


def short_tree(state: dict) -> dict:
    """Return the state of a tree of one output without impurities and counts, which no prediction needs."""
    nodes, values = state["nodes"], state["values"]
    if values.shape[1:] != (1, 1):
        raise Refused("a tree has more than one output; fit a model per target")
    short = np.empty(len(nodes), _SHORT)
    for name, column in _COLUMNS.items():
        short[column] = nodes[name]
    short["number"] = np.where(nodes["left_child"] == -1, values[:, 0, 0], nodes["threshold"])
    return {name: value for name, value in state.items() if name != "values"} | {"nodes": short}


def whole_tree(state: dict, tree) -> dict:
    """Return the state of a tree as this version of scikit-learn needs it, with NaN for values not in the file."""
    short, leaf = state["nodes"], state["nodes"]["left"] == -1
    nodes = np.zeros(len(short), tree.__getstate__()["nodes"].dtype)
    for name, column in _COLUMNS.items():
        nodes[name] = short[column]
    nodes["threshold"] = np.where(leaf, -2.0, short["number"])
    nodes["impurity"] = nodes["weighted_n_node_samples"] = np.nan
    return state | {"nodes": nodes, "values": np.where(leaf, short["number"], np.nan).reshape(-1, 1, 1)}


def check_compiled(model) -> None:
    """Refuse a model with a tree or a network whose indices or shapes exceed its arrays."""
    for holder, part in walk_parts(model):
        kinds = [(kind.__module__, kind.__name__) for kind in type(part).__mro__]
        if any(module.startswith("sklearn.ensemble.") for module, _ in kinds):
            _check_forest(part)
        for kind in kinds:
            if check := _CHECKS.get(".".join(kind)):
                check(part, holder)


def walk_parts(model) -> Iterator[tuple[object, object]]:
    """Yield (holder, part) for each part of a model; the holder has it as an attribute, perhaps inside a list.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> [(type(holder).__name__, part) for holder, part in walk_parts(Ridge(alpha=[2.5]))][-1]
    ('Ridge', 2.5)
    """
    waiting, visited = [(None, model)], set()
    while waiting:
        holder, part = waiting.pop()
        yield holder, part
        if isinstance(part, dict | list | tuple | set):
            waiting.extend((holder, value) for value in (part.values() if isinstance(part, dict) else part))
        elif isinstance(part, np.ndarray) and part.dtype == object:
            waiting.extend((holder, value) for value in part.ravel())
        if hasattr(part, "__dict__") and id(part) not in visited:
            visited.add(id(part))
            waiting.extend((part, value) for value in vars(part).values())


def _check_tree(tree, holder) -> None:
    """Check a tree of a decision tree or a forest."""
    first_child = tree.children_left
    check_splits(first_child, tree.children_right, tree.feature, first_child == -1, _width(holder))


def _check_predictor(tree, holder) -> None:
    """Check a tree of histogram boosting; its estimator compares the number of features only without a preprocessor."""
    if getattr(holder, "_preprocessor", None) is not None or hasattr(holder, "_in_fit"):
        raise Refused(f"a tree gets the output of a preprocessor, which instance features never need; {AGAIN}")
    rows = tree.nodes
    if rows["is_categorical"].any():
        raise Refused(f"a tree splits by category, which features of instances never do; {AGAIN}")
    check_splits(rows["left"], rows["right"], rows["feature_idx"], rows["is_leaf"] != 0, _width(holder))


def _check_forest(forest) -> None:
    """Check that the trees of a forest have its number of features, which only the forest compares."""
    from sklearn.ensemble._forest import BaseForest
    from sklearn.ensemble._gb import BaseGradientBoosting

    if not isinstance(forest, BaseForest | BaseGradientBoosting):
        return
    for member in np.asarray(getattr(forest, "estimators_", ()), dtype=object).ravel():  # a parameter is not fitted
        if not hasattr(member, "tree_"):  # such as a set of trees
            raise Refused(f"a forest holds a {type(member).__name__} where a tree should be; {AGAIN}")
        if _width(member) != _width(forest):
            raise Refused(f"a tree has other features than its forest; {AGAIN}")


def check_splits(left, right, feature, leaf, n_features: int) -> None:
    """Refuse a tree with a child before its parent or beyond the end, or a feature that is not there.

    Examples
    --------
    >>> leaf = np.array([False, True, True])
    >>> check_splits(np.array([1, -1, -1]), np.array([2, -1, -1]), np.array([0, -2, -2]), leaf, 1)
    >>> check_splits(np.array([9, -1, -1]), np.array([2, -1, -1]), np.array([0, -2, -2]), leaf, 1)
    Traceback (most recent call last):
    bagwise.model_files.archive.Refused: a tree leads out of itself; ...
    """
    inner = np.flatnonzero(~leaf)
    for children in (left[inner].astype(np.int64), right[inner].astype(np.int64)):
        if len(leaf) == 0 or not ((children > inner) & (children < len(leaf))).all():
            raise Refused(f"a tree leads out of itself; {AGAIN}")
    if not ((feature[inner] >= 0) & (feature[inner] < n_features)).all():
        raise Refused(f"a tree asks for a feature that is not there; {AGAIN}")


def _width(holder) -> int:
    """Return the number of features that an estimator requires."""
    width = getattr(holder, "n_features_in_", None)
    if type(width) is not int:
        raise Refused(f"a tree is held by {type(holder).__name__}, which does not count its features; {AGAIN}")
    return width


def _check_network(network, holder) -> None:
    """Check that the arrays of a `NetworkEnsemble` have the shapes that its sizes require."""
    from bagwise.instances.networks.cpu import BIAS_AT, COLUMNS, layout

    sizes, count = network.sizes, len(network.parameters)
    if not all(type(size) is int and size > 0 for size in sizes) or len(sizes) < 2 or sizes[-1] != 1:
        raise Refused(f"a network has the sizes {sizes}; {AGAIN}")
    last = layout(sizes)[-1]
    shapes = {"parameters": (count, last[BIAS_AT] + last[COLUMNS]), "y_shift": (count,), "y_scale": (count,)}
    shapes |= {"x_shift": (count, sizes[0]), "x_factor": (count, sizes[0])}
    for name, shape in shapes.items():
        if getattr(network, name).shape != shape:
            raise Refused(f"the {name} of a network do not have the shape {tuple(map(int, shape))}; {AGAIN}")


# Use class names, so that no module is imported for models without these classes.
_CHECKS = {
    "sklearn.tree._tree.Tree": _check_tree,
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor": _check_predictor,
    "bagwise.instances.networks.cpu.NetworkEnsemble": _check_network,
}
