"""instance-kme against its baselines on simulated aerosol with a few extreme targets: 100 x RMSE on held-out bags.

python benchmarks/aerosol.py      three draws of 300 bags of 40 pixels, five folds each; about a minute
"""

from __future__ import annotations

import numpy as np

import bagwise as bw
from bagwise.bags import BagKFold

METHODS = ("instance-mean", "instance-median", "instance-kme")


def main() -> None:
    for ragged in (False, True):
        errors = {name: [] for name in METHODS}
        for draw in (1, 2, 3):
            bags, y = bw.datasets.make_aerosol(300, instances=40, ragged=ragged, random_state=draw)
            for train, test in BagKFold(5).split(bags):
                for name in METHODS:
                    held_out = bw.method(name, n_jobs=-1).fit(bags[train], y[train]).predict(bags[test])
                    errors[name].append(100 * np.sqrt(np.mean((held_out - y[test]) ** 2)))
        print(
            f"ragged={ragged}", {name: round(float(np.mean(values)), 2) for name, values in errors.items()}, flush=True
        )


if __name__ == "__main__":
    main()
