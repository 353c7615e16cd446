"""The plan of a model: nested nodes in JSON, each with a kind, a module and a class, beside the arrays they point to.

`write` turns a fitted model into a plan and its arrays, `build` a plan back into the model. Both know only the kinds
of nodes below. What a plan may name is decided by `names`.

`examine` looks at every node before one is built: its kind, its keys, its type and its array. The state of an object is
made of named attributes, none in the place of something that its class defines. For Python looks at an object before
its class. So an attribute called like a method would be called instead of it, and numpy's multiplication could stand
where a tree compares the width of what it is given with the width it knows.

Compiled code follows some parts without looking: the indices of trees, the shapes of networks. A file whose checksums
were made again after a change could send `predict` out of its arrays. So these parts are checked, once a model is built
and before it is handed out. In a tree every child must come after its parent (no step out of the tree, no walk in
circles), and every split must ask for a feature that the estimator which holds the tree insists on being given. The
arrays of a network must have the shapes that its sizes call for.

The kinds, and the keys of their nodes, are those of skops (its protocol 2), which wrote the plans of earlier versions.
"""

from __future__ import annotations

import inspect
import io
import json
import math
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import numpy as np

from bagwise.bags import Bags
from bagwise.model_files.archive import AGAIN, Refused, check_array, read_array
from bagwise.model_files.names import (
    BIT_GENERATORS,
    CONSTRUCTOR,
    OURS,
    PARTS,
    NotAllowed,
    is_allowed,
    make_bags,
    place_of,
    stable_name,
)


def check_tree_sizes(node: dict, parts: dict[str, bytes]) -> None:
    """Before a tree is built from arrays that were checked: one output, and as many nodes as it says."""
    _, classes, outputs = node["__reduce__"]["args"]["content"]
    state = node["content"]["content"]
    count = json.loads(state["node_count"]["content"])
    rows = read_array(parts[state["nodes"]["file"]])
    if outputs["content"] != "1" or read_array(parts[classes["file"]]).tolist() != [1]:
        raise Refused(f"a tree has more than one output; {AGAIN}")
    if type(count) is not int or rows.shape != (count,):
        raise Refused(f"a tree has {len(rows)} nodes and claims {count}; {AGAIN}")


# A node of a tree in a file, 21 bytes for 72: what is compared at a split, or what is predicted at a leaf.
_SHORT = np.dtype([("left", "<i4"), ("right", "<i4"), ("feature", "<i4"), ("missing", "u1"), ("number", "<f8")])
_COLUMNS = {"left_child": "left", "right_child": "right", "feature": "feature", "missing_go_to_left": "missing"}


def short_tree(state: dict) -> dict:
    """The state of a tree of one output without what no prediction needs: impurities and counts of nodes."""
    nodes, values = state["nodes"], state["values"]
    if values.shape[1:] != (1, 1) or not set(_COLUMNS) | {"threshold"} <= set(nodes.dtype.names):
        return state
    short = np.empty(len(nodes), _SHORT)
    for name, column in _COLUMNS.items():
        short[column] = nodes[name]
    short["number"] = np.where(nodes["left_child"] == -1, values[:, 0, 0], nodes["threshold"])
    return {name: value for name, value in state.items() if name != "values"} | {"nodes": short}


def whole_tree(state: dict, tree) -> dict:
    """The state as this version of scikit-learn wants it; what the file does not have is NaN."""
    short, leaf = state["nodes"], state["nodes"]["left"] == -1
    nodes = np.zeros(len(short), tree.__getstate__()["nodes"].dtype)
    for name, column in _COLUMNS.items():
        nodes[name] = short[column]
    nodes["threshold"] = np.where(leaf, -2.0, short["number"])
    nodes["impurity"] = nodes["weighted_n_node_samples"] = np.nan
    values = np.where(leaf, short["number"], np.nan).reshape(-1, 1, 1)
    return state | {"nodes": nodes, "values": values}


def check_tree(tree, holder) -> None:
    """A tree of a decision tree or a forest."""
    left = tree.children_left
    check_splits(left, tree.children_right, tree.feature, left == -1, _width(holder))


def check_predictor(tree, holder) -> None:
    """A tree of histogram boosting; its holder compares the width only without a preprocessor, and outside of fit."""
    if getattr(holder, "_preprocessor", None) is not None or hasattr(holder, "_in_fit"):
        raise Refused(f"a tree is given what others made of the features, which are never categories here; {AGAIN}")
    rows = tree.nodes
    if rows["is_categorical"].any():
        raise Refused(f"a tree splits by category, which features of instances never do; {AGAIN}")
    check_splits(rows["left"], rows["right"], rows["feature_idx"], rows["is_leaf"] != 0, _width(holder))


def check_forest(forest, holder=None) -> None:
    """Forests and boosted trees count the features once and hand them to every member."""
    for member in np.asarray(forest.estimators_, dtype=object).ravel():
        if not hasattr(member, "tree_"):  # a set of trees, say, which an array does not look into
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
    """The number of features that an estimator insists on."""
    width = getattr(holder, "n_features_in_", None)
    if type(width) is not int:
        raise Refused(f"a tree is held by {type(holder).__name__}, which does not count its features; {AGAIN}")
    return width


NETWORK = "bagwise.instances.networks.cpu.NetworkEnsemble"
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
    from bagwise.instances.networks.cpu import BIAS_AT, COLUMNS, layout

    sizes, count = network.sizes, len(network.parameters)
    if not all(type(size) is int and size > 0 for size in sizes) or len(sizes) < 2 or sizes[-1] != 1:
        raise Refused(f"a network has the sizes {sizes}; {AGAIN}")
    last = layout(sizes)[-1]
    shapes: dict[str, tuple] = {"parameters": (count, last[BIAS_AT] + last[COLUMNS])}
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
        from bagwise.instances.networks.cpu import NetworkEnsemble

        checks.append((NetworkEnsemble, check_network))
    return checks


PLAN = "schema.json"
PROTOCOL = 2


def write(model) -> dict[str, bytes]:
    """The plan of a model and its arrays, as parts of a file; a type that a file may not name is refused.

    The same model gives the same bytes. An array that is used twice is stored once, and so are equal arrays.
    """
    writer = Writer()
    plan = writer.node(model) | {"protocol": PROTOCOL}
    return {PLAN: json.dumps(plan, separators=(",", ":")).encode(), **writer.arrays}


class Writer:
    """Nodes for values, and the arrays they point to, numbered in the order in which they are met."""

    def __init__(self):
        self.arrays: dict[str, bytes] = {}
        self._names: dict[bytes, str] = {}  # of arrays by what they hold
        self._known: dict[int, tuple[np.ndarray, str]] = {}  # with the array itself, so that no id comes twice
        self._allowed: set[tuple[str, str, str]] = set()

    def node(self, value) -> dict:
        for kinds, write in _WRITERS:
            if isinstance(value, kinds):
                return write(self, value)
        return self._object(value)

    def _node(self, loader: str, module: str, name: str, **rest) -> dict:
        if (loader, module, name) not in self._allowed and not is_allowed(loader, module, name):
            raise NotAllowed(f"{module}.{name}")
        self._allowed.add((loader, module, name))
        if stable := stable_name(module, name):
            module, name = OURS, stable
        return {"__class__": name, "__module__": module, "__loader__": loader, **rest}

    def _named(self, loader: str, kind, **rest) -> dict:
        return self._node(loader, kind.__module__, kind.__name__, **rest)

    def _plain(self, value) -> dict:
        return self._node("JsonNode", "builtins", "str", content=json.dumps(value), is_json=True)

    def _sequence(self, value) -> dict:
        kind = next(kind for kind in (list, tuple, set) if isinstance(value, kind))
        items = sorted(value, key=repr) if kind is set else value
        return self._named(f"{kind.__name__.title()}Node", type(value), content=[self.node(one) for one in items])

    def _dict(self, value: dict) -> dict:
        node = self._named("DictNode", type(value), content={_key(key): self.node(one) for key, one in value.items()})
        if len(node["content"]) < len(value):
            raise ValueError("a dictionary has two keys that are the same as text")
        return node | {"key_types": self.node([type(key) for key in value])}

    def _slice(self, value: slice) -> dict:
        return self._named("SliceNode", slice, content={"start": value.start, "stop": value.stop, "step": value.step})

    def _array(self, value) -> dict:
        node = self._named("NdArrayNode", type(value))
        if value.dtype.hasobject:
            items = value.tolist() if value.ndim else [value.item()]
            return node | {"content": self.node(items)["content"], "type": "json", "shape": self.node(value.shape)}
        if id(value) not in self._known:
            stream = io.BytesIO()
            np.save(stream, value, allow_pickle=False)
            written = stream.getvalue()
            name = self._names.setdefault(written, f"{len(self._names)}.npy")
            self.arrays[name], self._known[id(value)] = written, (value, name)
        node |= {"type": "numpy", "file": self._known[id(value)][1]}
        return node | {"__id__": identity(node)}

    def _masked(self, value) -> dict:
        content = {"data": self.node(value.data), "mask": self.node(value.mask)}
        return self._node("MaskedArrayNode", "numpy.ma", "MaskedArray", content=content)

    def _dtype(self, value: np.dtype) -> dict:
        return self._node("DTypeNode", "numpy", "dtype", content=self.node(np.empty(0, value)))

    def _random_state(self, value) -> dict:
        return self._named("RandomStateNode", type(value), content=self.node(value.get_state(legacy=False)))

    def _generator(self, value) -> dict:
        made_by = value.bit_generator
        content = {"bit_generator": self.node(made_by.state), "seed_seq": self.node(made_by.seed_seq.state)}
        return self._named("RandomGeneratorNode", type(value), content=content)

    def _type(self, value: type) -> dict:
        return self._named("TypeNode", value)

    def _function(self, value) -> dict:
        name, module = value.__name__, getattr(value, "__module__", None)
        if isinstance(value, np.ufunc):  # which knows no module; scipy has some of the same names
            module = "numpy" if getattr(np, name, None) is value else "scipy.special"
        return self._node("FunctionNode", str(module), name)

    def _bags(self, value: Bags) -> dict:
        return self._named(CONSTRUCTOR, make_bags, content=self.node(tuple(getattr(value, name) for name in PARTS)))

    def _object(self, value) -> dict:
        kind = type(value)
        if kind.__reduce__ is object.__reduce__ and kind.__reduce_ex__ is object.__reduce_ex__:
            return self._named("ObjectNode", kind) | {"content": self.node(value.__getstate__())}
        loader = "TreeNode" if kind.__name__ == "Tree" else "LossNode"  # of scikit-learn; all others are refused
        node = self._named(loader, kind)
        make, arguments, *state = value.__reduce__()
        arguments = arguments if make is kind else arguments[2] or ()
        content = state[0] if state and state[0] else {}
        content = short_tree(content) if loader == "TreeNode" else content
        return node | {"__reduce__": {"args": self.node(arguments)}, "content": self.node(content)}


# The first that fits: a numpy float is a float, and a masked array an array.
_WRITERS: list[tuple[Any, Callable]] = [
    (np.ma.MaskedArray, Writer._masked),
    ((np.generic, np.ndarray), Writer._array),
    ((str, int, float, type(None)), Writer._plain),
    ((list, tuple, set), Writer._sequence),
    (dict, Writer._dict),
    (slice, Writer._slice),
    (Bags, Writer._bags),
    (np.dtype, Writer._dtype),
    (np.random.RandomState, Writer._random_state),
    (np.random.Generator, Writer._generator),
    (type, Writer._type),
    ((FunctionType, BuiltinFunctionType, MethodType, np.ufunc, type(np.mean)), Writer._function),
]


def identity(node: dict) -> str:
    """What an array goes by: nodes of one identity are one array when they are built."""
    return f"{node['__class__']} {node['file']}"


def _key(key) -> str:
    return key if isinstance(key, str) else json.dumps(key.item() if isinstance(key, np.generic) else key)


def build(plan: dict, parts: dict[str, bytes]):
    """The model of a plan that was examined, our classes at their places; no code of the file is run."""
    return Builder(parts).value(plan)


class Builder:
    """Values of nodes. Objects are made without their constructor, and their state is set."""

    def __init__(self, parts: dict[str, bytes]):
        self.parts = parts
        self._arrays: dict[str, np.ndarray] = {}

    def value(self, node: dict):
        return _BUILDERS[node["__loader__"]](self, node)

    def values(self, nodes: list) -> list:
        return [self.value(node) for node in nodes]

    def _plain(self, node):
        return json.loads(node["content"])

    def _sequence(self, node):
        return type_of(node)(self.values(node["content"]))

    def _dict(self, node):
        made, kinds = type_of(node)(), map(type_of, node["key_types"]["content"])
        for kind, (key, value) in zip(kinds, node["content"].items(), strict=True):
            made[kind(json.loads(key) if kind in (bool, np.bool_) else key)] = self.value(value)
        return made

    def _slice(self, node):
        return slice(*(node["content"][name] for name in ("start", "stop", "step")))

    def _array(self, node):
        if "file" not in node:
            return self._objects(node)
        if node["__id__"] not in self._arrays:
            array = read_array(self.parts[node["file"]])
            value = array if node["__class__"] == "ndarray" else array[()]
            if type(value) is not type_of(node):
                raise Refused(f"its array {node['file']!r} is no {node['__class__']}; {AGAIN}")
            self._arrays[node["__id__"]] = value
        return self._arrays[node["__id__"]]

    def _objects(self, node):
        shape = self.value(node["shape"])
        values = self.values(node["content"] if len(shape) == 1 else list(cells(node["content"])))
        if math.prod(shape) != len(values):
            raise Refused(f"an array of objects has {len(values)} and the shape {shape}; {AGAIN}")
        made = np.empty(len(values), dtype=object)
        for i, value in enumerate(values):  # one by one: numpy would look into lists
            made[i] = value
        return made.reshape(shape)

    def _masked(self, node):
        return np.ma.MaskedArray(self.value(node["content"]["data"]), self.value(node["content"]["mask"]))

    def _dtype(self, node):
        return self.value(node["content"]).dtype

    def _random_state(self, node):
        made = np.random.RandomState()
        made.set_state(self.value(node["content"]))
        return made

    def _generator(self, node):
        state = self.value(node["content"]["bit_generator"])
        name = state["bit_generator"]
        if name not in BIT_GENERATORS:
            raise ValueError(f"numpy.random.{name} is not a bit generator")
        made = getattr(np.random, name)(np.random.SeedSequence(**self.value(node["content"]["seed_seq"])))
        made.state = state
        return np.random.Generator(made)

    def _called(self, node):
        return type_of(node)(*self.value(node["content"]))

    def _loss(self, node):
        return type_of(node)(*self.value(node["__reduce__"]["args"]))

    def _tree(self, node):
        made, state = self._loss(node), self.value(node["content"])
        made.__setstate__(state if "values" in state else whole_tree(state, made))
        return made

    def _object(self, node):
        kind = type_of(node)
        made = kind.__new__(kind)
        state = self.value(node["content"]) if node.get("content") is not None else None
        if state is not None:
            made.__setstate__(state) if hasattr(made, "__setstate__") else vars(made).update(state)
        return made


_BUILDERS = {
    "JsonNode": Builder._plain,
    "ListNode": Builder._sequence,
    "TupleNode": Builder._sequence,
    "SetNode": Builder._sequence,
    "DictNode": Builder._dict,
    "SliceNode": Builder._slice,
    "NdArrayNode": Builder._array,
    "MaskedArrayNode": Builder._masked,
    "DTypeNode": Builder._dtype,
    "RandomStateNode": Builder._random_state,
    "RandomGeneratorNode": Builder._generator,
    "TypeNode": lambda builder, node: type_of(node),
    "FunctionNode": lambda builder, node: type_of(node),
    CONSTRUCTOR: Builder._called,
    "LossNode": Builder._loss,
    "TreeNode": Builder._tree,
    "ObjectNode": Builder._object,
}


@cache
def _found(module: str, name: str):
    return getattr(import_module(module), name)


def type_of(node: dict):
    """The class or function that a node names."""
    return _found(node["__module__"], node["__class__"])


def cells(content: list) -> Iterator[dict]:
    """The nodes in the nested lists of a table of objects."""
    for item in content:
        yield from cells(item["content"]) if item["__loader__"] == "ListNode" else [item]


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
    for part, data in parts.items():
        if part != PLAN:
            check_array(part, data)
    known = set()
    for node in nodes(schema):
        loader, module, name = (node.get(key) for key in ("__loader__", "__module__", "__class__"))
        if not (isinstance(loader, str) and isinstance(module, str) and isinstance(name, str)):
            raise Refused(f"a part of its plan is not a node; {AGAIN}")
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
