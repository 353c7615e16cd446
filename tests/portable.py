"""Run the tests marked `kernels` under several kernels of OpenBLAS, each in a process of its own: `make portable`.

OpenBLAS picks its kernels by the CPU, and each rounds in its own way. OPENBLAS_CORETYPE picks them by hand, for numpy
and for scipy, which bring a library each; that both follow is looked up, and an error if they do not.
"""

import os
import platform
import subprocess
import sys
from pathlib import Path

# The name asked for, those that OpenBLAS gives back for it, and the number of its threads.
KERNELS = {
    "Haswell": (("Haswell",), 1),
    "Sandybridge": (("Sandybridge",), 2),
    "Nehalem": (("Nehalem",), 1),
    "Prescott": (("Prescott", "Katmai"), 1),
}
LOOK = (
    "import numpy, scipy.linalg, threadpoolctl\n"
    "print(*[i['architecture'] for i in threadpoolctl.threadpool_info() if i['internal_api'] == 'openblas'])"
)


def marked_files() -> list[str]:
    """The files with a test marked `kernels`: to collect all others takes longer than these tests."""
    tests = Path(__file__).parent
    return [str(path) for path in sorted(tests.glob("*/test_*.py")) if "mark.kernels" in path.read_text("utf-8")]


def main() -> int:
    if platform.machine().lower() not in ("x86_64", "amd64"):
        print(f"portable: skipped, these kernels are for x86-64 and this is {platform.machine()}")
        return 0
    for kernel, (names, threads) in KERNELS.items():
        limits = {"OPENBLAS_CORETYPE": kernel, "OPENBLAS_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
        environment = os.environ | limits
        look = subprocess.run([sys.executable, "-c", LOOK], env=environment, text=True, capture_output=True, check=True)
        found = look.stdout.split()
        if len(found) < 2 or not set(found) <= set(names):
            print(
                f"portable: OPENBLAS_CORETYPE={kernel} gave {found or 'no OpenBLAS'}, not numpy's and scipy's {kernel}"
            )
            return 1
        print(f"portable: kernels of {kernel}", flush=True)
        tests = [sys.executable, "-m", "pytest", "-m", "kernels and not slow", *marked_files(), *sys.argv[1:]]
        if code := subprocess.run(tests, env=environment).returncode:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
