"""All methods in an environment without torch: the same numbers, and a clear refusal of a GPU."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import bagwise as bw
from bagwise.auto.members import plan
from bagwise.execution import resources
from bagwise.regressors import AdditiveRegressor, AttentionRegressor
from bagwise.testing.contract_checks import sample

ROOT = Path(__file__).parents[2]
QUICK = {
    "attention": {"epochs": 4, "restarts": 2, "read": (6,)},
    "additive": {"epochs": 4, "folds": 2, "hidden": (6,)},
    "instance-kme-attention": {
        "attention__epochs": 3, "attention__restarts": 1, "instances__folds": 3, "instances__regressor__epochs": (2, 4)
    },
}  # fmt: skip
CASES = {f"{name}:{preset}": QUICK[name] for name in QUICK for preset in bw.method_card(name).preset_names}
WITHOUT = """
import sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "triton", "safetensors"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NoTorch())
import numpy as np
import bagwise as bw
from tests.methods.test_without_torch import CASES, predictions
np.savez(sys.argv[1], **predictions())
print(bw.load_model(sys.argv[2]))
"""


def predictions() -> dict:
    (bags, y), (new, _) = sample(30), sample(9, random_state=1)
    return {name: bw.method(name).set_params(**options).fit(bags, y).predict(new) for name, options in CASES.items()}


def test_methods_of_networks_give_the_same_numbers_with_and_without_torch(tmp_path):
    bw.save_model(bw.method("attention").set_params(**QUICK["attention"]).fit(*sample(30)), tmp_path / "model.bagwise")
    files = str(tmp_path / "without.npz"), str(tmp_path / "model.bagwise")
    done = subprocess.run([sys.executable, "-c", WITHOUT, *files], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0 and "Attention" in done.stdout, done.stderr
    without, ordinary = np.load(files[0]), predictions()
    assert set(without.files) == set(ordinary) and len(CASES) > 7
    for name, expected in ordinary.items():
        # The process that compiles the kernels runs other copies of their functions, which round differently (3e-9).
        np.testing.assert_allclose(without[name], expected, rtol=1e-6, err_msg=name)


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
    with pytest.raises(
        ImportError, match=r"device='cuda' needs torch, .* 'bagwise\[torch\]'.* on the CPU without torch"
    ):
        model.fit(*sample(30))
    assert resources.choose_device("auto", is_large=True) == "cpu"


def test_a_missing_gpu_is_refused_where_another_learner_could_be_left_out(monkeypatch):
    """The blend of `instance-kme` left out its network, with a warning."""
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    monkeypatch.setattr(resources, "gpu", lambda: False)
    with pytest.raises(ValueError, match="device='cuda' needs a GPU"):
        METHOD.fit(*sample(30))
