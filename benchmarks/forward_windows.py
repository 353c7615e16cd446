"""Bags of the first window of forward folds inside instance-kme: predicted by the second window, or left out.

Prints the RMSE on later bags, mean and standard error of six draws of four simulations.
"""

import numpy as np

import bagwise as bw
from bagwise.embeddings import KernelMean
from bagwise.instances import OutOfFold
from bagwise.instances.random_feature_ridge import RandomFeatureRidge

TRAIN, DRAWS = 270, 6


def main() -> None:
    print("| trend | drift | second window | left out |\n|--:|--:|--:|--:|")
    for trend, drift in ((0, 0), (1, 0), (0, 1.5), (1, 1.5)):
        errors: dict[str, list] = {"second window": [], "left out": []}
        for seed in range(DRAWS):
            bags, y = bw.datasets.make_drift(360, trend=trend, drift=drift, random_state=seed)
            stage = OutOfFold(RandomFeatureRidge(random_state=0), folds="forward")
            column = stage.fit_transform(bags[:TRAIN], y[:TRAIN])
            for name, used in (("second window", np.arange(TRAIN)), ("left out", np.flatnonzero(stage.fold_ >= 0))):
                head = bw.EmbeddingRidge(KernelMean()).fit(column[used], y[used])
                error = head.predict(stage.transform(bags[TRAIN:])) - y[TRAIN:]
                errors[name].append(np.sqrt(np.mean(error**2)))
        cells = [f"{np.mean(v):.4f} ± {np.std(v, ddof=1) / np.sqrt(DRAWS):.4f}" for v in errors.values()]
        print(f"| {trend} | {drift} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
