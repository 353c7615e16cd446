"""Bags of conformers from SMILES, and bags of windows from protein sequences."""

import numpy as np
import pandas as pd
import pytest

import bagwise as bw

SMILES = ["CCO", "c1ccccc1CCO", "c1ccccc1CN"]


@pytest.fixture(scope="module")
def molecules():
    pytest.importorskip("rdkit")
    return bw.from_smiles(SMILES, [0.1, 0.2, 0.3], conformers=3, groups="scaffold")


def test_a_molecule_is_a_bag_of_its_conformers(molecules):
    bags, y = molecules
    assert len(bags) == 3 and y.tolist() == [0.1, 0.2, 0.3]
    assert (bags.sizes == 3).all()
    assert bags.n_features == len(bags.feature_names) == 415
    assert bags.covariates.shape == (3, len(bags.covariate_names)) == (3, 35 + 1024)
    weights = dict(zip(bags.covariate_names, bags.covariates[0], strict=True))
    assert weights["MolWt"] == pytest.approx(46.07, abs=0.01) and weights["HeavyAtomCount"] == 3


def test_scaffolds_are_groups(molecules):
    groups = molecules[0].groups.tolist()
    assert groups[1] == groups[2] == "c1ccccc1" and groups[0] != groups[1]


def test_a_molecule_does_not_depend_on_the_others(molecules):
    alone, _ = bw.from_smiles(SMILES[1:2], conformers=3)
    assert np.array_equal(alone[0], molecules[0][1])


def test_an_invalid_smiles_is_named_or_left_out():
    pytest.importorskip("rdkit")
    with pytest.raises(ValueError, match=r"'B'.*'C1CC'"):
        bw.from_smiles(["CCO", "C1CC"], ids=["A", "B"], conformers=1)
    with pytest.warns(UserWarning, match="'B'"):
        bags, y = bw.from_smiles(["CCO", "C1CC"], [1.0, 2.0], ids=["A", "B"], conformers=1, invalid="drop")
    assert bags.ids.tolist() == ["A"] and y.tolist() == [1.0]
    with pytest.raises(ValueError, match="no molecule is left"):
        bw.from_smiles(["C1CC"], conformers=1, invalid="drop")


def test_a_molecule_without_conformers_is_named():
    pytest.importorskip("rdkit")
    with pytest.raises(ValueError, match="conformer"):
        bw.from_smiles(["O=C1[C@H]2CC[C@H]1N2"], conformers=1)  # no molecule has this stereochemistry
    with pytest.raises(ValueError, match=r"molecule 1: the descriptor WHIM_4 has no value for the SMILES '\[Fe\]'"):
        bw.from_smiles(["CCO", "[Fe]"], conformers=1)


@pytest.mark.parametrize(
    "parameter, options",
    [("conformers", {"conformers": 0}), ("groups", {"groups": "cluster"}), ("invalid", {"invalid": "skip"})],
)
def test_wrong_options_of_molecules_are_named(parameter, options):
    pytest.importorskip("rdkit")
    with pytest.raises(ValueError, match=parameter):
        bw.from_smiles(["C1CC" if parameter == "invalid" else "C"], **options)


def test_windows_of_a_sequence():
    bags, y = bw.from_sequences(["ACDEFGHIKLM", "acdefghik"], [1.0, 2.0])
    assert bags.sizes.tolist() == [3, 1] and bags.n_features == 180
    assert bags.kept["window"].tolist() == ["ACDEFGHIK", "CDEFGHIKL", "DEFGHIKLM", "ACDEFGHIK"]
    assert bags.kept["start"].tolist() == [0, 1, 2, 0]
    assert np.array_equal(bags[0][0], bags[1][0])
    first = dict(zip(bags.feature_names, bags[0][0], strict=True))
    assert first["p1_A"] == 4 and first["p2_C"] == 9 and first["p1_C"] == first["p2_A"] == 0


def test_physical_encoding():
    bags, _ = bw.from_sequences(["AR"], window=1, encoding="physical")
    assert bags.feature_names == ("p1_hydropathy", "p1_polarity", "p1_volume", "p1_charge", "p1_aromatic")
    assert bags[0].tolist() == [[1.8, 8.1, 31, 0, 0], [-4.5, 10.5, 124, 1, 0]]


def test_sequences_that_share_windows_are_one_group():
    bags, _ = bw.from_sequences(["AAAC", "AACD", "GGGG", "HHHH", "IIII"], window=3, groups="shared-rows")
    assert bags.groups[0] == bags.groups[1] != bags.groups[2]


@pytest.mark.parametrize(
    "sequence, what", [("ACD", "3 residues"), ("ACDXFGHIK", "position 4.*'X'"), (None, "NoneType"), ("", "0 residues")]
)
def test_a_faulty_sequence_is_named_or_left_out(sequence, what):
    good = "ACDEFGHIK"
    with pytest.raises(ValueError, match=f"'P2'.*{what}"):
        bw.from_sequences([good, sequence], ids=["P1", "P2"])
    with pytest.warns(UserWarning, match="'P2'"):
        bags, y = bw.from_sequences([good, sequence], [1.0, 2.0], ids=["P1", "P2"], invalid="drop")
    assert bags.ids.tolist() == ["P1"] and y.tolist() == [1.0]


def test_wrong_options_of_sequences_are_named():
    with pytest.raises(ValueError, match="encoding"):
        bw.from_sequences(["ACD"], encoding="onehot")
    with pytest.raises(ValueError, match="window"):
        bw.from_sequences(["ACD"], window=0)
    with pytest.raises(TypeError, match="sequences"):
        bw.from_sequences("ACD")


@pytest.mark.parametrize(
    "error, what, options",
    [
        (TypeError, "y must be numbers", {"y": ["a", "b", "c"]}),
        (ValueError, "bag 2 has a missing or infinite target", {"y": [1.0, np.nan, np.inf]}),
        (ValueError, r"y must have one entry per bag \(3\), not 2", {"y": [1.0, 2.0]}),
        (ValueError, r"groups must have one entry per bag \(3\), not 2", {"groups": ["a", "b"]}),
        (ValueError, "sequences and y have different indexes", {"y": pd.Series([1.0, 2.0, 3.0], index=[2, 1, 0])}),
    ],
)
@pytest.mark.filterwarnings("ignore:1 of 3 sequences were left out")
def test_wrong_targets_and_groups_of_sequences_are_named(error, what, options):
    with pytest.raises(error, match=what):
        bw.from_sequences(pd.Series(["ACD", "XXX", "CDE"]), window=3, invalid="drop", **options)
