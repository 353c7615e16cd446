"""Finished fits of members in a folder, so that a fit that was stopped goes on where it was."""

from __future__ import annotations

import warnings

import numpy as np

from bagwise.auto.members import Member
from bagwise.bags import Bags
from bagwise.model_files.cell_folder import CellFolder, claim
from bagwise.model_files.fingerprint import describe, digest, of_data, of_library
from bagwise.model_files.model_file import load_model, save_model

WORK = "fit of auto"


class KeptFits(CellFolder):
    """A model file for every member and fold, and beside it the held-out predictions and what they took.

    A fit is found by a hash of all it depends on: data, versions, the unfitted estimator with its parameters, the bags
    it is fitted without. A folder of other data or other versions is refused. A model that no model file can hold (an
    estimator of one's own) is not kept.

    Parameters
    ----------
    path : the folder; made if it is not there
    bags, y, sample_weight : what members see
    random_state : int
    """

    noun = "fit"

    def __init__(self, path, bags: Bags, y: np.ndarray, sample_weight: np.ndarray | None, random_state: int):
        self.random_state, self.library = random_state, of_library()
        self.data = digest(of_data(bags, y), *([] if sample_weight is None else [sample_weight]))
        about = f"{str(bags).removeprefix('Bags: ')} (hash {self.data[:8]})"
        claim(path, WORK, data=self.data, about=about, library=self.library)
        super().__init__(path)

    def key(self, member: Member, held_out: np.ndarray, first: bool = False) -> str:
        """What the fit of a member without some bags is called; ``first`` as in `fit_member`."""
        make = member.make_first if first and member.make_first is not None else member.make
        return digest(self.data, self.library, describe(make(self.random_state)), held_out, self.random_state)

    def has(self, key: str) -> bool:
        return (self.cells / f"{key}.json").exists()

    def read_fit(self, key: str) -> tuple | None:
        """The model, its held-out predictions, seconds of the fit and of the predictions, and when it was done on the
        clock of `auto`; None if it is not there, or (with a warning) damaged."""
        result, file = self.read(key), self.cells / f"{key}.bagwise"
        if result is None:
            return None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                model = load_model(file)
        except (OSError, ValueError):
            self.warn_of(key, file, "is damaged or gone")
            return None
        seconds = result["fit_seconds"], result["predict_seconds"], result["elapsed"]
        return model, np.array(result["predictions"], dtype=np.float64), *seconds

    def write_fit(self, key: str, fit: tuple, elapsed: float) -> None:
        """Keep a fit; its model first, so that there is one wherever there are predictions."""
        model, predictions, fit_seconds, predict_seconds = fit
        try:
            save_model(model, self.cells / f"{key}.bagwise")
        except ValueError:  # an estimator of the user's own: it is fitted again
            return
        seconds = {"fit_seconds": fit_seconds, "predict_seconds": predict_seconds, "elapsed": elapsed}
        self.write({"key": key, "predictions": predictions.tolist(), **seconds})
