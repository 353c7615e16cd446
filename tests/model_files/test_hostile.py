"""Files by an attacker who knows the format and makes every checksum again: nothing of theirs runs or is believed."""

import io
import json
import os
import pickle
import sys
import tracemalloc
import zipfile
from contextlib import contextmanager

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LassoCV, LassoLars
from sklearn.tree import DecisionTreeRegressor
from tests.helpers.saved_files import (
    as_npy,
    file_of,
    find,
    head_of,
    node,
    put_into_head,
    refused,
    resealed,
    small_file,
    small_model,
    state,
    steps_of,
)

from bagwise.embeddings import KernelMean
from bagwise.model_files import load_model, names
from bagwise.model_files.archive import pack, read_array, unpack
from bagwise.model_files.names import is_allowed
from bagwise.regressors import EmbeddingRidge
from bagwise.testing.contract_checks import sample

KINDS = [*names.ALLOWED, "ObjectNode", "FunctionNode", "MethodNode", "PartialNode", "OperatorFuncNode", "BytesNode"]


@contextmanager
def bounded(most: float):
    """Check that no more than so many bytes are allocated inside."""
    tracemalloc.start()
    try:
        yield
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < most


class Bomb:
    """Unpickling it makes the file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def with_head(**state) -> bytes:
    """The small model with more attributes on its last step."""
    return resealed(small_file(), lambda plan, arrays: put_into_head(plan, state))


def test_resealing_alone_changes_nothing(tmp_path):
    (tmp_path / "m").write_bytes(resealed(small_file(), lambda plan, arrays: None))
    bags, _ = sample()
    np.testing.assert_array_equal(load_model(tmp_path / "m").predict(bags), small_model().predict(bags))


def any_node(kind: str, name: str) -> dict:
    """A node of any kind that would do something with what it names, if it were believed."""
    words = node("TupleNode", "builtins.tuple", content=["touch ran"])
    content = dict.fromkeys(("ListNode", "SetNode", "TupleNode"), {"content": ["touch ran"]})
    content |= {"DictNode": {"content": {}}, "PairsNode": {"content": []}, "NdArrayNode": {"file": "0.npy"}}
    content |= {"ObjectNode": {"content": state({})}, "TreeNode": {"content": state({}), "arguments": words}}
    return node(kind, name, **content.get(kind, {"content": words}))


@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_of_node_may_name_a_function_or_module_of_others(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "canary.py").write_text("class Bird: pass\n")
    for name in ("os.system", "canary.Bird"):
        refused(with_head(more=any_node(kind, name)), f"it names {name}, which is no part of a bagwise", tmp_path)
    assert not (tmp_path / "ran").exists() and "canary" not in sys.modules


@pytest.mark.parametrize(
    ("loader", "name"),
    [
        ("MethodNode", "sklearn.linear_model._ridge.Ridge"),
        ("PartialNode", "functools.partial"),
        ("OperatorFuncNode", "operator.methodcaller"),
        ("OperatorFuncNode", "operator.attrgetter"),
        ("ConstructorNode", "bagwise.instances.networks.cpu.NetworkEnsemble"),
        ("ConstructorNode", "numpy.random.mtrand.RandomState"),
        ("ConstructorNode", "bagwise.bags.container.Bags"),
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
    words = "regressors.nowhere.Thing, .*; install the versions that saved it, which read_header returns"
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


def call(name: str, *arguments) -> dict:
    return node("ConstructorNode", name, content=node("TupleNode", "builtins.tuple", content=list(arguments)))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (call("numpy.ma.MaskedArray", 0, False, "V300000000"), "it names numpy.ma.MaskedArray"),
        (call("bagwise.MaskedArray", 0, False, "V300000000"), "damaged .*make_masked"),
        (node("ListNode", "builtins.list", content=[], extra=1), "unknown keys"),
        (node("ListNode", "builtins.list"), "damaged"),
        ({"__class__": "str"}, "is not a node"),
        ({"content": "str"}, "is not a node"),
        ([1, 2], "is not a node"),
        (node("ListNode", ".", content=[]), "it names"),
        (any_node("NdArrayNode", "numpy.ndarray") | {"file": "../../etc/passwd"}, "an array is missing"),
        (any_node("NdArrayNode", "numpy.float64"), "its array '0.npy' is no float64; save the model again"),
        (node("NdArrayNode", "numpy.ndarray", content=[1], shape=[10**9]), r"of objects has 1 and the shape \(10000"),
        (node("PairsNode", "builtins.dict", content=[[any_node("ListNode", "builtins.list"), 1]]), "no plain type"),
        (node("PairsNode", "builtins.dict", content=[[any_node("NdArrayNode", "numpy.ndarray"), 1]]), "damaged"),
    ],
)
def test_nodes_of_an_odd_form_are_refused(value, words, tmp_path):
    with bounded(8e6):
        refused(with_head(more=value), words, tmp_path)


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (DecisionTreeRegressor(max_depth=2), "_validate_X_predict"),  # which compares the width
        *((LassoCV(cv=3), name) for name in ("predict", "__sklearn_tags__", "_parameter_constraints", "path")),
    ],
)
def test_attributes_cannot_stand_for_what_the_class_defines(head, name, tmp_path):
    whole, other = file_of(small_model(head)), node("FunctionNode", "numpy.multiply")
    words = f"a {type(head).__name__} has a '{name}' of its own, which its class defines"
    refused(resealed(whole, lambda plan, arrays: put_into_head(plan, {name: other})), words, tmp_path)


def keep_used(plan, arrays):
    """Leave out the arrays that no node names: parts without a use are another refusal."""
    text = json.dumps(plan)
    for name in [name for name in arrays if f'"{name}"' not in text]:
        del arrays[name]


@pytest.mark.parametrize("other", [node("ListNode", "builtins.list", content=["fit", 1]), "transform"])
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
        return find(plan, "Bags")["content"]["content"]

    def beyond(plan, arrays):
        arrays[training(plan)[1]["file"]] = as_npy(bags.offsets * 10**6)

    def infinite(plan, arrays):
        arrays[training(plan)[0]["file"]] = as_npy(np.full(bags.instances.shape, np.inf))

    def fewer(plan, arrays):
        training(plan).pop()

    refused(resealed(whole, beyond), "damaged .*offsets", tmp_path)
    refused(resealed(whole, infinite), "damaged .*infinite", tmp_path)
    refused(resealed(whole, fewer), "damaged .*missing 1 required", tmp_path)
    refused(with_head(more=node("ObjectNode", "bagwise.bags.container.Bags", content=state({}))), "it names", tmp_path)


def test_a_plan_of_something_else_is_refused(tmp_path):
    refused(resealed(small_file(), lambda plan, arrays: [plan]), "its plan is not that of a model", tmp_path)

    def only_the_pool(plan, arrays):
        pool = steps_of(plan)[0]["content"][1]
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


LARGE = [claims((10**12,)), claims((10**9, 10**9)), claims((10**12,), "<U0", b""), claims((1,), "<U100000000")]


@pytest.mark.parametrize("array", [*LARGE, claims((-1,)), claims((0,))])
def test_arrays_cannot_claim_what_they_have_not(array, tmp_path):
    data = resealed(small_file(), lambda plan, arrays: arrays.update({"0.npy": array}))
    with bounded(8e6):
        refused(data, r"its array '0.npy' claims -?\d+ bytes .*, but has \d+", tmp_path)


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

    def read(name, data):
        assert "idle" not in name
        return read_array(name, data)

    monkeypatch.setattr("bagwise.model_files.plan_nodes.read_array", read)
    many = {name.format(f"idle{k}"): data for k in range(1000)}
    words = r"its plan has no use for 1,000 of its parts \(see 'idle0(.npy)?'\); save the model again"
    refused(resealed(small_file(), lambda plan, arrays: arrays.update(many)), words, tmp_path)


def test_a_random_generator_cannot_be_large_or_call(tmp_path):
    whole = file_of(small_model(HistGradientBoostingRegressor(max_iter=2, min_samples_leaf=2)))

    def with_generator(at, **change):
        def update(plan, arrays):
            head_of(plan)["_feature_subsample_rng"]["content"]["content"][at]["content"].update(change)

        return resealed(whole, update)

    refused(with_generator(1, pool_size=10**10), "unusual size", tmp_path)
    refused(with_generator(0, bit_generator="seed"), "damaged .*numpy.random.seed", tmp_path)
