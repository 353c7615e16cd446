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
# On the left two bags, seen in the two features that the spread shows in most; then predictions of new bags.

figure, axes = plt.subplots(1, 3, figsize=(11, 3.9), layout="constrained")
large = np.flatnonzero(bags.sizes > 40)
for label, bag, colour in (("high", large[y[large].argmax()], "#e09f3e"), ("low", large[y[large].argmin()], "#9e2a2b")):
    axes[0].scatter(*bags[bag][:, [2, 6]].T, s=20, color=colour, alpha=0.8, label=f"{label} target", linewidths=0)
axes[0].set(title="Two bags, the same mean", xlabel="feature 2", ylabel="feature 6")
axes[0].legend(frameon=False)
for axis, (name, model) in zip(axes[1:], models.items(), strict=True):
    bw.plots.predicted_against_true(axis, y[test], model.predict(bags[test]))
    axis.set(title=f"{name}: R² {model.score(bags[test], y[test]):.2f}", ylim=(-1.8, 1.8))
axes[0].spines[["top", "right"]].set_visible(False)
plt.show()
