"""All methods in an environment without torch: the same numbers, and a clear refusal of a GPU."""

import subprocess
import sys

import numpy as np
import pytest

import bagwise as bw
from bagwise.auto.members import plan
from bagwise.execution import resources
from bagwise.regressors import AdditiveRegressor, AttentionRegressor
from bagwise.testing.contract_checks import sample

BLOCK = """
import sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "triton", "safetensors"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NoTorch())
"""
FIT = """
import numpy as np
import bagwise as bw
from bagwise.testing.contract_checks import sample

(bags, y), (new, _) = sample(30), sample(9, random_state=1)
results = {}
for name, preset, options in CASES:
    model = bw.method(name, preset=preset, random_state=0).set_params(**options).fit(bags, y)
    results[f"{name}:{preset}"] = model.predict(new)
    if name == "attention":
        bw.save_model(model, FOLDER + "/" + preset + ".bagwise")
np.savez(FOLDER + "/FILE", **results)
"""
QUICK = {
    "attention": {"epochs": 4, "restarts": 2, "read": (6,)},
    "additive": {"epochs": 4, "folds": 2, "hidden": (6,)},
    "instance-kme-attention": {
        "attention__epochs": 3, "attention__restarts": 1, "instances__folds": 3, "instances__regressor__epochs": (2, 4)
    },
}  # fmt: skip
CASES = [(name, preset, QUICK[name]) for name in QUICK for preset in bw.method_card(name).preset_names]


def test_methods_of_networks_give_the_same_numbers_with_and_without_torch(tmp_path):
    for file, block in (("without", BLOCK), ("with", "")):
        names = f"CASES, FOLDER = {CASES!r}, {str(tmp_path)!r}\n"
        done = subprocess.run(
            [sys.executable, "-c", block + names + FIT.replace("FILE", file)], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    without, ordinary = (np.load(tmp_path / f"{file}.npz") for file in ("without", "with"))
    assert len(without.files) == len(CASES) > 7
    for name in without.files:
        np.testing.assert_array_equal(without[name], ordinary[name])
    code = f"import bagwise as bw; print(bw.load_model({str(tmp_path / 'default.bagwise')!r}))"
    opened = subprocess.run([sys.executable, "-c", BLOCK + code], capture_output=True, text=True)
    assert opened.returncode == 0 and "Attention" in opened.stdout, opened.stderr


def test_auto_has_the_same_members(monkeypatch):
    bags, _ = sample(40)
    members = {preset: [member.name for member in plan(bags, preset)] for preset in ("auto", "best")}
    assert "attention" in members["auto"] and {"attention", "attention:moments"} <= set(members["best"])
    monkeypatch.setitem(sys.modules, "torch", None)
    assert members == {preset: [member.name for member in plan(bags, preset)] for preset in members}


@pytest.fixture
def no_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    resources.gpu.cache_clear()
    yield
    resources.gpu.cache_clear()


METHOD = bw.method("instance-kme").set_params(instances__network__regressor__device="cuda")


@pytest.mark.parametrize(
    "model",
    [AttentionRegressor(device="cuda"), AdditiveRegressor(device="cuda"), METHOD],
    ids=["attention", "additive", "instance-kme"],
)  # fmt: skip
def test_a_gpu_without_torch_is_refused(model, no_torch):
    with pytest.raises(ImportError, match=r"device='cuda' needs torch, .* on the CPU without it.* 'bagwise\[torch\]'"):
        model.fit(*sample(30))
    assert resources.settled("auto", worth=True) == "cpu"
