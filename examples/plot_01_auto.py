"""
Let auto choose
===============

Which method is best depends on how the target arises, and nobody knows that beforehand. ``auto`` fits a small, diverse
set of methods on folds of bags, blends them or takes the best alone, and says how good that is on bags it has not seen.
"""

# %%
# Scenes of simulated pixels, some of them cloudy. ``members="quick"`` leaves the networks out, so that this page is
# built quickly.

import matplotlib.pyplot as plt
import numpy as np

import bagwise as bw

bags, y = bw.datasets.make_aerosol(120, instances=30, ragged=True, random_state=0)
model = bw.method("auto", members="quick", random_state=0, progress=False).fit(bags, y)
print(model.summary())

# %%
# Every member's error is that of bags it had not seen. The mean of the targets is a member too: it shows what the
# error is worth.

rows = sorted((row for row in model.trials_ if np.isfinite(row["error"])), key=lambda row: -row["error"])
names, errors = [row["member"] for row in rows], [row["error"] for row in rows]
colours = ["#2a6f97" if row["weight"] else "#a9b4c2" for row in rows]

figure, axis = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
axis.barh(names, errors, color=colours)
for row, error in zip(rows, errors, strict=True):
    if row["weight"]:
        axis.annotate(
            f"weight {row['weight']:.0%}", (error, row["member"]), (4, 0), textcoords="offset points", va="center"
        )
axis.axvline(model.scores_["error"], color="#c8553d")
axis.annotate(
    "auto",
    (model.scores_["error"], 0),
    (6, 0),
    textcoords="offset points",
    color="#c8553d",
    va="center",
    bbox={"color": "white", "alpha": 0.8, "pad": 1},
)
axis.set(xlabel="error on held-out bags (RMSE)", xlim=(0, 1.18 * max(errors)))
axis.spines[["top", "right"]].set_visible(False)
plt.show()
