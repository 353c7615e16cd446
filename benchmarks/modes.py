"""Counting modes: sliced Wasserstein kernels beside the columns printed by Meunier, Pontil, Ciliberto (2022).

How many components has the mixture behind a bag? T bags to train on, n instances each, at most C modes, r features; 100
bags to test. The printed figures have 50 validation bags for the grid, left out here: leave-one-bag-out on the T bags
needs none. The generator is ours, from the description of the paper, with components of equal weight, which the paper
does not state. A constant has RMSE √((C² - 1)/12).

    python benchmarks/modes.py            # all twelve settings, some minutes
    python benchmarks/modes.py --quick    # four of them
"""

from __future__ import annotations

import argparse

import numpy as np

import bagwise as bw
from bagwise.datasets import make_modes

# (T, n, C, r): printed test RMSE and its deviation over five runs, for SW2 and SW1.
PRINTED = {
    (100, 50, 2, 2): ("0.48 (.03)", "0.47 (.06)"),
    (100, 50, 10, 2): ("2.92 (.32)", "3.01 (.24)"),
    (100, 50, 2, 10): ("0.54 (.05)", "0.53 (.05)"),
    (100, 50, 10, 10): ("3.17 (.32)", "3.19 (.14)"),
    (500, 50, 2, 2): ("0.44 (.07)", "0.42 (.07)"),
    (500, 50, 10, 2): ("2.63 (.27)", "2.68 (.24)"),
    (500, 50, 2, 10): ("0.44 (.08)", "0.42 (.04)"),
    (500, 50, 10, 10): ("3.07 (.42)", "3.08 (.35)"),
    (500, 250, 2, 2): ("0.39 (.03)", "0.42 (.04)"),
    (500, 250, 10, 2): ("2.40 (.15)", "2.41 (.16)"),
    (500, 250, 2, 10): ("0.39 (.01)", "0.41 (.03)"),
    (500, 250, 10, 10): ("2.84 (.17)", "2.80 (.31)"),
}
OURS = {"SW2": ("sliced-wasserstein", None), "SW1": ("sliced-wasserstein", "sw1"), "kernel mean": ("input-kme", None)}
TEST, RUNS = 100, 5


def errors(name: str, preset: str | None, setting: tuple[int, int, int, int]) -> np.ndarray:
    """Test RMSE of every run; a run is a draw of the bags and a seed of the method."""
    T, n, C, r = setting
    found = []
    for run in range(RUNS):
        bags, y = make_modes(T + TEST, instances=n, max_modes=C, features=r, random_state=run)
        model = bw.method(name, preset=preset, random_state=run).fit(bags[:T], y[:T])
        found.append(np.sqrt(np.mean((model.predict(bags[T:]) - y[T:]) ** 2)))
    return np.array(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="only the four settings of 100 bags")
    settings = list(PRINTED)[:4] if parser.parse_args().quick else list(PRINTED)
    columns = ["printed SW2", "printed SW1", *OURS, "constant"]
    print(f"{'T, n, C, r':>18}" + "".join(f"{column:>14}" for column in columns))
    for setting in settings:
        ours = [errors(*which, setting) for which in OURS.values()]
        cells = [*PRINTED[setting], *(f"{e.mean():.2f} ({e.std():.2f})" for e in ours)]
        cells.append(f"{np.sqrt((setting[2] ** 2 - 1) / 12):.2f}")
        print(f"{', '.join(map(str, setting)):>18}" + "".join(f"{cell:>14}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
