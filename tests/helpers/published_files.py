"""Simulated files with the shapes and formats of the published data sets, with few bags."""

import numpy as np
import pandas as pd
from scipy.io import savemat

import bagwise as bw

CROP_COLUMNS = [f"t{t:02d}_{band}" for t in range(46) for band in ("red", "nir")]


def matrix(bags, y):
    """Return a row per instance: bag id (from 1, as in MATLAB), features, target."""
    return np.column_stack([bags.expand(bags.ids.astype(float) + 1), bags.instances, bags.expand(y)])


def write_aerosol(folder, name, *, n_bags=40, instances=100, ragged=False, features=16, seed=0):
    bags, y = bw.datasets.make_aerosol(n_bags, instances=instances, random_state=seed)
    if ragged:  # most bags keep their 100 pixels, as the notebook's filter needs
        rng = np.random.default_rng(seed)
        kept = np.where(rng.uniform(size=n_bags) < 0.3, rng.integers(20, instances, size=n_bags), instances)
        bags = bw.from_arrays([bag[:size] for bag, size in zip(bags, kept, strict=True)])
    savemat(folder / f"{name}.mat", {name: matrix(bags.replace(bags.instances[:, :features]), y)})
    return bags, y


def crop_frame(*, n_bags=30, instances=10, seed=0, invalid=0.0):
    """Return county-years of pixels with 46 dates of red and near infrared, some values invalid."""
    rng = np.random.default_rng(seed)
    yields = rng.normal(100.0, 20.0, n_bags)
    season = np.sin(np.linspace(0, np.pi, 92))
    pixels = 2000 + 10 * yields[:, None, None] * season + rng.normal(0, 200, (n_bags, instances, 92))
    pixels[rng.uniform(size=pixels.shape) < invalid] = -32767
    frame = pd.DataFrame(pixels.reshape(-1, 92), columns=CROP_COLUMNS)
    frame.insert(0, "county_year", np.repeat([f"c{i}_2003" for i in range(n_bags)], instances))
    frame["yield"] = np.repeat(yields, instances)
    return frame
