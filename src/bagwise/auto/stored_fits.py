"""Finished fits of members in a store, from which an interrupted fit continues."""

from __future__ import annotations

import warnings
from contextlib import suppress

import numpy as np

from bagwise.auto.members import Member
from bagwise.bags import Bags
from bagwise.held_out import HeldOut
from bagwise.model_files.fingerprint import describe, digest, of_data, of_library
from bagwise.model_files.model_file import load_model, save_model
from bagwise.model_files.store import Store

MODEL = ".bagwise"


class StoredFits:
    """Model files of members and folds with their held-out predictions, in the store of a work folder.

    The key of a fit is the hash of all it depends on: data, versions, the unfitted estimator with its parameters, and
    the fold. A model that no model file can hold (an estimator of the user's own) is not stored.
    """

    def __init__(self, path, bags: Bags, y: np.ndarray, sample_weight: np.ndarray | None, random_state: int):
        self.random_state, self.library = random_state, of_library()
        self.data = digest(of_data(bags, y), *([] if sample_weight is None else [sample_weight]))
        about = f"{str(bags).removeprefix('Bags: ')} (hash {self.data[:8]})"
        self.store = Store.of_work(path, "fit of auto", library=self.library, data={"data": about}, noun="fit")

    def key(self, member: Member, fold: np.ndarray, first: bool = False) -> str:
        """Return the key of the fit of a member for a fold (masks of bags); ``first`` as in `fit_member`."""
        make = member.make_first if first and member.make_first is not None else member.make
        return digest(self.data, self.library, describe(make(self.random_state)), fold, self.random_state)

    def __contains__(self, key: str) -> bool:
        return key in self.store

    def read_fit(self, key: str) -> tuple[HeldOut, float] | None:
        """Return the fit and the seconds on the clock of `auto` when it was finished.

        None if there is no such fit, or (with a warning) if its files are damaged.
        """
        if (result := self.store.read(key)) is None:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = load_model(self.store.file(key, MODEL))
        predictions = np.array(result["predictions"], dtype=np.float64)
        return HeldOut(model, predictions, result["fit_seconds"], result["predict_seconds"]), result["elapsed"]

    def write_fit(self, key: str, fit: HeldOut, elapsed: float) -> None:
        seconds = {"fit_seconds": fit.fit_seconds, "predict_seconds": fit.predict_seconds, "elapsed": elapsed}
        content = {"predictions": fit.predictions.tolist(), **seconds}
        with suppress(ValueError):  # an estimator of the user's own, which is fitted again
            self.store.write(key, content, files={MODEL: lambda path: save_model(fit.model, path)})
