"""False alarms of ``bw.novelty(..., by_time=True)`` on streams without drift, and the delay after a shift: a table."""

import numpy as np

import bagwise as bw

STREAMS, LENGTH, LEVEL = 1000, 250, 0.05


def draw(rng, n_bags: int, shift: float = 0.0) -> list:
    return [rng.normal(size=(10, 3)) + rng.normal(size=3) + shift for _ in range(n_bags)]


def main() -> None:
    rng = np.random.default_rng(0)
    print("training bags | false alarms | found after a shift of 2 | median delay in bags")
    for n in (60, 300):
        false, delays = 0, []
        for _ in range(STREAMS):
            train = bw.from_arrays(draw(rng, n))
            stream = bw.from_arrays(draw(rng, LENGTH))
            false += bw.novelty(train, stream, by_time=True, level=LEVEL).drift.alarm is not None
            moved = bw.from_arrays(draw(rng, LENGTH // 2) + draw(rng, LENGTH // 2, shift=2.0))
            alarm = bw.novelty(train, moved, by_time=True, level=LEVEL).drift.alarm
            if alarm is not None and alarm >= LENGTH // 2:
                delays.append(alarm - LENGTH // 2 + 1)
        print(f"{n:13} | {false / STREAMS:12.1%} | {len(delays) / STREAMS:24.0%} | {np.median(delays):20.0f}")


if __name__ == "__main__":
    main()
