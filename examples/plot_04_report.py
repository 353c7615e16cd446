"""
A report to send
================

``write_model_report`` writes what a model is worth as one HTML file: a verdict, the data, the bags with the largest
errors, and which instances mattered in them. It needs no network and no folder beside it.
"""

# %%
# The pixels of a scene are a bag. Their longitude and latitude are kept: they are no features, but the report draws
# maps with them.

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.model_selection import cross_val_predict

import bagwise as bw

# sphinx_gallery_thumbnail_path = 'pictures/report-thumbnail.png'

bags, y = bw.datasets.make_aerosol(120, instances=30, ragged=True, random_state=0)
rng = np.random.default_rng(0)
place = bags.expand(rng.uniform([5, 45], [15, 55], size=(len(bags), 2))) + rng.normal(0, 0.05, (bags.n_instances, 2))
frame = pd.DataFrame(bags.instances, columns=bags.feature_names)
frame = frame.assign(scene=bags.expand(bags.ids), aod=bags.expand(y), lon=place[:, 0], lat=place[:, 1])

bags, y = bw.load(frame, bag="scene", target="aod", keep=["lon", "lat"])
print(bags)

# %%
# The report judges predictions of bags that the model had not seen. ``auto`` keeps such predictions itself; for any
# other method they are given.

method = bw.method("aggregated")
held_out = cross_val_predict(method, bags, y, cv=bw.BagKFold(5))
path = Path(tempfile.mkdtemp()) / "model.html"
model = method.fit(bags, y)
bw.reports.write_model_report(path, model, bags, y, held_out=held_out, name="aerosol", method="aggregated")
print(f"{path.name}: {path.stat().st_size / 1e3:.0f} kB")

# %%
# The first screen of such a report, here of a model by ``auto``. :doc:`/report` shows the other sections.
#
# .. image:: /pictures/report-model.png
#    :alt: The first screen of a report: a verdict, the error beside that of the mean, coverage of intervals
