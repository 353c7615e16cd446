"""
Two tables: instances and bags
==============================

Measurements of instances are in one table, and what is known of a bag is in another: its target, its group, numbers of
its own. ``load`` joins the two by the name of the bag.
"""

# %%
# Plants of many plots, and a table of the plots. The yield of a plot rises with the mean height of its plants and with
# the rain that fell on it.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.model_selection import cross_val_predict

import bagwise as bw

rng = np.random.default_rng(0)
n = 150
height, rain, farm = rng.normal(80, 10, n), rng.normal(500, 80, n), rng.integers(0, 25, n)
names = [f"P{k:03d}" for k in range(n)]
plots = pd.DataFrame({"plot": names, "farm": farm, "rain": rain})
plots["yield"] = 2 + 0.05 * (height - 80) + 0.006 * (rain - 500) + rng.normal(0, 0.2, n)
plants = pd.DataFrame({"plot": np.repeat(names, 20)})
plants["height"] = np.repeat(height, 20) + rng.normal(0, 15, 20 * n)
plants["leaves"] = rng.poisson(plants["height"].clip(lower=1) / 8)
print(plants.head(3), plots.head(3), sep="\n\n")

# %%
# ``targets=`` is the second table. Plots of one farm stay together in every fold, and rain is a number of the bag.

roles = {"bag": "plot", "target": "yield", "groups": "farm"}
alone, y = bw.load(plants, targets=plots.drop(columns="rain"), **roles)
both, y = bw.load(plants, targets=plots, bag_features=["rain"], **roles)
print(both)

method = bw.method("aggregated")
held_out = {
    name: cross_val_predict(method, bags, y, cv=bw.BagKFold(5))
    for name, bags in (("plants alone", alone), ("plants and rain", both))
}

# %%
# With what is known of the plot, its yield is predicted better.

figure, axes = plt.subplots(1, 2, figsize=(7.2, 4), sharey=True, layout="constrained")
for axis, (name, predicted) in zip(axes, held_out.items(), strict=True):
    error = np.sqrt(np.mean((predicted - y) ** 2))
    print(f"{name}: RMSE {error:.2f}, standard deviation {y.std():.2f}")
    axis.scatter(y, predicted, s=16, color="#2a6f97", alpha=0.7, linewidths=0)
    axis.plot([y.min(), y.max()], [y.min(), y.max()], color="#c8553d", linewidth=1)
    axis.set(xlabel="yield of the plot", title=f"{name}: error {error:.2f}")
    axis.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("predicted without its farm")
plt.show()
