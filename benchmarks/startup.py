"""What a command costs before it works: CPU seconds and peak memory of fresh interpreters.

    python benchmarks/startup.py [--runs 5]

A ridge model (`--method aggregated`) of 300 bags is fitted and asked, beside the imports that it cannot do without.
Of several runs the least CPU time counts (user and system, of the process alone): the others waited for something.
"""

import argparse
import csv
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import bagwise as bw

BASE = "import sklearn.pipeline, pandas"
FIT = "fit table.csv --bag bag --target y --method aggregated --out model.bagwise --quiet"
COMMANDS = {
    BASE: ["-c", BASE],
    "import bagwise": ["-c", "import bagwise"],
    **{
        f"bagwise {words}": ["-m", "bagwise", *words.split()]
        for words in ("--help", "methods", "datasets", FIT, "predict model.bagwise table.csv --out out.csv --quiet")
    },
}


def write_table(path: Path) -> None:
    bags, y = bw.datasets.make_gaussian(300, instances=10)
    rows = zip(bags.expand(bags.ids), bags.expand(y), *bags.instances.T, strict=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["bag", "y", *[f"x{j}" for j in range(bags.n_features)]], *rows])


def cost(arguments: list[str], folder: str) -> tuple[float, float]:
    """CPU seconds and peak memory in MB."""
    env = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package is compiled
    run = subprocess.Popen([sys.executable, *arguments], cwd=folder, env=env, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(run.pid, 0)
    run.returncode = os.waitstatus_to_exitcode(status)
    if run.returncode:
        raise RuntimeError(f"{' '.join(arguments)} ended with {run.returncode}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        write_table(Path(folder) / "table.csv")
        found = {name: min(cost(words, folder) for _ in range(runs)) for name, words in COMMANDS.items()}
    print(f"{'CPU s':>6} {'x base':>7} {'MB':>5}  command")
    for name, (seconds, memory) in found.items():
        print(f"{seconds:6.2f} {seconds / found[BASE][0]:7.2f} {memory:5.0f}  {name}")


if __name__ == "__main__":
    main()
