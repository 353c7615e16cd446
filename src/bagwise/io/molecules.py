"""Bags from molecules written as text: conformers of SMILES by RDKit, and windows of protein sequences."""

from __future__ import annotations

import warnings

import numpy as np
from joblib import Parallel, delayed

from bagwise.bags.arrays import from_arrays
from bagwise.bags.container import Bags
from bagwise.bags.validation import ParameterError, and_others, label, one_of, one_per_bag, whole_number
from bagwise.io.array_files import targets_of

FINGERPRINT_BITS, FINGERPRINT_RADIUS = 1024, 2
SHAPE = (
    *("PMI1", "PMI2", "PMI3", "NPR1", "NPR2", "RadiusOfGyration", "InertialShapeFactor"),
    *("Eccentricity", "Asphericity", "SpherocityIndex", "PBF"),
)
VECTORS_3D = {"WHIM": 114, "RDF": 210, "AUTOCORR3D": 80}
NUMBERS_2D = (
    *("MolWt", "MolLogP", "MolMR", "TPSA", "LabuteASA", "FractionCSP3", "HeavyAtomCount", "NumHAcceptors"),
    *("NumHDonors", "NumRotatableBonds", "RingCount", "NumAromaticRings", "NumHeteroatoms"),
)
VECTORS_2D = {"SlogP_VSA_": 12, "SMR_VSA_": 10}

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


def from_smiles(
    smiles, y=None, *, ids=None, conformers=10, groups=None, fingerprints=True, invalid="refuse", random_state=0,
    n_jobs=None,
) -> tuple[Bags, np.ndarray | None]:  # fmt: skip
    """Build bags of conformers from SMILES, with RDKit.

    Each molecule is a bag, each conformer an instance. The features of an instance are 415 three-dimensional
    descriptors: shape, WHIM, radial distribution function, and autocorrelation. The covariates of a bag are 35
    two-dimensional descriptors and the 1,024 bits of a Morgan fingerprint of radius 2. Conformers come from ETKDGv3.

    Parameters
    ----------
    smiles : sequence of str
        One SMILES per molecule.
    y : sequence of float, optional
        One target per molecule.
    ids : sequence, optional
        One distinct id per molecule. Default: 0, 1, 2, ...
    conformers : int, default 10
        Number of conformers to embed per molecule. A rigid molecule may get fewer.
    groups : "scaffold" or sequence of labels, optional
        Bags of one group stay together in each split. "scaffold" is the Bemis-Murcko scaffold, or the molecule itself.
    fingerprints : bool, default True
        Whether the covariates contain the bits of the fingerprint.
    invalid : {"refuse", "drop"}, default "refuse"
        What happens to a SMILES that RDKit cannot read, and to a molecule without conformers or without the value of a
        descriptor: an error, or the molecule is left out together with its target, and a warning names it.
    random_state : int, default 0
        Seed of the embedding of each molecule. The conformers of a molecule do not depend on the other molecules.
    n_jobs : int, optional
        Number of worker processes.

    Returns
    -------
    bags : Bags
    y : array of float64, or None
        The targets of the molecules in ``bags``; None if no targets were passed.

    References
    ----------
    Wang et al. (2020), Improving conformer generation for small rings and macrocycles, J. Chem. Inf. Model. 60.

    Examples
    --------
    >>> import bagwise as bw
    >>> bags, y = bw.from_smiles(["CCO", "c1ccccc1CCO"], [0.3, 1.2], conformers=3, groups="scaffold")
    >>> len(bags), bags.n_features, bags.groups.tolist(), y.tolist()
    (2, 415, ['CCO', 'c1ccccc1'], [0.3, 1.2])
    """
    try:
        import rdkit  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "from_smiles needs RDKit, which is not installed; run: pip install 'bagwise[chem]'"
        ) from error
    whole_number(conformers, "conformers")
    if isinstance(groups, str) and groups != "scaffold":
        raise ValueError(f"groups must be 'scaffold' or one label per molecule, not {groups!r}")
    smiles, ids, y, groups = _one_per_text(smiles, "smiles", ids, y, groups)
    described = Parallel(n_jobs=n_jobs)(
        delayed(_describe)(text, int(conformers), bool(fingerprints), int(random_state)) for text in smiles
    )
    faults = {i: result for i, result in enumerate(described) if isinstance(result, str)}
    chosen = _without_faults(ids, faults, invalid, "molecule")
    instances, covariates, scaffolds = zip(*(described[i] for i in chosen), strict=True)
    names = [*NUMBERS_2D, *(f"{name}{j + 1}" for name, size in VECTORS_2D.items() for j in range(size))]
    bags = from_arrays(
        instances,
        ids=[ids[i] for i in chosen],
        groups=scaffolds if isinstance(groups, str) else None if groups is None else groups[chosen],
        feature_names=_shape_names(),
        covariates=np.array(covariates),
        covariate_names=names + [f"bit_{j}" for j in range(FINGERPRINT_BITS)] * bool(fingerprints),
    )
    return bags, None if y is None else targets_of(y[chosen], bags)


def _shape_names() -> list[str]:
    return [*SHAPE, *(f"{name}_{j + 1}" for name, size in VECTORS_3D.items() for j in range(size))]


def _describe(smiles: str, conformers: int, fingerprints: bool, seed: int) -> tuple | str:
    """Return the instances, covariates and scaffold of a molecule, or a text that describes its fault."""
    from rdkit import Chem, RDLogger
    from rdkit.Chem import AllChem, Descriptors, Descriptors3D, rdFingerprintGenerator, rdMolDescriptors
    from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

    RDLogger.DisableLog("rdApp.*")  # RDKit writes to stderr; the caller gets one message per molecule instead
    molecule = Chem.MolFromSmiles(smiles) if isinstance(smiles, str) and smiles.strip() else None
    if molecule is None:
        return f"the SMILES {smiles!r} cannot be read"
    solid = Chem.AddHs(molecule)
    settings = AllChem.ETKDGv3()
    settings.randomSeed = seed
    if not len(AllChem.EmbedMultipleConfs(solid, conformers, settings)):
        settings.useRandomCoords = True
        AllChem.EmbedMultipleConfs(solid, conformers, settings)
    rows = []
    for conformer in solid.GetConformers():
        at = conformer.GetId()
        numbers = [getattr(Descriptors3D, name)(solid, confId=at) for name in SHAPE]
        vectors = [getattr(rdMolDescriptors, f"Calc{name}")(solid, confId=at) for name in VECTORS_3D]
        rows.append(numbers + [value for vector in vectors for value in vector])
    if not rows:
        return f"no conformer of the SMILES {smiles!r} could be embedded"
    instances = np.array(rows)
    if not np.isfinite(instances).all():
        name = _shape_names()[int((~np.isfinite(instances)).any(axis=0).argmax())]
        return f"the descriptor {name} has no value for the SMILES {smiles!r}"
    of_bag = [getattr(Descriptors, name)(molecule) for name in NUMBERS_2D]
    of_bag += [value for name in VECTORS_2D for value in getattr(rdMolDescriptors, name)(molecule)]
    if fingerprints:
        generator = rdFingerprintGenerator.GetMorganGenerator(radius=FINGERPRINT_RADIUS, fpSize=FINGERPRINT_BITS)
        of_bag += generator.GetFingerprintAsNumPy(molecule).tolist()
    return instances, of_bag, MurckoScaffoldSmiles(mol=molecule) or Chem.MolToSmiles(molecule)


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
    sequences, ids, y, groups = _one_per_text(sequences, "sequences", ids, y, groups)
    texts = [text.strip().upper() if isinstance(text, str) else text for text in sequences]
    faults = {i: fault for i, text in enumerate(texts) if (fault := _fault(text, int(window)))}
    chosen = _without_faults(ids, faults, invalid, "sequence")
    codes = [np.array([RESIDUES.index(residue) for residue in texts[i]]) for i in chosen]
    windows = np.concatenate([np.lib.stride_tricks.sliding_window_view(code, int(window)) for code in codes])
    sizes = np.array([len(code) - window + 1 for code in codes])
    if encoding == "physical":
        table, names = np.array(list(PHYSICAL.values()), dtype=np.float64).T, list(PHYSICAL)
    else:
        table, names = np.array(BLOSUM62.split(), dtype=np.float64).reshape(20, 20), list(RESIDUES)
    bags = Bags(
        table[windows].reshape(len(windows), -1),
        np.concatenate([[0], np.cumsum(sizes)]),
        [ids[i] for i in chosen],
        groups=groups if groups is None or isinstance(groups, str) else groups[chosen],
        feature_names=[f"p{position + 1}_{name}" for position in range(window) for name in names],
    )
    spelled = [texts[i][k : k + window] for i, size in zip(chosen, sizes, strict=True) for k in range(size)]
    starts = np.concatenate([np.arange(size) for size in sizes])
    bags = bags._with(kept={"window": np.array(spelled), "start": starts})
    return bags, None if y is None else targets_of(y[chosen], bags)


def _fault(text, window: int) -> str | None:
    """Return what is wrong with a sequence."""
    if not isinstance(text, str):
        return f"expected text, not {type(text).__name__}"
    unknown = next(((k, residue) for k, residue in enumerate(text) if residue not in RESIDUES), None)
    if unknown:
        return f"position {unknown[0] + 1} has the unknown letter {unknown[1]!r}"
    return f"it has {len(text)} residues, and a window needs {window}" if len(text) < window else None


def _one_per_text(texts, parameter: str, ids, y, groups) -> tuple:
    """Return the texts, their ids, and where given their targets and groups, all of equal length."""
    if isinstance(texts, str):
        raise TypeError(f"{parameter} must be a sequence of texts, not one text; pass a list, even of one")
    if hasattr(texts, "iloc") and hasattr(y, "iloc") and not texts.index.equals(y.index):  # both from pandas
        raise ParameterError(
            "y", f"{parameter} and y have different indexes; give both in the same order, with the same index"
        )
    texts = list(texts)
    if not texts:
        raise ValueError(f"{parameter} is empty; at least one is required")
    n = len(texts)
    ids = list(range(n)) if ids is None else one_per_bag(ids, n, "ids").tolist()
    y = None if y is None else one_per_bag(y, n, "y")
    return texts, ids, y, groups if groups is None or isinstance(groups, str) else one_per_bag(groups, n, "groups")


def _without_faults(ids: list, faults: dict[int, str], invalid: str, noun: str) -> list[int]:
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
