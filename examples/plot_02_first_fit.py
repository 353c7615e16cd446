"""
A first fit: aerosol from satellite pixels
==========================================

A ground station measures one number, the aerosol optical depth (AOD). A satellite sees it through many pixels, some of
them cloudy. The pixels around a station at one time are a bag, the pixels are its instances, and the reading of the
station is the target. We learn to predict it from the pixels, and score on bags that were left out.
"""

# %%
# ``Bags`` holds the pixels of all scenes in one array and knows where each scene begins. Your own table becomes one by
# ``bw.load("pixels.csv", bag="site", target="aod")``; here a simulation stands in for it.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import cross_val_predict

import bagwise as bw
from bagwise.bags import BagKFold
from bagwise.instances import RandomFeatureRidge

bags, y = bw.datasets.make_aerosol(150, instances=40, ragged=True, random_state=0)
print(bags)

# %%
# Every method of the catalogue is a scikit-learn estimator. ``aggregated`` replaces a scene by its mean pixel.
# ``instance-kme`` first predicts from single pixels and then learns how to read the distribution of a scene's
# predictions; its instance learner is exchanged for a quicker one.

methods = {
    "aggregated": bw.method("aggregated"),
    "instance-kme": bw.method("instance-kme:single").set_params(
        instances__regressor=RandomFeatureRidge(random_state=0)
    ),
}
held_out = {name: cross_val_predict(model, bags, y, cv=BagKFold(5)) for name, model in methods.items()}

# %%
# Each point is a scene that the model had not seen; on the line a prediction is right. Hazy scenes are hard for a mean
# of pixels: a few clouds move it.

figure, axes = plt.subplots(1, 2, figsize=(7.6, 4), sharex=True, sharey=True, layout="constrained")
for axis, (name, predicted) in zip(axes, held_out.items(), strict=True):
    bw.plots.predicted_against_true(axis, y, predicted)
    axis.set_title(f"{name}: RMSE {np.sqrt(np.mean((predicted - y) ** 2)):.3f}")
plt.show()
