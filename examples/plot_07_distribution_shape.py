"""
When the mean of a bag says nothing
===================================

A common shortcut averages the instances of a bag and hands one row per bag to an ordinary regressor. In the problem
``shape`` that row is useless: all bags are centred on zero, and the target is how *widely* the instances are spread
along one direction. What tells is the distribution, and the kernel mean keeps it.
"""

# %%
# ``aggregated`` is the shortcut. ``input-kme`` represents a bag by the mean of a kernel over its instances, in which
# the whole distribution is kept. Both choose their settings inside the training bags.

import matplotlib.pyplot as plt
import numpy as np

import bagwise as bw

bags, y = bw.datasets.make_problem("shape", 300, random_state=0)
train, test = slice(0, 200), slice(200, 300)
models = {name: bw.method(name).fit(bags[train], y[train]) for name in ("aggregated", "input-kme")}

# %%
# Two bags, seen in the two features that the spread shows in most. Their means are the same.

figure, axis = plt.subplots(figsize=(6, 4.2), layout="constrained")
large = np.flatnonzero(bags.sizes > 40)
for label, bag, colour in (("high", large[y[large].argmax()], "#e09f3e"), ("low", large[y[large].argmin()], "#9e2a2b")):
    axis.scatter(*bags[bag][:, [2, 6]].T, s=28, color=colour, alpha=0.8, label=f"{label} target", linewidths=0)
axis.set(title="Two bags, the same mean", xlabel="feature 2", ylabel="feature 6")
axis.legend(frameon=False)
axis.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Predictions of new bags.

figure, axes = plt.subplots(1, 2, figsize=(7.6, 4), layout="constrained")
for axis, (name, model) in zip(axes, models.items(), strict=True):
    bw.plots.predicted_against_true(axis, y[test], model.predict(bags[test]))
    axis.set(title=f"{name}: R² {model.score(bags[test], y[test]):.2f}", ylim=(-1.8, 1.8))
plt.show()
