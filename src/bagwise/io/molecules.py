"""`from_smiles`: a bag per molecule, an instance per conformer, made by RDKit."""

from __future__ import annotations

import numpy as np
from joblib import Parallel, delayed

from bagwise.bags.arrays import from_arrays
from bagwise.bags.checks import whole_number
from bagwise.bags.container import Bags
from bagwise.bags.validation import one_per_bag
from bagwise.io.sequences import check_labels, drop_or_refuse

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
        What happens to a SMILES that RDKit cannot read and to a molecule without conformers: an error, or the molecule
        is left out together with its target, and a warning names it.
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
    smiles, ids = check_labels(smiles, ids, "smiles")
    y = None if y is None else one_per_bag(y, len(smiles), "y")
    whole_number(conformers, "conformers")
    if isinstance(groups, str) and groups != "scaffold":
        raise ValueError(f"groups must be 'scaffold' or one label per molecule, not {groups!r}")
    described = Parallel(n_jobs=n_jobs)(
        delayed(_describe)(text, int(conformers), bool(fingerprints), int(random_state)) for text in smiles
    )
    faults = {i: result for i, result in enumerate(described) if isinstance(result, str)}
    chosen = drop_or_refuse(ids, faults, invalid, "molecule")
    instances, covariates, scaffolds = zip(*(described[i] for i in chosen), strict=True)
    if isinstance(groups, str):
        groups = scaffolds
    elif groups is not None:
        groups = np.asarray(one_per_bag(groups, len(smiles), "groups"))[chosen]
    names = [*NUMBERS_2D, *(f"{name}{j + 1}" for name, size in VECTORS_2D.items() for j in range(size))]
    bags = from_arrays(
        instances,
        ids=[ids[i] for i in chosen],
        groups=groups,
        feature_names=[*SHAPE, *(f"{name}_{j + 1}" for name, size in VECTORS_3D.items() for j in range(size))],
        covariates=np.array(covariates),
        covariate_names=names + [f"bit_{j}" for j in range(FINGERPRINT_BITS)] * bool(fingerprints),
    )
    return bags, None if y is None else np.asarray(y, dtype=np.float64)[chosen]


def _describe(smiles: str, conformers: int, fingerprints: bool, seed: int) -> tuple | str:
    """Return instances, covariates and scaffold of a molecule, or what is wrong with it."""
    from rdkit import Chem, RDLogger
    from rdkit.Chem import AllChem
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
    rows = np.array([_describe_shape(solid, conformer.GetId()) for conformer in solid.GetConformers()])
    if len(rows) == 0:
        return f"no conformer of the SMILES {smiles!r} could be embedded"
    scaffold = MurckoScaffoldSmiles(mol=molecule) or Chem.MolToSmiles(molecule)
    return rows, _describe_bag(molecule, fingerprints), scaffold


def _describe_shape(molecule, conformer: int) -> list[float]:
    from rdkit.Chem import Descriptors3D, rdMolDescriptors

    numbers = [getattr(Descriptors3D, name)(molecule, confId=conformer) for name in SHAPE]
    vectors = [getattr(rdMolDescriptors, f"Calc{name}")(molecule, confId=conformer) for name in VECTORS_3D]
    return numbers + [value for vector in vectors for value in vector]


def _describe_bag(molecule, fingerprints: bool) -> list[float]:
    from rdkit.Chem import Descriptors, rdFingerprintGenerator, rdMolDescriptors

    values = [getattr(Descriptors, name)(molecule) for name in NUMBERS_2D]
    values += [value for name in VECTORS_2D for value in getattr(rdMolDescriptors, name)(molecule)]
    if fingerprints:
        generator = rdFingerprintGenerator.GetMorganGenerator(radius=FINGERPRINT_RADIUS, fpSize=FINGERPRINT_BITS)
        values += generator.GetFingerprintAsNumPy(molecule).tolist()
    return values
