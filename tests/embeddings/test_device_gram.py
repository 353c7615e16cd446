"""The kernel mean in blocks on a device equals that of numpy; the device is torch's CPU."""

import numpy as np
import pytest

import bagwise as bw
from bagwise import kernels as k
from bagwise.embeddings import KernelMean, mean_gram

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from bagwise.embeddings import kernel_mean  # noqa: E402

KERNELS = [
    k.Gaussian(1.5), k.InverseMultiquadric(0.7), k.RationalQuadratic(2.0), k.Cauchy(1.0), k.Student(1.5),
    k.Exponential(1.2), k.Matern32(1.0), k.Matern52(2.0), k.Polynomial(1.0), k.Linear(),
]  # fmt: skip


def bags(seed, n=7, d=3, weighted=False):
    rng = np.random.default_rng(seed)
    made = bw.from_arrays([rng.normal(size=(rng.integers(1, 12), d)) + 5 for _ in range(n)])
    return made.with_weights(rng.uniform(0.1, 2, made.n_instances)) if weighted else made


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
@pytest.mark.parametrize("d", [1, 3])
def test_every_kernel_is_the_same_there(kernel, d, monkeypatch):
    monkeypatch.setattr(kernel_mean, "DEVICE_BLOCK", 8)  # bags are cut in two
    monkeypatch.setattr(kernel_mean, "settled", lambda device, worth: device.replace("cuda", "cpu:0"))
    monkeypatch.setattr(kernel_mean, "announce", lambda *_: None)
    left, right = bags(0, d=d, weighted=True), bags(1, n=4, d=d)
    for pair in ((left,), (left, right), (right, left), (right,)):
        double = mean_gram(kernel, *pair, device="cuda")
        np.testing.assert_allclose(double, mean_gram(kernel, *pair), rtol=1e-7)  # a kink makes much of a distance 1e-8
        single = mean_gram(kernel, *pair, device="cuda", precision="float32")
        np.testing.assert_allclose(single, double, rtol=2e-3 if isinstance(kernel, k.Exponential) else 1e-4)


def test_choices():
    with pytest.raises(ValueError, match="precision must be 'float64' or 'float32', not 'float16'"):
        mean_gram(k.Gaussian(), bags(0), precision="float16")
    with pytest.raises(ValueError, match="device must be 'cpu', 'cuda' .* not 'tpu'"):
        KernelMean(device="tpu").fit(bags(0))
    plain, auto = KernelMean().fit_transform(bags(0)), KernelMean(device="auto").fit_transform(bags(0))
    np.testing.assert_array_equal(plain, auto)  # so few pairs are not worth a GPU
