"""The plan of a file is examined before anything is built: the kind, the keys, the type and the array of every node.

The state of an object is made of named attributes, none in the place of something that its class defines. For Python
looks at an object before its class. So an attribute called like a method would be called instead of it, and
numpy's multiplication could stand where a tree compares the width of what it is given with the width it knows.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cache

from bagwise.model_files.archive import AGAIN, Refused, check_array
from bagwise.model_files.fitted_trees import check_tree_sizes
from bagwise.model_files.names import OURS, place_of
from bagwise.model_files.plan_nodes import PLAN, PROTOCOL, cells, identity, type_of
from bagwise.model_files.registry import NotAllowed, is_allowed


def check_state(node: dict, parts: dict[str, bytes]) -> None:
    """Refuse a state that is no dictionary of attributes, or has a name that the class of the object has already."""
    kind, state = type_of(node), node.get("content")
    if state is None or (state["__loader__"], state["content"]) == ("JsonNode", "null"):
        return
    if state["__loader__"] != "DictNode":
        raise Refused(f"the state of a {kind.__name__} is not made of attributes; {AGAIN}")
    hidden = sorted(name for name in state["content"] if is_taken(kind, name))
    if hidden:
        raise Refused(f"a {kind.__name__} has a {hidden[0]!r} of its own, which its class defines; {AGAIN}")


def is_taken(kind: type, name: str) -> bool:
    """Whether a class defines this name, other than as the default of a parameter of its constructor.

    Examples
    --------
    >>> from sklearn.linear_model import LassoLars
    >>> [is_taken(LassoLars, name) for name in ("predict", "_parameter_constraints", "coef_", "positive")]
    [True, True, False, False]
    """
    return hasattr(kind, name) and name not in _parameters(kind)


@cache
def _parameters(kind: type) -> frozenset[str]:
    return frozenset(inspect.signature(kind).parameters)


_NODE = {"__class__", "__module__", "__loader__"}
_TOP = {"protocol", "_skops_version"}
# The keys of each kind of node beside those of every node.
_KEYS = {
    "JsonNode": {"content", "is_json"},
    "DictNode": {"content", "key_types"},
    "TypeNode": set(),
    "FunctionNode": set(),
    "LossNode": {"content", "__reduce__"},
    "TreeNode": {"content", "__reduce__"},
    "NdArrayNode": {"type", "content", "shape", "file", "__id__"},
}


def examine(schema: dict, parts: dict[str, bytes]) -> set[str]:
    """Refuse a plan with anything unexpected in it; the places of all types in it, each allowed.

    Our classes, which a plan knows by their stable names, are put where they are now.
    """
    if schema.get("protocol") != PROTOCOL:
        raise Refused(f"its plan follows protocol {schema.get('protocol')}, not {PROTOCOL}; {AGAIN}")
    _refuse_idle(schema, parts)
    for name, data in parts.items():
        if name != PLAN:
            check_array(name, data)
    known = set()
    for node in nodes(schema):
        loader, module, name = (node.get(key) for key in ("__loader__", "__module__", "__class__"))
        if not (isinstance(loader, str) and isinstance(module, str) and isinstance(name, str)):
            raise Refused(f"a part of its plan is no node; {AGAIN}")
        if module.partition(".")[0] == OURS:
            place = place_of(module, name)
            if place is None:
                raise NotAllowed(f"{module}.{name}")
            node["__module__"], node["__class__"] = module, name = place
        if (loader, module, name) not in known and not is_allowed(loader, module, name):
            raise NotAllowed(f"{module}.{name}")
        if set(node) - _NODE - (_TOP if node is schema else set()) - _KEYS.get(loader, {"content"}):
            raise Refused(f"a node for {module}.{name} has unknown keys; {AGAIN}")
        _CHECKS.get(loader, _nothing)(node, parts)
        known.add((loader, module, name))
    return {f"{module}.{name}" for _, module, name in known}


def nodes(schema) -> Iterator[dict]:
    """Every node of a plan: any dict with a key in it that only nodes have."""
    waiting = [schema]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            if found.keys() & (_NODE | {"__id__"}):
                yield found
            waiting.extend(reversed(found.values()))
        elif isinstance(found, list):
            waiting.extend(reversed(found))


def _refuse_idle(schema: dict, parts: dict[str, bytes]) -> None:
    """Refuse parts that no node points to, before any is looked into: thousands of them would only take time."""
    used = {node["file"] for node in nodes(schema) if isinstance(node.get("file"), str)}
    if idle := parts.keys() - used - {PLAN}:
        raise Refused(f"its plan has no use for {len(idle):,} of its parts (see {min(idle)!r}); {AGAIN}")


def _nothing(node, parts) -> None:
    """Most kinds of nodes are what their type is."""


def _check_keys(node, parts) -> None:
    # The types of keys are called with the keys: they must be types, not any object that can be called.
    types = node["key_types"]["content"]
    if len(types) != len(node["content"]) or any(key["__loader__"] != "TypeNode" for key in types):
        raise Refused(f"a dictionary has keys of no plain type; {AGAIN}")


def _check_file(node, parts) -> None:
    if "file" in node:
        if node["file"] not in parts or node.get("__id__") != identity(node):
            raise Refused(f"an array is missing or goes by another name; {AGAIN}")
    elif "__id__" in node:
        raise Refused(f"an array of objects goes by the name of another part; {AGAIN}")
    elif len(node["shape"]["content"]) != 1 and not all(map(_stays_whole, cells(node["content"]))):
        raise Refused(f"a table of objects holds more than plain values and trees; {AGAIN}")


def _stays_whole(cell: dict) -> bool:
    # numpy spreads whatever has a length over more cells, so that a few shared arrays would fill the memory.
    return cell["__loader__"] == "JsonNode" or cell["__module__"].startswith("sklearn.tree.")


def _check_seed(node, parts) -> None:
    # numpy makes a pool of the size it is told.
    if node["content"]["seed_seq"]["content"]["pool_size"]["content"] != "4":
        raise Refused(f"a random generator has a pool of unusual size; {AGAIN}")


def _check_loss(node, parts) -> None:
    if node["content"]["content"]:
        raise Refused(f"a loss has a state of its own; {AGAIN}")


_CHECKS = {
    "ObjectNode": check_state,
    "DictNode": _check_keys,
    "NdArrayNode": _check_file,
    "RandomGeneratorNode": _check_seed,
    "LossNode": _check_loss,
    "TreeNode": check_tree_sizes,
}
