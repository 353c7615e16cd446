"""
From molecules with conformers to bags
======================================

A molecule folds into many shapes: it is a bag, and every conformer is an instance. We embed conformers of the alkanes
of four to ten carbon atoms with RDKit, describe each by its size and shape, and predict the boiling point of molecules
that were left out. Isomers of one formula have the same atoms; what parts them is their shape.
Run with ``python conformers.py``; it needs RDKit (``pip install rdkit``), which is no extra of bagwise.
"""

import numpy as np
from rdkit import Chem
from rdkit.Chem import AllChem, Descriptors3D
from sklearn.model_selection import cross_val_predict

import bagwise as bw

# %%
# Boiling points in degrees Celsius at normal pressure, by SMILES.

BOILING = {
    **{"CCCC": -0.5, "CC(C)C": -11.7, "CCCCC": 36.1, "CCC(C)C": 27.8, "CC(C)(C)C": 9.5, "CCCCCC": 68.7},
    **{"CCCC(C)C": 60.3, "CCC(C)CC": 63.3, "CCC(C)(C)C": 49.7, "CC(C)C(C)C": 58.0, "CCCCCCC": 98.4},
    **{"CCCCC(C)C": 90.0, "CCCC(C)CC": 92.0, "CCCC(C)(C)C": 79.2, "CCC(C)C(C)C": 89.8, "CC(C)CC(C)C": 80.5},
    **{"CCC(C)(C)CC": 86.1, "CCC(CC)CC": 93.5, "CC(C)C(C)(C)C": 80.9, "CCCCCCCC": 125.7, "CCCCCC(C)C": 117.6},
    **{"CCCCC(C)CC": 118.9, "CCCC(C)CCC": 117.7, "CCCCC(C)(C)C": 106.8, "CCCC(C)C(C)C": 115.6},
    **{"CCC(C)CC(C)C": 109.4, "CC(C)CCC(C)C": 109.1, "CCCC(C)(C)CC": 112.0, "CCC(C)C(C)CC": 117.7},
    **{"CCCC(CC)CC": 118.5, "CCC(C)C(C)(C)C": 109.8, "CC(C)CC(C)(C)C": 99.2, "CCC(C)(C)C(C)C": 114.8},
    **{"CC(C)C(C)C(C)C": 113.5, "CCC(CC)C(C)C": 115.7, "CCC(C)(CC)CC": 118.3, "CCCCCCCCC": 150.8},
    "CCCCCCCCCC": 174.1,
}
SHAPE = {
    "gyration": Descriptors3D.RadiusOfGyration,
    "asphericity": Descriptors3D.Asphericity,
    "eccentricity": Descriptors3D.Eccentricity,
    **{"pmi1": Descriptors3D.PMI1, "pmi2": Descriptors3D.PMI2, "pmi3": Descriptors3D.PMI3},
}

# %%
# Twenty conformers of each, relaxed in a force field; the same seed gives the same ones.


def conformers(smiles: str, count: int = 20) -> np.ndarray:
    """The shapes of a molecule, a row per conformer; moments of inertia as logarithms."""
    molecule = Chem.AddHs(Chem.MolFromSmiles(smiles))
    made = AllChem.EmbedMultipleConfs(molecule, count, randomSeed=0)
    AllChem.MMFFOptimizeMoleculeConfs(molecule)
    rows = [[describe(molecule, confId=one) for describe in SHAPE.values()] for one in made]
    return np.column_stack([np.array(rows)[:, :3], np.log(np.array(rows)[:, 3:])])


def main() -> None:
    bags = bw.from_arrays([conformers(one) for one in BOILING], ids=list(BOILING), feature_names=list(SHAPE))
    y = np.array(list(BOILING.values()))
    print(bags)
    predicted = cross_val_predict(bw.method("aggregated"), bags, y, cv=bw.BagKFold(6))
    error = np.sqrt(np.mean((predicted - y) ** 2))
    print(f"boiling point of held-out molecules: RMSE {error:.1f} degrees, standard deviation {y.std():.1f}")


if __name__ == "__main__":
    main()
