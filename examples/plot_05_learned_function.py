"""
The function h: how a bag reads its instances
=============================================

``instance-kme`` predicts a number from every instance, then embeds the distribution of a bag's numbers with a kernel
and fits ridge regression. A ridge on a kernel mean has a simple form: the prediction of a bag is the *mean over its
instances of one function h* of the instance prediction. That function can be drawn.
"""

# %%
# Cloudy pixels hide the aerosol, and their predictions fall back towards the average target. We keep them all, so that
# the second stage has something to correct.

import matplotlib.pyplot as plt
import numpy as np

import bagwise as bw
from bagwise.instances import RandomFeatureRidge

bags, y = bw.datasets.make_aerosol(300, instances=40, cloud_fraction=0.55, random_state=0)
model = bw.method("instance-kme:single").set_params(instances__regressor=RandomFeatureRidge(random_state=0))
model.fit(bags, y)

# %%
# ``model[:1]`` is the first stage, a prediction for every pixel; ``model[-1]`` is the second stage. A bag of a single
# value t has the prediction h(t), and that is how the curve is drawn, over a histogram of the pixels' predictions.
#
# Where h is the identity, a pixel counts for what it says; where h is flat, its value does not matter. Here h is
# steeper than the identity: single pixels are cautious, clouds pull them towards the average, and h pulls them back.

figure, axis = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
bw.plots.learned_function(axis, model[-1], model[:1].transform(bags))
plt.show()

# %%
# Without the second stage the hazy scenes would be predicted too clean. On new scenes:

new, y_new = bw.datasets.make_aerosol(300, instances=40, cloud_fraction=0.55, random_state=1)
plain = [part.mean() for part in model[:1].transform(new)]
hazy = y_new > np.quantile(y_new, 0.8)
print(f"the haziest fifth, mean error of the plain mean: {np.mean((plain - y_new)[hazy]):+.3f}")
print(f"the haziest fifth, mean error of instance-kme:   {np.mean((model.predict(new) - y_new)[hazy]):+.3f}")
