"""The three pictures at the top of the README: a bag each. `python docs/pictures/readme_pictures.py`

The conformers need RDKit, which the extra `test` installs.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from rdkit import Chem
from rdkit.Chem import AllChem

import bagwise as bw

FOLDER = Path(__file__).parent
INK, LIGHT, ACCENT = "#30343a", "#c9ced6", "#c2410c"


def station(axis: Axes) -> None:
    """Sixty-four pixels of a simulated scene around a ground station."""
    bags, _ = bw.datasets.make_aerosol(1, instances=64, random_state=3)
    order = np.argsort(np.argsort(bags[0][:, 0]))  # by rank: a cloud would hide all other shades
    axis.imshow(order.reshape(8, 8), cmap="Blues_r", extent=(0, 8, 0, 8))
    axis.plot(4, 4, marker="^", markersize=11, color=ACCENT, markeredgecolor="white")
    axis.set(xlim=(-2, 10), ylim=(-0.2, 8.2), aspect="equal")


def molecule(axis: Axes) -> None:
    """Eight conformers of ibuprofen, aligned on the ring."""
    ibuprofen = Chem.AddHs(Chem.MolFromSmiles("CC(C)Cc1ccc(cc1)C(C)C(=O)O"))
    conformers = AllChem.EmbedMultipleConfs(ibuprofen, 8, randomSeed=7)
    ring = [atom.GetIdx() for atom in ibuprofen.GetAtoms() if atom.GetIsAromatic()]
    AllChem.AlignMolConformers(ibuprofen, atomIds=ring)
    bonds = [(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in Chem.RemoveHs(ibuprofen).GetBonds()]
    for k in conformers:
        places = ibuprofen.GetConformer(k).GetPositions()
        for pair in bonds:
            axis.plot(*places[list(pair)][:, :2].T, color=ACCENT if k == 0 else INK, alpha=1.0 if k == 0 else 0.3)
    axis.set_aspect("equal")


def peptide(axis: Axes, sequence: str = "PKYVKQNTLKLAT", width: int = 9) -> None:
    """The windows of nine residues of a peptide."""
    for row in range(len(sequence) - width + 1):
        axis.add_patch(Rectangle((row - 0.5, -row - 1.4), width, 0.8, facecolor=ACCENT if row == 2 else LIGHT))
        for k in range(row, row + width):
            colour = "white" if row == 2 else INK
            axis.text(k, -row - 1, sequence[k], ha="center", va="center", color=colour, family="monospace", fontsize=9)
    for k, letter in enumerate(sequence):
        axis.text(k, 0.2, letter, ha="center", va="center", color=INK, family="monospace", fontsize=10, weight="bold")
    axis.set(xlim=(-1, len(sequence)), ylim=(-len(sequence) + width - 2, 1))


for draw in (station, molecule, peptide):
    figure = Figure(figsize=(2.6, 1.7))
    axis = figure.add_axes((0, 0, 1, 1))
    axis.axis("off")
    draw(axis)
    figure.savefig(FOLDER / f"readme-{draw.__name__}.png", dpi=160, facecolor="white")
