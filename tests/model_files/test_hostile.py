"""Files by an attacker who knows the format and makes every checksum again: nothing of theirs runs or is believed."""

import io
import json
import os
import pickle
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LassoCV, LassoLars
from sklearn.tree import DecisionTreeRegressor
from tests.helpers.saved_files import (
    as_npy,
    file_of,
    head_of,
    node,
    plain,
    put_into_head,
    resealed,
    small_file,
    small_model,
    state,
    steps_of,
)

from bagwise.embeddings import KernelMean
from bagwise.model_files import load_model
from bagwise.model_files.archive import pack, pack_parts, unpack
from bagwise.model_files.names import is_allowed
from bagwise.model_files.plan_nodes import nodes
from bagwise.regressors import EmbeddingRidge
from bagwise.testing.contract_checks import sample

# The kinds of nodes that plans have, and those that skops knows besides.
LOADERS = [
    *("BytearrayNode", "BytesNode", "CachedNode", "ConstructorFromReduceNode", "DTypeNode", "DefaultDictNode"),
    *("DictNode", "FunctionNode", "JsonNode", "ListNode", "LossNode", "MaskedArrayNode", "MethodNode", "NdArrayNode"),
    *("ObjectNode", "OperatorFuncNode", "PartialNode", "RandomGeneratorNode", "RandomStateNode", "SetNode"),
    *("SliceNode", "SparseMatrixNode", "TreeNode", "TupleNode", "TypeNode"),
]


class bounded:
    """Nothing of more than so many bytes is allocated inside."""

    def __init__(self, most: float):
        self.most = most

    def __enter__(self):
        tracemalloc.start()

    def __exit__(self, *_):
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < self.most


class Bomb:
    """Unpickling it makes the file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def refused(data: bytes, words: str, tmp_path) -> None:
    (tmp_path / "m").write_bytes(data)
    with pytest.raises(ValueError, match=words) as caught:
        load_model(tmp_path / "m")
    assert "\n" not in str(caught.value)


def with_head(**state) -> bytes:
    """The small model with more attributes on its last step."""
    return resealed(small_file(), lambda plan, arrays: put_into_head(plan, state))


def test_resealing_alone_changes_nothing(tmp_path):
    (tmp_path / "m").write_bytes(resealed(small_file(), lambda plan, arrays: None))
    bags, _ = sample()
    np.testing.assert_array_equal(load_model(tmp_path / "m").predict(bags), small_model().predict(bags))


def any_node(loader: str, name: str) -> dict:
    """A node of any kind that would do something with what it names, if it were believed."""
    words = node("TupleNode", "builtins.tuple", content=[plain("touch ran")])
    empty = node("DictNode", "builtins.dict", content={}, key_types=node("ListNode", "builtins.list", content=[]))
    kinds = {
        "ListNode": {"content": [plain("touch ran")]},
        "SetNode": {"content": [plain("touch ran")]},
        "TupleNode": {"content": [plain("touch ran")]},
        "DictNode": {"content": {}, "key_types": node("ListNode", "builtins.list", content=[])},
        "NdArrayNode": {"type": "numpy", "file": "0.npy", "__id__": f"{name.rpartition('.')[2]} 0.npy"},
        "MethodNode": {"content": {"func": "system", "obj": node("ObjectNode", name)}},
        "PartialNode": {
            "content": {"func": node("FunctionNode", name), "args": words, "kwds": empty, "namespace": empty}
        },
        "OperatorFuncNode": {"attrs": words},
        "LossNode": {"content": empty, "__reduce__": {"args": words}},
        "TreeNode": {"content": empty, "__reduce__": {"args": words}},
        "CachedNode": {"__id__": "ndarray 0.npy"},
    }
    return node(loader, name, **kinds.get(loader, {"content": words}))


@pytest.mark.parametrize("loader", LOADERS)
def test_no_kind_of_node_may_name_a_function_of_the_system(loader, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused(
        with_head(more=any_node(loader, "os.system")), "it names os.system, which is no part of a bagwise", tmp_path
    )
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("loader", LOADERS)
def test_a_module_that_is_not_ours_is_not_even_imported(loader, tmp_path, monkeypatch):
    (tmp_path / "canary.py").write_text("class Bird: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    refused(with_head(more=any_node(loader, "canary.Bird")), "it names canary.Bird", tmp_path)
    assert "canary" not in sys.modules


@pytest.mark.parametrize(
    ("loader", "name"),
    [
        ("MethodNode", "sklearn.linear_model._ridge.Ridge"),
        ("PartialNode", "functools.partial"),
        ("OperatorFuncNode", "operator.methodcaller"),
        ("OperatorFuncNode", "operator.attrgetter"),
        ("ConstructorFromReduceNode", "bagwise.instances.networks.cpu.NetworkEnsemble"),
        ("ConstructorFromReduceNode", "numpy.random.mtrand.RandomState"),
        ("ConstructorFromReduceNode", "bagwise.bags.container.Bags"),
        ("BytesNode", "builtins.bytes"),
        ("FunctionNode", "numpy.load"),
        ("FunctionNode", "numpy.frompyfunc"),
        ("FunctionNode", "builtins.eval"),
        ("FunctionNode", "sklearn.metrics._regression.check_array"),
        ("TypeNode", "sklearn.linear_model._ridge.Ridge"),
        ("TypeNode", "numpy.void"),
        ("ObjectNode", "bagwise.regressors.attention.attention_regressor.import_module"),
        ("ObjectNode", "bagwise.regressors.pipeline.Pipeline"),
        ("ObjectNode", "bagwise.regressors.nowhere.Thing"),
        ("ObjectNode", "bagwise.execution.tasks.Processes"),
        ("ObjectNode", "bagwise.Bags"),
        ("ObjectNode", "bagwise..regressors.pipeline.BagPipeline"),
        ("ObjectNode", "bagwise.regressors.../os.system"),
        ("ObjectNode", "sklearn.linear_model._ridge.sparse"),
        ("ObjectNode", "sklearn.externals._packaging.version.Version"),
        ("ObjectNode", "sklearn.tree.tests.test_tree.DecisionTreeRegressor"),
        ("ObjectNode", "sklearn.neighbors._kd_tree.KDTree"),
        ("ObjectNode", "sklearn.ensemble._iforest.IsolationForest"),
        ("ObjectNode", "sklearn.gaussian_process.kernels.namedtuple"),
        ("ObjectNode", "builtins.object"),
        ("NewNode", "builtins.str"),
    ],
)
def test_names_outside_the_list_are_refused(loader, name, tmp_path):
    module, _, kind = name.rpartition(".")
    assert not is_allowed(loader, module, kind)
    refused(with_head(more=any_node(loader, name)), "it names ", tmp_path)


def test_a_name_cannot_speak_to_the_terminal(tmp_path):
    refused(with_head(more=any_node("ObjectNode", "a\n\x1b[31mb.C")), r"it names a \[31mb\.C, which", tmp_path)


def test_a_type_that_is_gone_points_to_the_versions(tmp_path):
    words = "regressors.nowhere.Thing, .*; install the versions that saved it, which read_header tells"
    refused(with_head(more=any_node("ObjectNode", "bagwise.regressors.nowhere.Thing")), words, tmp_path)


def test_pickles_in_every_place_are_never_read(tmp_path):
    ran = tmp_path / "ran"
    bomb = Bomb(ran)
    objects = np.empty(1, dtype=object)
    objects[0] = bomb
    refused(pickle.dumps(bomb), "looks like a pickle", tmp_path)
    for payload, words in [
        (as_npy(objects), "holds objects, which only pickle could read"),
        (pickle.dumps(bomb), "damaged"),
    ]:
        refused(resealed(small_file(), lambda plan, arrays, p=payload: arrays.update({"0.npy": p})), words, tmp_path)
    assert not ran.exists()
    np.load(io.BytesIO(as_npy(objects)), allow_pickle=True)  # the bomb is live
    assert ran.exists()


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"more": {**plain(1), "__id__": 7}}, "unknown keys"),
        ({"more": {"__id__": "ndarray 0.npy"}}, "is not a node"),
        ({"more": {"__class__": "str"}}, "is not a node"),
        ({"more": node("ListNode", ".", content=[])}, "it names"),
        ({"more": any_node("NdArrayNode", "numpy.ndarray") | {"__id__": "ndarray 1.npy"}}, "goes by another name"),
        ({"more": any_node("NdArrayNode", "numpy.ndarray") | {"file": "../../etc/passwd"}}, "an array is missing"),
        ({"more": node("ListNode", "builtins.list", content=[], extra=1)}, "unknown keys"),
        ({"more": node("ListNode", "builtins.list")}, "damaged"),
        ({"more": node("NdArrayNode", "numpy.ndarray", type="json", content=[], __id__="a")}, "goes by the name of"),
        ({"more": node("JsonNode", "builtins.str", content="{", is_json=True)}, "damaged"),
    ],
)
def test_nodes_of_an_odd_form_are_refused(state, words, tmp_path):
    refused(with_head(**state), words, tmp_path)


def test_keys_cannot_call_an_object(tmp_path):
    caller = node("ListNode", "builtins.list", content=[node("ObjectNode", "sklearn.linear_model._ridge.Ridge")])
    refused(
        with_head(more=node("DictNode", "builtins.dict", content={"a": plain(1)}, key_types=caller)),
        "keys of no plain type",
        tmp_path,
    )
    few = node("ListNode", "builtins.list", content=[])
    refused(
        with_head(more=node("DictNode", "builtins.dict", content={"a": plain(1)}, key_types=few)),
        "keys of no plain type",
        tmp_path,
    )


@pytest.mark.parametrize(
    "name", ["predict", "_decision_function", "__sklearn_tags__", "_parameter_constraints", "path"]
)
def test_attributes_cannot_stand_for_what_the_class_defines(name, tmp_path):
    whole = file_of(small_model(LassoCV(cv=3)))  # path: a static method
    other = node("FunctionNode", "numpy.multiply")
    words = f"a LassoCV has a '{name}' of its own, which its class defines"
    refused(resealed(whole, lambda plan, arrays: put_into_head(plan, {name: other})), words, tmp_path)


def test_a_tree_cannot_be_kept_from_looking_at_the_width(tmp_path):
    whole = file_of(small_model(DecisionTreeRegressor(max_depth=2)))
    unseen = {"_validate_X_predict": node("FunctionNode", "numpy.multiply")}
    words = "a DecisionTreeRegressor has a '_validate_X_predict' of its own"
    refused(resealed(whole, lambda plan, arrays: put_into_head(plan, unseen)), words, tmp_path)


def keep_used(plan, arrays):
    """Leave out the arrays that no node names: parts without a use are another refusal."""
    text = json.dumps(plan)
    for name in [name for name in arrays if f'"{name}"' not in text]:
        del arrays[name]


@pytest.mark.parametrize(
    "other",
    [
        node(
            "ListNode", "builtins.list", content=[node("TupleNode", "builtins.tuple", content=[plain("fit"), plain(1)])]
        ),
        plain({"transform": 1}),
    ],
)
def test_the_state_of_an_object_is_made_of_attributes(other, tmp_path):
    def change(plan, arrays):
        steps_of(plan)[0]["content"][1]["content"] = other
        keep_used(plan, arrays)

    refused(resealed(small_file(), change), "the state of a Pool is not made of attributes", tmp_path)


def test_a_default_of_the_class_may_be_chosen_otherwise(tmp_path):
    model = small_model(LassoLars(0.01, positive=True))  # the class says: positive = False, for a relative of it
    (tmp_path / "m").write_bytes(file_of(model))
    assert load_model(tmp_path / "m")[-1].positive


def test_stored_bags_are_checked_like_those_of_a_user(tmp_path):
    bags, y = sample()
    whole = file_of(EmbeddingRidge(KernelMean(map="exact")).fit(bags, y))

    def training(plan):
        (found,) = (one for one in nodes(plan) if one["__class__"] == "Bags")
        return found["content"]["content"]

    def beyond(plan, arrays):
        arrays[training(plan)[1]["file"]] = as_npy(bags.offsets * 10**6)

    def infinite(plan, arrays):
        arrays[training(plan)[0]["file"]] = as_npy(np.full(bags.instances.shape, np.inf))

    def fewer(plan, arrays):
        training(plan).pop()

    refused(resealed(whole, beyond), "damaged .*offsets", tmp_path)
    refused(resealed(whole, infinite), "damaged .*infinite", tmp_path)
    refused(resealed(whole, fewer), "damaged .*covariate_names", tmp_path)
    refused(with_head(more=node("ObjectNode", "bagwise.bags.container.Bags", content=state({}))), "it names", tmp_path)


def test_another_protocol_of_skops_is_refused(tmp_path):
    for protocol in (0, 1, 3, True, None):
        refused(resealed(small_file(), lambda plan, arrays, p=protocol: plan.update(protocol=p)), "protocol", tmp_path)
    refused(resealed(small_file(), lambda plan, arrays: [plan]), "its plan is not that of a model", tmp_path)

    def only_the_pool(plan, arrays):
        pool = {**steps_of(plan)[0], "protocol": 2}
        keep_used(pool, arrays)
        return pool

    refused(resealed(small_file(), only_the_pool), "predicts nothing", tmp_path)


def test_a_deep_plan_is_refused(tmp_path):
    deep = "[" * 100_000 + "]" * 100_000
    header, parts = unpack(io.BytesIO(small_file()))
    refused(pack(header, {**parts, "schema.json": deep.encode()}), "damaged .RecursionError", tmp_path)


# Bounded memory ------------------------------------------------------------------------------------------------


def claims(shape, dtype="<f8", held=b"12345678") -> bytes:
    """The bytes of an array that says it has this shape."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": dtype, "fortran_order": False, "shape": shape})
    return stream.getvalue() + held


@pytest.mark.parametrize(
    "array",
    [
        claims((10**12,)),
        claims((10**9, 10**9)),
        claims((-1,)),
        claims((10**12,), "<U0", b""),
        claims((1,), "<U100000000"),
        claims((0,)),
    ],
)
def test_arrays_cannot_claim_what_they_have_not(array, tmp_path):
    data = resealed(small_file(), lambda plan, arrays: arrays.update({"0.npy": array}))
    with bounded(8e6):
        refused(data, r"its array '0.npy' claims -?\d+ bytes .*, but has \d+", tmp_path)


def test_a_table_of_objects_cannot_spread_a_shared_array(tmp_path):
    shared = any_node("NdArrayNode", "numpy.ndarray")
    rows = [node("ListNode", "builtins.list", content=[shared] * 1000) for _ in range(10)]
    shape = node("TupleNode", "builtins.tuple", content=[plain(10), plain(1000)])
    table = node("NdArrayNode", "numpy.ndarray", type="json", content=rows, shape=shape)

    def change(plan, arrays):
        arrays["0.npy"] = as_npy(np.zeros(10_000))
        put_into_head(plan, {"more": table})

    refused(resealed(small_file(), change), "a table of objects holds more than plain values and trees", tmp_path)


def test_a_compressed_bomb_is_refused_unread(tmp_path):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", b" " * 50_000_000)
    with bounded(1e6):
        refused(stream.getvalue(), "is compressed and claims 50000000 bytes", tmp_path)


def test_parts_cannot_claim_more_than_the_file(tmp_path):
    data = bytearray(small_file())
    at = data.index(b"PK\x01\x02")  # first entry of the table of contents: both of its sizes
    data[at + 20 : at + 28] = 2 * (2**31 - 10).to_bytes(4, "little")
    with bounded(1e6):
        refused(bytes(data), "its parts claim 2147.* bytes, but the file has", tmp_path)


def test_two_parts_of_one_name_are_refused(tmp_path):
    stream = io.BytesIO(small_file())
    with zipfile.ZipFile(stream, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("schema.json", "{}")
    refused(stream.getvalue(), "two parts of one name", tmp_path)


@pytest.mark.parametrize(("name", "data"), [("{}", b""), ("{}.npy", b""), ("{}.npy", as_npy(np.zeros(0)))])
def test_parts_that_nothing_points_to_are_refused_unseen(name, data, tmp_path, monkeypatch):
    """Thousands of them took their time, one by one, and some kinds were not refused at all."""
    monkeypatch.setattr("bagwise.model_files.plan_nodes.check_array", lambda *_: pytest.fail("a part was looked into"))
    many = {name.format(f"idle{k}"): data for k in range(1000)}
    words = r"its plan has no use for 1,000 of its parts \(see 'idle0(.npy)?'\); save the model again"
    refused(resealed(small_file(), lambda plan, arrays: arrays.update(many)), words, tmp_path)


def test_parts_that_the_header_does_not_list_are_refused_unread(tmp_path, monkeypatch):
    header, parts = unpack(io.BytesIO(small_file()))
    parts |= {f"more{k}": b"" for k in range(1000)}
    data, read = pack_parts({"header.json": json.dumps(header).encode(), **parts}), []
    one = zipfile.ZipFile.read
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda archive, name: read.append(name) or one(archive, name))
    refused(data, "its parts are not those its header lists", tmp_path)
    assert read == ["header.json"]


def test_a_random_generator_cannot_be_large_or_call(tmp_path):
    whole = file_of(small_model(HistGradientBoostingRegressor(max_iter=2, min_samples_leaf=2)))

    def state_of(plan):
        return head_of(plan)["_feature_subsample_rng"]["content"]

    def large(plan, arrays):
        state_of(plan)["seed_seq"]["content"]["pool_size"] = plain(10**10)

    def call(plan, arrays):
        state_of(plan)["bit_generator"]["content"]["bit_generator"] = plain("seed")

    refused(resealed(whole, large), "pool of unusual size", tmp_path)
    refused(resealed(whole, call), "damaged .*numpy.random.seed", tmp_path)


def test_single_numbers_and_tables_are_what_they_say(tmp_path):
    scalar = any_node("NdArrayNode", "numpy.float64")
    refused(with_head(more=scalar), "its array '0.npy' is no float64; save the model again", tmp_path)
    shape = node("TupleNode", "builtins.tuple", content=[plain(10**9)])
    table = node("NdArrayNode", "numpy.ndarray", type="json", content=[plain(1)], shape=shape)
    with bounded(8e6):
        refused(with_head(more=table), r"an array of objects has 1 and the shape \(1000000000,\)", tmp_path)
