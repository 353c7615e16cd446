"""The plan of a model: nested nodes in JSON that name types, and the arrays that they refer to.

Each node has a kind (``__loader__``), a module and a class; `names` lists the allowed ones. A node is checked before it
is built. The state of an object must not contain a name that its class defines: Python looks up attributes of an object
before those of its class, so an attribute with the name of a method would be called in its place.
"""

from __future__ import annotations

import inspect
import io
import json
import math
from collections.abc import Callable
from importlib import import_module
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import numpy as np

from bagwise.bags import Bags
from bagwise.model_files.archive import AGAIN, Refused, read_array
from bagwise.model_files.names import CONSTRUCTOR, OURS, PARTS, PLACES, NotAllowed, is_allowed, stable_name
from bagwise.model_files.trees_and_networks import check_tree_sizes, short_tree, whole_tree

PLAN, MAKERS = "schema.json", "bagwise.model_files.names"


# Write ----------------------------------------------------------------------------------------------------------------


def write(model) -> dict[str, bytes]:
    """Return the plan of a model and its arrays as parts of a file; refuse a type that a file may not name.

    The same model gives the same bytes. Equal arrays are stored once.
    """
    writer = Writer()
    return {PLAN: json.dumps(writer.node(model), separators=(",", ":")).encode(), **writer.arrays}


class Writer:
    """Nodes of values, and the arrays that they refer to, numbered in the order in which they appear."""

    def __init__(self):
        self.arrays: dict[str, bytes] = {}
        self._file_names: dict[bytes, str] = {}  # content of an array -> its file
        self._written: dict[int, tuple[np.ndarray, str]] = {}  # with the array, so that its id is not used again

    def node(self, value) -> dict:
        for kinds, write in _WRITERS:
            if isinstance(value, kinds):
                return write(self, value)
        return self._object(value)

    def _node(self, kind: str, module: str, name: str, **content) -> dict:
        if not is_allowed(kind, module, name):
            raise NotAllowed(f"{module}.{name}")
        if stable := stable_name(module, name):
            module, name = OURS, stable
        return {"__class__": name, "__module__": module, "__loader__": kind, **content}

    def _named(self, kind: str, named: Any, **content) -> dict:
        return self._node(kind, named.__module__, named.__name__, **content)

    def _call(self, module: str, name: str, *arguments) -> dict:
        return self._node(CONSTRUCTOR, module, name, content=self.node(arguments))

    def _sequence(self, value) -> dict:
        kind = next(kind for kind in (list, tuple, set) if isinstance(value, kind))
        items = sorted(value, key=repr) if kind is set else value
        return self._named(f"{kind.__name__.title()}Node", type(value), content=[self.node(item) for item in items])

    def _dict(self, value: dict) -> dict:
        if all(type(key) is str for key in value):
            return self._named("DictNode", type(value), content={key: self.node(item) for key, item in value.items()})
        pairs = [[self.node(key), self.node(item)] for key, item in value.items()]
        return self._named("PairsNode", type(value), content=pairs)

    def _array(self, value) -> dict:
        node = self._named("NdArrayNode", type(value))
        if value.dtype.hasobject:
            cells = [self.node(cell) for cell in value.ravel().tolist()]
            return node | {"content": cells, "shape": list(value.shape)}
        if id(value) not in self._written:
            stream = io.BytesIO()
            np.save(stream, value, allow_pickle=False)
            data = stream.getvalue()
            file = self._file_names.setdefault(data, f"{len(self._file_names)}.npy")
            self.arrays[file], self._written[id(value)] = data, (value, file)
        return node | {"file": self._written[id(value)][1]}

    def _generator(self, value: np.random.Generator) -> dict:
        bits: Any = value.bit_generator
        return self._call(MAKERS, "make_generator", bits.state, bits.seed_seq.state)

    def _function(self, value) -> dict:
        name, module = value.__name__, getattr(value, "__module__", None)
        if isinstance(value, np.ufunc):  # without a module; scipy has functions of the same names
            module = "numpy" if getattr(np, name, None) is value else "scipy.special"
        return self._node("FunctionNode", str(module), name)

    def _object(self, value) -> dict:
        kind = type(value)
        if kind.__reduce__ is object.__reduce__ and kind.__reduce_ex__ is object.__reduce_ex__:
            state = value.state_for_file() if hasattr(kind, "state_for_file") else value.__getstate__()
            return self._named("ObjectNode", kind) | {"content": self.node(state)}
        is_tree = kind.__name__ == "Tree"
        node = self._named("TreeNode" if is_tree else CONSTRUCTOR, kind)  # or a loss; others are refused here
        make, arguments, *state = value.__reduce__()
        written = self.node(arguments if make is kind else arguments[2] or ())
        return node | (
            {"arguments": written, "content": self.node(short_tree(state[0]))} if is_tree else {"content": written}
        )


# The first match applies, because a numpy float is also a float, and a masked array an array.
_WRITERS: list[tuple[Any, Callable[[Writer, Any], Any]]] = [
    (np.ma.MaskedArray, lambda writer, array: writer._call(MAKERS, "make_masked", array.data, array.mask)),
    ((np.generic, np.ndarray), Writer._array),
    ((str, int, float, type(None)), lambda writer, value: value),
    ((list, tuple, set), Writer._sequence),
    (dict, Writer._dict),
    (slice, lambda writer, value: writer._call("builtins", "slice", value.start, value.stop, value.step)),
    (Bags, lambda writer, bags: writer._call(MAKERS, "make_bags", *(getattr(bags, part) for part in PARTS))),
    (np.dtype, lambda writer, dtype: writer._call(MAKERS, "make_dtype", np.empty(0, dtype))),
    (np.random.RandomState, lambda writer, rng: writer._call(MAKERS, "make_random_state", rng.get_state(legacy=False))),
    (np.random.Generator, Writer._generator),
    (type, lambda writer, kind: writer._named("TypeNode", kind)),
    ((FunctionType, BuiltinFunctionType, MethodType, np.ufunc, type(np.mean)), Writer._function),
]


# Build ----------------------------------------------------------------------------------------------------------------

_NODE = {"__class__", "__module__", "__loader__"}
# Kind of node -> its keys besides those of each node; "content" alone is not listed.
_KEYS = {
    "TypeNode": set(),
    "FunctionNode": set(),
    "TreeNode": {"content", "arguments"},
    "NdArrayNode": {"content", "shape", "file"},
}


def build(plan: dict, parts: dict[str, bytes]):
    """Return the model of a plan; no code of the file is run.

    Anything unexpected is refused: types that are not allowed, unknown keys, arrays that are not what they claim to be,
    parts that no node uses.
    """
    builder = Builder(parts)
    model = builder.value(plan)
    if idle := parts.keys() - builder.files - {PLAN}:
        raise Refused(f"its plan has no use for {len(idle):,} of its parts (see {min(idle)!r}); {AGAIN}")
    return model


class Builder:
    """Values of nodes. Objects are made without their constructor, and their state is set."""

    def __init__(self, parts: dict[str, bytes]):
        self.parts = parts
        self.files: set[str] = set()  # names of the arrays that were read
        self._arrays: dict[tuple[str, str], Any] = {}  # so that an array that is used twice is one array again

    def value(self, node):
        if node is None or isinstance(node, str | int | float):
            return node
        return _BUILDERS[self._check(node)](self, node)

    def values(self, items: list) -> list:
        return [self.value(node) for node in items]

    def _check(self, node) -> str:
        """Return the kind of a node after checking its type and keys; replace a stable name by module and class."""
        if not isinstance(node, dict):
            raise Refused(f"a part of its plan is not a node; {AGAIN}")
        kind, module, name = (node.get(key) for key in ("__loader__", "__module__", "__class__"))
        if not (isinstance(kind, str) and isinstance(module, str) and isinstance(name, str)):
            raise Refused(f"a part of its plan is not a node; {AGAIN}")
        if module.partition(".")[0] == OURS:
            if module != OURS or name not in PLACES:
                raise NotAllowed(f"{module}.{name}")
            module, name = PLACES[name]
        if not is_allowed(kind, module, name):
            raise NotAllowed(f"{module}.{name}")
        if node.keys() - _NODE - _KEYS.get(kind, {"content"}):
            raise Refused(f"a node for {module}.{name} has unknown keys; {AGAIN}")
        return kind

    def _sequence(self, node):
        return type_of(node)(self.values(node["content"]))

    def _dict(self, node):
        result = type_of(node)()  # a Bunch takes no dict
        result.update({key: self.value(item) for key, item in node["content"].items()})
        return result

    def _pairs(self, node):
        for key, _ in node["content"]:
            if isinstance(key, dict) and key["__loader__"] != "NdArrayNode":
                raise Refused(f"a dictionary has keys of no plain type; {AGAIN}")
        return type_of(node)(map(self.values, node["content"]))

    def _array(self, node):
        if "file" not in node:
            shape, values = tuple(node["shape"]), self.values(node["content"])
            if math.prod(shape) != len(values):
                raise Refused(f"an array of objects has {len(values)} and the shape {shape}; {AGAIN}")
            objects = np.empty(len(values), dtype=object)
            for i, value in enumerate(values):  # singly, because numpy would look into lists
                objects[i] = value
            return objects.reshape(shape)
        key = file, kind = node["file"], node["__class__"]
        if key not in self._arrays:
            array = self.file(file)
            self._arrays[key] = array if kind == "ndarray" else array[()]
            if type(self._arrays[key]) is not type_of(node):
                raise Refused(f"its array {file!r} is no {kind}; {AGAIN}")
        return self._arrays[key]

    def file(self, name: str) -> np.ndarray:
        """Return an array of the file."""
        if name not in self.parts:
            raise Refused(f"an array is missing; {AGAIN}")
        self.files.add(name)
        return read_array(name, self.parts[name])

    def _call(self, node):
        return type_of(node)(*self.value(node["content"]))

    def _tree(self, node):
        check_tree_sizes(node, self.file)
        tree, state = type_of(node)(*self.value(node["arguments"])), self.value(node["content"])
        tree.__setstate__(whole_tree(state, tree))
        return tree

    def _object(self, node):
        kind, state = type_of(node), node["content"]
        if state is not None and not (isinstance(state, dict) and state.get("__loader__") == "DictNode"):
            raise Refused(f"the state of a {kind.__name__} is not made of attributes; {AGAIN}")
        if hidden := sorted(name for name in (state or {"content": ()})["content"] if is_taken(kind, name)):
            raise Refused(f"a {kind.__name__} has a {hidden[0]!r} of its own, which its class defines; {AGAIN}")
        instance, state = kind.__new__(kind), self.value(state)
        if state is not None:
            instance.__setstate__(state) if hasattr(instance, "__setstate__") else vars(instance).update(state)
        return instance


_BUILDERS: dict[str, Callable] = {
    "ListNode": Builder._sequence,
    "TupleNode": Builder._sequence,
    "SetNode": Builder._sequence,
    "DictNode": Builder._dict,
    "PairsNode": Builder._pairs,
    "NdArrayNode": Builder._array,
    "TypeNode": lambda builder, node: type_of(node),
    "FunctionNode": lambda builder, node: type_of(node),
    CONSTRUCTOR: Builder._call,
    "TreeNode": Builder._tree,
    "ObjectNode": Builder._object,
}


def type_of(node: dict):
    """Return the class or function that a checked node names."""
    module, name = node["__module__"], node["__class__"]
    module, name = PLACES[name] if module == OURS else (module, name)
    return getattr(import_module(module), name)


def is_taken(kind: type, name: str) -> bool:
    """Return whether a class defines this name, other than as the default of a parameter of its constructor."""
    return hasattr(kind, name) and name not in inspect.signature(kind).parameters
