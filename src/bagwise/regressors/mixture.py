"""The third weighting: responsibilities in a mixture over the instances of a bag."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, clone

from bagwise.bags.segments import segment_max, segment_sum
from bagwise.regressors.gate import Gate
from bagwise.regressors.task import Task
from bagwise.regressors.weightings import Step


class Mixture(BaseEstimator):
    r"""A latent primary instance per bag: p(y_i) = Σ_l π_il N(y_i; f(x_il), s²), fitted by EM.

    E: γ_il = π_il N(y_i; f(x_il), s²) / Σ_m π_im N(y_i; f(x_im), s²).
    M: f by least squares weighted with γ, s² ← Σ_il γ_il (y_i - f(x_il))² / B, the gate by soft cross entropy with γ.
    The objective is minus the mean log likelihood, plus the penalty of the gate. s² → 0 is prime-MIR from its first
    start; s² → ∞ is instance-MIR with weights 1/L_i. The source is known to us by its abstract: the gate, the start
    (instance-MIR) and the floor are our choices.

    Parameters
    ----------
    mixing : {"uniform", "gated"}
        π_il = 1/L_i, or the softmax over the bag of a learned score of the instance.
    gate : Gate, default Gate(8)
        For gated mixing.
    variance : float, optional
        s² in units of the variance of y, held fixed; estimated by default.
    floor : float
        The least s², in the same units. The likelihood of a fit that meets one instance of every bag exactly is
        unbounded without it.
    """

    soft = True

    def __init__(
        self, mixing: str = "uniform", *, gate: Gate | None = None, variance: float | None = None, floor: float = 1e-6
    ):
        self.mixing = mixing
        self.gate = gate
        self.variance = variance
        self.floor = floor

    def starts(self, task: Task, random: np.random.Generator):
        if self.mixing not in ("uniform", "gated"):
            raise ValueError(f"mixing must be 'uniform' or 'gated', not {self.mixing!r}")
        yield task.equal_weights()

    def step(self, task: Task, predictions, weights, last) -> Step:
        bags, errors = task.bags, task.errors(predictions)
        variance = self.variance or max(self.floor, float(bags.expand(task.share) @ (weights * errors)))
        gate = self._fit_gate(task, weights, last)
        chances = task.equal_weights() if gate is None else gate.chances(bags)
        with np.errstate(divide="ignore"):  # a chance of exactly zero
            joint = np.log(chances) - 0.5 * (errors / variance + np.log(2.0 * np.pi * variance))
        top = segment_max(joint, bags.offsets)
        likelihood = np.exp(joint - bags.expand(top))
        total = segment_sum(likelihood, bags.offsets)
        objective = -task.share @ (top + np.log(total)) + (0.0 if gate is None else gate.penalised_)
        return Step(float(objective), likelihood / bags.expand(total), variance=variance, gate=gate)

    def _fit_gate(self, task: Task, weights, last) -> Gate | None:
        if self.mixing == "uniform":
            return None
        gate = clone(self.gate) if self.gate is not None else Gate(8)
        if last is None:
            return gate.begin(task.bags)  # equal weights teach it nothing, and would shrink a network to nothing
        return gate.fit(task.bags, weights, share=task.share, start=last.gate)
