"""What each way of splitting would have claimed, and what came true on bags that no fold had seen: a table.

    python benchmarks/which_split.py                     the simulation
    python benchmarks/which_split.py ../shared/data      also the peptides and molecules of that folder

Claimed: RMSE of held-out predictions of the training bags. Came true: RMSE on the later bags (simulation), on the last
official fold (peptides), on the official test molecules.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np

import bagwise as bw

METHODS = ("statistics:forest", "instance-kme:ridge")


def rmse(error) -> float:
    return float(np.sqrt(np.mean(np.square(error))))


def row(name: str, method: str, train, y, test, truth, schemes: dict) -> None:
    """Print the errors that each scheme claims for the training bags, and the error on the test bags."""
    print(f"| {name} | {method} |", end="", flush=True)
    for bags, folds in schemes.values():
        errors = []
        for seen, held_out in bw.BagKFold(folds).split(bags):
            errors.append(bw.method(method).fit(bags[seen], y[seen]).predict(bags[held_out]) - y[held_out])
        print(f" {rmse(np.concatenate(errors)):.3f} |", end="", flush=True)
    print(f" **{rmse(bw.method(method).fit(train, y).predict(test) - truth):.3f}** |", flush=True)


def simulation(draws: int = 5) -> None:
    print("\n| data | method | random | forward | came true |\n|---|---|--:|--:|--:|")
    for method in METHODS:
        for seed in range(draws):
            bags, y = bw.datasets.make_drift(400, random_state=seed)
            train = bags[:300]
            schemes = {"random": (train, 5), "forward": (train, bw.Validation("forward", folds=5))}
            row(f"drift, draw {seed}", method, train, y[:300], bags[300:], y[300:], schemes)


def peptides(path: Path) -> None:
    print(
        "\n| data | method | random | shared rows | official folds | came true (last fold) |\n|---|---|--:|--:|--:|--:|"
    )
    bags, y = bw.load(path, bag="bag", target="target", fold="fold")
    test = bags.fold == bags.fold.max()
    train = bags[~test]
    schemes = {
        "random": (train, bw.Validation("random", folds=4)),
        "shared rows": (train, bw.Validation("random", folds=4, groups="shared-rows")),
        "official": (train, "given"),
    }
    for method in METHODS:
        row("H-2-IAb", method, train, y[~test], bags[test], y[test], schemes)


def molecules(path: Path) -> None:
    import pandas as pd

    print("\n| data | method | random | scaffolds | came true (official test) |\n|---|---|--:|--:|--:|")
    frame = pd.read_csv(path)
    bags, y = bw.from_smiles(frame["smiles"], frame["y"], conformers=5, groups="scaffold", n_jobs=-1)
    test = (frame["split"] == "test").to_numpy()
    train = bags[~test]
    schemes = {"random": (train.with_groups(None), 5), "scaffolds": (train, 5)}
    for method in METHODS[:1]:
        row("CHEMBL4203_Ki", method, train, y[~test], bags[test], y[test], schemes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", type=Path)
    data = parser.parse_args().data
    warnings.simplefilter("ignore")
    simulation()
    if data is not None:
        peptides(data / "mhc2-H-2-IAb.parquet")
        molecules(data / "molecules-CHEMBL4203_Ki.csv")


if __name__ == "__main__":
    main()
