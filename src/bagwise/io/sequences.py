"""`from_sequences`: a bag per protein sequence, an instance per window of residues."""

from __future__ import annotations

import warnings

import numpy as np

from bagwise.bags.checks import one_of, whole_number
from bagwise.bags.container import Bags
from bagwise.bags.validation import and_others, label, one_per_bag

RESIDUES = "ARNDCQEGHILKMFPSTWYV"
# Per residue, in that order. Hydropathy: Kyte and Doolittle (1982); polarity and volume: Grantham (1974).
PHYSICAL = {
    "hydropathy": (1.8, -4.5, -3.5, -3.5, 2.5, -3.5, -3.5, -0.4, -3.2, 4.5, 3.8, -3.9, 1.9, 2.8, -1.6, -0.8, -0.7,
                   -0.9, -1.3, 4.2),
    "polarity": (8.1, 10.5, 11.6, 13.0, 5.5, 10.5, 12.3, 9.0, 10.4, 5.2, 4.9, 11.3, 5.7, 5.2, 8.0, 9.2, 8.6, 5.4, 6.2,
                 5.9),
    "volume": (31, 124, 56, 54, 55, 85, 83, 3, 96, 111, 111, 119, 105, 132, 32.5, 32, 61, 170, 136, 84),
    "charge": (0, 1, 0, -1, 0, 0, -1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0),
    "aromatic": (0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0),
}  # fmt: skip
# Henikoff and Henikoff (1992), rows and columns in the order of RESIDUES, two rows to a line.
BLOSUM62 = """
4 -1 -2 -2 0 -1 -1 0 -2 -1 -1 -1 -1 -2 -1 1 0 -3 -2 0   -1 5 0 -2 -3 1 0 -2 0 -3 -2 2 -1 -3 -2 -1 -1 -3 -2 -3
-2 0 6 1 -3 0 0 0 1 -3 -3 0 -2 -3 -2 1 0 -4 -2 -3   -2 -2 1 6 -3 0 2 -1 -1 -3 -4 -1 -3 -3 -1 0 -1 -4 -3 -3
0 -3 -3 -3 9 -3 -4 -3 -3 -1 -1 -3 -1 -2 -3 -1 -1 -2 -2 -1   -1 1 0 0 -3 5 2 -2 0 -3 -2 1 0 -3 -1 0 -1 -2 -1 -2
-1 0 0 2 -4 2 5 -2 0 -3 -3 1 -2 -3 -1 0 -1 -3 -2 -2   0 -2 0 -1 -3 -2 -2 6 -2 -4 -4 -2 -3 -3 -2 0 -2 -2 -3 -3
-2 0 1 -1 -3 0 0 -2 8 -3 -3 -1 -2 -1 -2 -1 -2 -2 2 -3   -1 -3 -3 -3 -1 -3 -3 -4 -3 4 2 -3 1 0 -3 -2 -1 -3 -1 3
-1 -2 -3 -4 -1 -2 -3 -4 -3 2 4 -2 2 0 -3 -2 -1 -2 -1 1   -1 2 0 -1 -3 1 1 -2 -1 -3 -2 5 -1 -3 -1 0 -1 -3 -2 -2
-1 -1 -2 -3 -1 0 -2 -3 -2 1 2 -1 5 0 -2 -1 -1 -1 -1 1   -2 -3 -3 -3 -2 -3 -3 -3 -1 0 0 -3 0 6 -4 -2 -2 1 3 -1
-1 -2 -2 -1 -3 -1 -1 -2 -2 -3 -3 -1 -2 -4 7 -1 -1 -4 -3 -2   1 -1 1 0 -1 0 0 0 -1 -2 -2 0 -1 -2 -1 4 1 -3 -2 -2
0 -1 0 -1 -1 -1 -1 -2 -2 -1 -1 -1 -1 -2 -1 1 5 -2 -2 0   -3 -3 -4 -4 -2 -2 -3 -2 -2 -3 -2 -3 -1 1 -4 -3 -2 11 2 -3
-2 -2 -2 -3 -2 -1 -2 -3 2 -1 -1 -2 -1 3 -3 -2 -2 2 7 -1   0 -3 -3 -3 -1 -2 -2 -3 -3 3 1 -2 1 -1 -2 -2 0 -3 -1 4
"""


def from_sequences(
    sequences, y=None, *, window=9, ids=None, groups=None, encoding="blosum62", invalid="refuse"
) -> tuple[Bags, np.ndarray | None]:
    """Build bags of windows from protein sequences.

    Each sequence is a bag, each window of consecutive residues an instance. The features of an instance are the
    encodings of its residues, position by position.

    Parameters
    ----------
    sequences : sequence of str
        The twenty standard residues as one-letter codes; lower case is accepted.
    y : sequence of float, optional
        One target per sequence.
    window : int, default 9
        Number of residues in a window.
    ids : sequence, optional
        One distinct id per sequence. Default: 0, 1, 2, ...
    groups : "shared-rows" or sequence of labels, optional
        Bags of one group stay together in each split. "shared-rows" makes one group of all sequences that are connected
        by windows they share.
    encoding : {"blosum62", "physical"}, default "blosum62"
        "blosum62" describes a residue by its row of the BLOSUM62 matrix (20 numbers), "physical" by hydropathy,
        polarity, volume, charge and whether it is aromatic.
    invalid : {"refuse", "drop"}, default "refuse"
        What happens to a sequence shorter than the window or with an unknown letter: an error, or the sequence is left
        out together with its target, and a warning names it.

    Returns
    -------
    bags : Bags
        ``bags.kept`` has the text of each window and its start in the sequence.
    y : array of float64, or None
        The targets of the sequences in ``bags``; None if no targets were passed.

    References
    ----------
    Henikoff and Henikoff (1992), Amino acid substitution matrices from protein blocks, PNAS 89.

    Examples
    --------
    >>> import bagwise as bw
    >>> bags, y = bw.from_sequences(["SIINFEKLTEW", "GILGFVFTL"], [0.8, 0.3], encoding="physical")
    >>> bags
    Bags: 2 bags of 1 to 3 instances (4 in all), 45 features
    >>> bags.kept["window"].tolist()
    ['SIINFEKLT', 'IINFEKLTE', 'INFEKLTEW', 'GILGFVFTL']
    """
    one_of(encoding, ("blosum62", "physical"), "encoding")
    whole_number(window, "window")
    sequences, ids = check_labels(sequences, ids, "sequences")
    y = None if y is None else one_per_bag(y, len(sequences), "y")
    texts = [text.strip().upper() if isinstance(text, str) else text for text in sequences]
    faults = {i: fault for i, text in enumerate(texts) if (fault := _fault(text, int(window)))}
    chosen = drop_or_refuse(ids, faults, invalid, "sequence")
    codes = [np.array([RESIDUES.index(residue) for residue in texts[i]]) for i in chosen]
    windows = np.concatenate([np.lib.stride_tricks.sliding_window_view(code, int(window)) for code in codes])
    sizes = np.array([len(code) - window + 1 for code in codes])
    table, names = _residue_table(encoding)
    bags = Bags(
        table[windows].reshape(len(windows), -1),
        np.concatenate([[0], np.cumsum(sizes)]),
        [ids[i] for i in chosen],
        groups=groups if groups is None or isinstance(groups, str) else np.asarray(groups)[chosen],
        feature_names=[f"p{position + 1}_{name}" for position in range(window) for name in names],
    )
    spelled = [texts[i][k : k + window] for i, size in zip(chosen, sizes, strict=True) for k in range(size)]
    starts = np.concatenate([np.arange(size) for size in sizes])
    bags = bags._with(kept={"window": np.array(spelled), "start": starts})
    return bags, None if y is None else np.asarray(y, dtype=np.float64)[chosen]


def _residue_table(encoding: str) -> tuple[np.ndarray, list[str]]:
    if encoding == "physical":
        return np.array(list(PHYSICAL.values()), dtype=np.float64).T, list(PHYSICAL)
    return np.array(BLOSUM62.split(), dtype=np.float64).reshape(20, 20), list(RESIDUES)


def _fault(text, window: int) -> str | None:
    if not isinstance(text, str):
        return f"expected text, not {type(text).__name__}"
    unknown = next(((k, residue) for k, residue in enumerate(text) if residue not in RESIDUES), None)
    if unknown:
        return f"position {unknown[0] + 1} has the unknown letter {unknown[1]!r}"
    return f"it has {len(text)} residues, and a window needs {window}" if len(text) < window else None


def check_labels(texts, ids, parameter: str) -> tuple[list, list]:
    """Return the texts and their ids as lists of equal length."""
    if isinstance(texts, str):
        raise TypeError(f"{parameter} must be a sequence of texts, not one text; pass a list, even of one")
    texts = list(texts)
    if not texts:
        raise ValueError(f"{parameter} is empty; at least one is required")
    return texts, list(range(len(texts))) if ids is None else np.asarray(one_per_bag(ids, len(texts), "ids")).tolist()


def drop_or_refuse(ids: list, faults: dict[int, str], invalid: str, noun: str) -> list[int]:
    """Return the positions without a fault; raise on faults, or warn about the omitted ones if `invalid` is "drop"."""
    one_of(invalid, ("refuse", "drop"), "invalid")
    if not faults:
        return list(range(len(ids)))
    first = min(faults)
    message = f"{noun} {label(ids[first])}{and_others(len(faults) - 1)}: {faults[first]}"
    if invalid == "refuse":
        raise ValueError(f"{message}; correct the text, or leave such bags out with invalid='drop'")
    if len(faults) == len(ids):
        raise ValueError(f"{message}; no {noun} is left")
    warnings.warn(f"{len(faults)} of {len(ids)} {noun}s were left out; {message}", UserWarning, stacklevel=3)
    return [i for i in range(len(ids)) if i not in faults]
