"""
Why folds are made of bags
==========================

The instances of a bag resemble each other and share one target. If cross-validation deals *rows* to folds, a model can
recognise the bag of a held-out row from the rows it was trained on and repeat their target. It then seems to predict
even where there is nothing to predict.
"""

# %%
# The targets below are coin tosses: they have nothing to do with the features. An honest score is zero or less.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline

import bagwise as bw
from bagwise.bags import BagKFold
from bagwise.instances import EachInstance
from bagwise.regressors import PoolPredictions


def noise(seed, n_bags=60, size=10):
    rng = np.random.default_rng(seed)
    bags = bw.from_arrays([2 * rng.normal(size=5) + rng.normal(size=(size, 5)) for _ in range(n_bags)])
    return bags, rng.normal(size=n_bags)


# %%
# The same learner twice: nearest neighbours on rows, averaged over a bag. First with folds of rows, then with folds of
# bags. ``bags`` are the samples of scikit-learn's own functions, so the second form is the one that comes by itself.


def score_with_row_folds(bags, y):
    rows = KFold(5, shuffle=True, random_state=0)
    predicted = cross_val_predict(KNeighborsRegressor(), bags.instances, bags.expand(y), cv=rows)
    return r2_score(y, [part.mean() for part in np.split(predicted, bags.offsets[1:-1])])


def score_with_bag_folds(bags, y):
    model = make_pipeline(EachInstance(KNeighborsRegressor()), PoolPredictions("mean"))
    return r2_score(y, cross_val_predict(model, bags, y, cv=BagKFold(5)))


draws = [noise(seed) for seed in range(20)]
scores = {
    "folds of rows": [score_with_row_folds(*draw) for draw in draws],
    "folds of bags": [score_with_bag_folds(*draw) for draw in draws],
}
for name, values in scores.items():
    print(f"{name}: R² {np.mean(values):+.2f} on average")

# %%
# Twenty draws of noise. Folds of rows find skill in every one of them.

figure, axis = plt.subplots(figsize=(6.4, 3), layout="constrained")
jitter = np.linspace(-0.18, 0.18, len(draws))
for position, (values, colour) in enumerate(zip(scores.values(), ("#c8553d", "#2a6f97"), strict=True)):
    axis.scatter(values, position + jitter, s=22, color=colour, alpha=0.8, linewidths=0)
axis.axvline(0, color="#a9b4c2", linewidth=1)
axis.set_yticks(range(2), list(scores))
axis.set(xlabel="R² of targets that are pure noise", ylim=(1.5, -0.5))
axis.spines[["top", "right"]].set_visible(False)
plt.show()
