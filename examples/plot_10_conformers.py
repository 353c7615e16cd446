"""
Molecules with many shapes
==========================

A molecule folds into many shapes, its conformers. Whether it binds to a protein depends on the one that fits best, and
no measurement tells which one that is. A molecule is a bag, a conformer an instance, and the binding strength the
target.
"""

# %%
# The conformers are simulated: three distances between binding groups. A molecule binds the better the nearer its best
# conformer comes to the distances of the pocket; the other conformers do not matter. ``examples/conformers.py`` makes
# real conformers with RDKit.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import cross_val_predict

import bagwise as bw

POCKET = np.array([5.0, 6.5, 4.0])  # Ångström


def molecules(n, rng):
    centre = rng.normal(POCKET, 0.8, size=(n, 1, 3))
    shapes = centre + rng.normal(0, 0.7, size=(n, 12, 3))
    gap = np.linalg.norm(shapes - POCKET, axis=2)
    bags = bw.from_arrays(list(shapes), feature_names=["acceptor-donor", "donor-ring", "ring-acceptor"])
    return bags, 9 - 2 * gap.min(axis=1) + rng.normal(0, 0.15, n), gap


bags, y, gap = molecules(250, np.random.default_rng(0))
print(bags)

# %%
# ``aggregated`` takes the mean shape. ``statistics`` also reads the spread and the extremes of every distance, and
# ``input-kme`` the distribution of shapes.

names = ["aggregated", "statistics", "input-kme"]
held_out = {name: cross_val_predict(bw.method(name), bags, y, cv=bw.BagKFold(5)) for name in names}
errors = {name: np.sqrt(np.mean((one - y) ** 2)) for name, one in held_out.items()}
for name, error in errors.items():
    print(f"{name}: RMSE {error:.2f} (standard deviation {y.std():.2f})")

# %%
# Binding strength of held-out molecules, by the mean shape and by all shapes.

best = min(errors, key=errors.get)
figure, axes = plt.subplots(1, 2, figsize=(7.2, 4), sharey=True, layout="constrained")
for axis, name in zip(axes, ("aggregated", best), strict=True):
    axis.scatter(y, held_out[name], s=16, color="#2a6f97", alpha=0.7, linewidths=0)
    axis.plot([y.min(), y.max()], [y.min(), y.max()], color="#c8553d", linewidth=1)
    axis.set(xlabel="binding strength", title=f"{name}: error {errors[name]:.2f}")
    axis.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("predicted without the molecule")
plt.show()
