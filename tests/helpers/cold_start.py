"""A new interpreter whose first work runs in two threads at once.

    python -m tests.helpers.cold_start alone MODEL BAGS OUT      the model predicts by threads of its own
    python -m tests.helpers.cold_start predict MODEL BAGS OUT    both threads open the model and predict the bags
    python -m tests.helpers.cold_start train OUT                 both train networks by the interpreted GPU kernels

OUT receives one row per thread. On stdout: the modules imported outside the main thread.
"""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

sys.setswitchinterval(1e-6)  # makes races likely


class Watched:
    """A module finder that finds none and records requests from other threads than the main one."""

    elsewhere: list = []

    def find_spec(self, name, path=None, target=None):
        if threading.current_thread() is not threading.main_thread():
            self.elsewhere.append(name)


def predict(model: str, bags: str) -> np.ndarray:
    import bagwise as bw

    return bw.load_model(model).predict(bw.load(bags)[0])


def at_once(function, *arguments) -> list:
    """Return the results of two threads that start together."""
    gate = threading.Barrier(2)

    def begin():
        gate.wait()
        return function(*arguments)

    with ThreadPoolExecutor(2) as pool:
        return [future.result() for future in [pool.submit(begin) for _ in range(2)]]


def problem():
    from bagwise.instances.networks.cpu import Problem, Recipe

    how = Recipe(hidden=(8,), epochs=(1,), batch_size=16, learning_rate=0.01, weight_decay=0.0, standardise=True,
                 scale_target=True, seed=0)  # fmt: skip
    X = np.random.default_rng(0).normal(size=(40, 2))
    return Problem.of(X, X[:, 0], np.ones(40), np.arange(40) % 2, how, n_networks=2), how


def train(one, how) -> np.ndarray:
    from bagwise.instances.networks import gpu as together
    from bagwise.instances.networks.gpu import gather, upload

    ((_, data),) = upload([one], how, "cpu")
    group = gather([one], data, [(0, 0), (0, 1)], how)
    Engine, shuffled = together.engines(group.plan, "cuda")  # those of a GPU; here they are interpreted
    with interpreter:
        order = shuffled(group.rows, group.counts, group.keys[0])
        Engine(group).epoch(order, together.step_sizes(group, how), 0)
    return group.parameters.numpy().ravel()


interpreter = threading.Lock()  # triton's keeps the place in the grid in one variable

if __name__ == "__main__":
    what, *arguments, out = sys.argv[1:]
    sys.meta_path.insert(0, Watched())
    if what == "alone":
        np.save(out, [predict(*arguments)])
    else:
        np.save(out, at_once(predict, *arguments) if what == "predict" else at_once(train, *problem()))
    print(" ".join(Watched.elsewhere))
