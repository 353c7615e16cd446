"""
Intervals that widen for small bags
===================================

A bag of three instances says less about its target than a bag of three hundred, and an honest interval shows it.
``bw.Intervals`` puts one around the predictions of any method: models that never saw a bag say how wrong the method is
on new ones, and a scale learned from the size and the spread of bags says for which ones.
"""

# %%
# Every instance is a noisy view of its bag's target, and the sizes range from 3 to 300.

import matplotlib.pyplot as plt
import numpy as np

import bagwise as bw


def noisy_views(n_bags, seed):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=n_bags)
    sizes = np.round(3 * 100 ** rng.uniform(size=n_bags)).astype(int)
    views = [target + 1.5 * rng.normal(size=(size, 1)) for target, size in zip(y, sizes, strict=True)]
    return bw.from_arrays(views), y


train, y_train = noisy_views(400, seed=0)
new, y_new = noisy_views(1000, seed=1)
model = bw.Intervals("aggregated", level=0.9).fit(train, y_train)
low, high = model.predict_interval(new).T

# %%
# Ninety percent were promised. Small bags and large bags should both get them.

covered = (low <= y_new) & (y_new <= high)
small = new.sizes < 10
print(f"covered: {covered.mean():.1%}")
print(f"fewer than 10 instances: {covered[small].mean():.1%}, mean width {(high - low)[small].mean():.2f}")
print(f"10 or more: {covered[~small].mean():.1%}, mean width {(high - low)[~small].mean():.2f}")

# %%
# Each line is the interval of one new bag, moved so that its prediction is at zero.

shown = np.arange(0, 1000, 4)
predicted = model.predict(new)
figure, axis = plt.subplots(figsize=(6.8, 4.4), layout="constrained")
axis.vlines(new.sizes[shown], (low - predicted)[shown], (high - predicted)[shown], color="#2a6f97", alpha=0.3)
for inside, colour, label in ((True, "#30343b", "target inside"), (False, "#c8553d", "target outside")):
    at = shown[covered[shown] == inside]
    axis.scatter(new.sizes[at], (y_new - predicted)[at], s=12, color=colour, label=label, linewidths=0, zorder=2)
axis.set(xscale="log", xlabel="instances in the bag", ylabel="distance from the prediction")
axis.legend(frameon=False)
axis.spines[["top", "right"]].set_visible(False)
plt.show()
