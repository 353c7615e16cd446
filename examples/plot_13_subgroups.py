"""
A subgroup from totals
======================

Of every district only the share of supporters is known, and who lives there. How many of the women above 45 are among
the supporters? That is ecological inference. A method whose prediction is a mean over people answers it with
``bw.predict_subset``: the same function, averaged over the part of the bag that satisfies a condition.
"""

# %%
# The districts are simulated, so the truth is known: ``chance`` is the probability that a person supports the motion.
# The model never sees it.

import warnings

import matplotlib.pyplot as plt
import numpy as np

import bagwise as bw

WHERE = "age > 45 and sex == 2"
warnings.filterwarnings("ignore", message=".* have no instance that satisfies")  # they are counted below


def truth(bags, ids):
    age, sex, _ = bags.instances.T
    women = (age > 45) & (sex == 2)
    return np.array([bags.kept["chance"][rows][women[rows]].mean() for rows in (bags.rows([i]) for i in ids)])


bags, y = bw.datasets.make_districts(300, random_state=0)
model = bw.method("blr").fit(bags, y)
part = bw.predict_subset(model, bags, WHERE)
known = truth(bags, part.ids)
print(part)
print(f"error of the district's total: {np.sqrt(np.mean((y[part.ids] - known) ** 2)):.3f}")
print(f"error of the prediction for the part: {np.sqrt(np.mean((part.prediction - known) ** 2)):.3f}")
print(f"within 1.645 standard deviations: {np.mean(np.abs(part.prediction - known) < 1.645 * part.std_of_mean):.0%}")

# %%
# What totals cannot show: where people are of another mind because of who their neighbours are, the subgroup is
# predicted wrongly, and no standard deviation tells.

other, y_other = bw.datasets.make_districts(300, context=0.5, random_state=0)
wrong = bw.predict_subset(bw.method("blr").fit(other, y_other), other, WHERE)
known_other = truth(other, wrong.ids)
print(f"error with a context: {np.sqrt(np.mean((wrong.prediction - known_other) ** 2)):.3f}")

# %%
# Predictions against the truth, with 90 percent intervals of the expected share.

figure, axes = plt.subplots(1, 2, figsize=(7.4, 4.2), sharey=True, layout="constrained")
for axis, found, true, title in (
    (axes[0], part, known, "people decide for themselves"),
    (axes[1], wrong, known_other, "neighbours matter"),
):
    axis.errorbar(true, found.prediction, yerr=1.645 * found.std_of_mean, fmt="o", ms=3, lw=0.6, color="#2a6f97")
    axis.plot([0.3, 1], [0.3, 1], color="#c8553d", linewidth=1)
    axis.set(xlabel="true share of supporters", title=title)
    axis.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("predicted share, women above 45")
plt.show()
