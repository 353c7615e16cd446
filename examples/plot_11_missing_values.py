"""
Missing values
==============

Sensors fail and clouds hide pixels. A gap can be left out with its instance, filled in, or left to a method that reads
gaps. Which is best depends on how many there are.
"""

# %%
# Ten percent of all values of simulated scenes are deleted: with sixteen features, four of five pixels then have a gap.

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.model_selection import cross_val_predict

import bagwise as bw

bags, y = bw.datasets.make_aerosol(150, instances=40, random_state=0)
whole = pd.DataFrame(bags.instances, columns=bags.feature_names)
gaps = whole.mask(np.random.default_rng(0).random(whole.shape) < 0.1)
print(f"{gaps.isna().any(axis=1).mean():.0%} of the pixels have a gap")


def error(frame, method, **options):
    """The RMSE on held-out scenes, and how many instances were used."""
    table = frame.assign(scene=bags.expand(bags.ids), aod=bags.expand(y))
    some, target = bw.load(table, bag="scene", target="aod", **options)
    held_out = cross_val_predict(method, some, target, cv=bw.BagKFold(5))
    return np.sqrt(np.mean((held_out - target) ** 2)), some.n_instances


# %%
# ``missing="drop-instances"`` leaves pixels with a gap out and says so. ``missing="impute"`` keeps them: every
# method then fills a gap with the median of its bag, and learns from one more column how much was missing.

warnings.filterwarnings("ignore", message=".*were dropped")
found = {
    "no gaps": error(whole, bw.method("aggregated")),
    "filled in": error(gaps, bw.method("aggregated"), missing="impute"),
    "left out": error(gaps, bw.method("aggregated"), missing="drop-instances"),
}
for name, (rmse, used) in found.items():
    print(f"{name}: RMSE {rmse:.4f} from {used:,} pixels")

# %%
# Leaving out loses four of five pixels. Filling in keeps them, and costs less accuracy here.

figure, axis = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
bars = axis.barh(list(found), [rmse for rmse, _ in found.values()], color=["#a9b4c2", "#2a6f97", "#c8553d"])
axis.bar_label(bars, [f"{used:,} pixels" for _, used in found.values()], padding=4)
axis.set(xlabel="error on held-out scenes (RMSE)", xlim=(0, 1.35 * max(rmse for rmse, _ in found.values())))
axis.invert_yaxis()
axis.spines[["top", "right"]].set_visible(False)
plt.show()
