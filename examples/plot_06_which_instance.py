"""
Which instance mattered
=======================

In the problem ``prime`` one instance of every bag makes the target: the one that is largest in feature 0. The others
are noise, and nobody tells the method which is which. ``em`` learns it: a mixture in which every instance may be the
primary one, with a gate that guesses from its features how likely that is. Its function of the instance is linear here.
"""

# %%
# Train on 200 bags, and ask about 100 new ones.

import matplotlib.pyplot as plt
import numpy as np

import bagwise as bw

bags, y = bw.datasets.make_problem("prime", 300, random_state=0)
train, test = slice(0, 200), slice(200, 300)
model = bw.method("em", preset="gated-linear").fit(bags[train], y[train])
print(f"R² on new bags: {model.score(bags[test], y[test]):.2f}")

# %%
# ``bw.explain`` gives numbers per instance, for any method: contributions where a prediction is a sum over instances,
# weights where a method has them, and otherwise what the prediction would be without the instance.

explanation = bw.explain(model, bags[test])
print(explanation)
weights = np.split(explanation.weights, bags[test].offsets[1:-1])
keys = [instances[:, 0].argmax() for instances in bags[test]]
found = np.mean([weight.argmax() == key for weight, key in zip(weights, keys, strict=True)])
print(f"the heaviest instance is the one that made the target in {found:.0%} of the bags")

# %%
# Twelve new bags, one per line. The area of a dot is the weight of an instance; the ring is around the instance that
# truly made the target.

figure, axis = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
for line, (instances, weight, key) in enumerate(zip(bags[200:212], weights, keys, strict=False)):
    height = np.full(len(weight), line)
    axis.scatter(instances[:, 0], height, s=8 + 260 * weight, color="#2a6f97", alpha=0.55, linewidths=0)
    axis.scatter(instances[key, 0], line, s=190, facecolors="none", edgecolors="#c8553d", linewidths=1.5)
axis.set(xlabel="feature 0 of the instance", ylabel="bag", yticks=range(12), yticklabels=bags.ids[200:212])
axis.spines[["top", "right"]].set_visible(False)
plt.show()
