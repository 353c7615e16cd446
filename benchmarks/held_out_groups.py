"""The error that `auto` claims for new groups, and the error of a nested loop that fits all of it without each group.

    python benchmarks/held_out_groups.py

Six years are groups whose features are shifted: 150 bags of 30 instances and 4 features, shifts of deviation 4, and a
target that is the signal + 0.3 times the shift. A row per draw: the claimed and the nested RMSE of the blend, and those
of single members.
"""

from __future__ import annotations

import argparse

import numpy as np

import bagwise as bw
from bagwise.regressors.pipeline import tail_limits

MEMBERS = ("aggregated", "statistics:linear", "sliced-wasserstein", "input-kme")


def shifted_years(draw: int, bags: int = 150, years: int = 6):
    rng = np.random.default_rng(draw)
    year = np.arange(bags) % years
    shift, signal = 4 * rng.normal(size=(years, 4)), rng.normal(size=bags)
    arrays = [rng.normal(size=(30, 4)) + shift[t] + [s, 0, 0, 0] for t, s in zip(year, signal, strict=True)]
    return bw.from_arrays(arrays, groups=year.tolist()), signal + 0.3 * shift[year, 0]


def nested(make, bags, y) -> float:
    """Return the RMSE of bags predicted by models fitted without their group, within the limits that `auto` sets."""
    errors = []
    for year in np.unique(bags.groups):
        train = bags.groups != year
        predictions = make().fit(bags[train], y[train]).predict(bags[~train])
        errors.append(np.clip(predictions, *tail_limits(y[train])) - y[~train])
    return float(np.sqrt(np.mean(np.concatenate(errors) ** 2)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=6)
    draws = parser.parse_args().draws
    columns = ("auto:quick", *MEMBERS)
    print("| draw |" + "".join(f" {name}, claimed | nested |" for name in columns))
    print("|--:|" + "--:|--:|" * len(columns))
    table = []
    for draw in range(draws):
        bags, y = shifted_years(draw)
        model = bw.method("auto:quick", folds=6, transforms=False).fit(bags, y)
        rows = {row["member"]: row["error"] for row in model.trials_}
        claimed = [model.scores_["error"], *(rows[name] for name in MEMBERS)]
        true = [nested(lambda: bw.method("auto:quick", transforms=False), bags, y)]
        true += [nested(lambda name=name: bw.method(name), bags, y) for name in MEMBERS]
        table.append(np.ravel(list(zip(claimed, true, strict=True))))
        print(f"| {draw} |" + "".join(f" {value:.3f} |" for value in table[-1]), flush=True)
    print("| mean |" + "".join(f" {value:.3f} |" for value in np.mean(table, axis=0)))


if __name__ == "__main__":
    main()
