"""`from_anndata`: a bag per donor, an instance per cell; `to_anndata` writes explanations of the cells to ``obs``."""

from __future__ import annotations

import os
from contextlib import contextmanager

import numpy as np
from scipy.sparse import csr_array, issparse

from bagwise.bags import Bags
from bagwise.bags.frames import as_list
from bagwise.bags.validation import ParameterError, and_others, float_dtype, one_of
from bagwise.io.columns import is_auto, refuse_unknown
from bagwise.io.load import load, with_instances
from bagwise.io.table_files import reading

BLOCK = 1 << 22  # numbers read at a time
CELL = "obs_names"  # the name of the column of cell names in `bags.kept`
_POSITION = "the position in obs"
# Attribute of an explanation -> column of `obs`.
_COLUMNS = {"instance_predictions": "instance_prediction", "contributions": "contribution", "weights": "weight"}
_COLUMNS |= {"effects": "effect"}


def from_anndata(
    adata,
    *,
    bag,
    target=None,
    use="obsm:X_pca",
    features=None,
    groups=None,
    weights=None,
    bag_features=None,
    keep=(),
    missing="refuse",
) -> tuple[Bags, np.ndarray | None]:
    """Build bags and targets from an AnnData object: each donor (or sample) is a bag, each cell an instance.

    The features of a cell are its row of ``use``; everything else comes from ``adata.obs``. The matrix is read by
    blocks of rows, also from a file that is opened with ``backed="r"``. A sparse matrix becomes dense in the bags, so
    select genes with ``features``, or use a reduction such as ``"obsm:X_pca"``.

    Parameters
    ----------
    adata : anndata.AnnData, backed or in memory, or the path of a .h5ad file
    bag : column of ``obs`` with the bag ids
    target : column of ``obs`` with the targets, optional
        The same number on every cell of a bag.
    use : "X", "layers:NAME" or "obsm:NAME"
        The matrix that holds the features.
    features : names, optional
        Genes for "X" and "layers:NAME", or columns of an ``obsm``, called ``pca_1``, ``pca_2``, ... for "obsm:X_pca"
        if it is no data frame. Default: all.
    groups : column of ``obs``, optional
        Bags of one group stay together in every inner split.
    weights : column of ``obs`` with instance weights, optional
    bag_features : columns of ``obs``, optional
        Numbers of the donor as a whole, such as the age: they become the bags' covariates.
    keep : columns of ``obs``, optional
        They are copied to ``bags.kept`` and into tables of instances; they are never features.
    missing : {"refuse", "impute", "keep"}
        Whether NaN among the features is refused or kept for a method that takes it.

    Returns
    -------
    bags : Bags
        float32 if the matrix is, else float64. ``bags.kept`` holds ``obs_names`` and ``row``, the position in ``obs``.
    y : array of float64, one target per bag, or None without ``target``

    Examples
    --------
    >>> import anndata, numpy as np, pandas as pd, bagwise as bw
    >>> obs = pd.DataFrame({"donor": ["b", "a", "b"], "age": [60, 35, 60]}, index=["c1", "c2", "c3"])
    >>> adata = anndata.AnnData(np.eye(3, dtype="float32"), obs=obs, obsm={"X_pca": np.arange(6.0).reshape(3, 2)})
    >>> bags, y = bw.from_anndata(adata, bag="donor", target="age", use="obsm:X_pca")
    >>> bags.ids.tolist(), y.tolist(), bags.feature_names, bags[0].tolist()
    (['b', 'a'], [60.0, 35.0], ('pca_1', 'pca_2'), [[0.0, 1.0], [4.0, 5.0]])
    """
    one_of(missing, ("refuse", "impute", "keep"), "missing")
    if is_auto(bag_features):
        raise ParameterError("bag_features", "bag_features must name columns of obs here, not 'auto'")
    with _opened(adata) as cells:
        obs = cells.obs.assign(**{_POSITION: np.arange(cells.n_obs)})
        roles = {"bag": bag, "target": target, "groups": groups, "weights": weights, "bag_features": bag_features}
        attributes, y = load(obs, features=[_POSITION], keep=keep, **roles)
        order = attributes.instances[:, 0].astype(np.int64)
        matrix, names = _matrix(cells, use)
        chosen = names if features is None else as_list(features)
        if not chosen:
            raise ParameterError("features", f"features is empty; name columns of {use}, or leave it out to take all")
        refuse_unknown(names, chosen)
        positions = {name: j for j, name in enumerate(names)}
        columns = slice(None) if features is None else [positions[name] for name in chosen]
        instances = _read(matrix, order, columns, len(chosen))
        carried = (attributes.kept or {}) | {CELL: cells.obs_names.to_numpy()[order]}
    bags = with_instances(
        attributes, instances, attributes.sizes, feature_names=chosen, missing=missing, weights=attributes.weights
    )
    return bags._with(kept=carried), y


def to_anndata(explanation, adata, *, prefix="bagwise_") -> list[str]:
    """Write the explanation of each cell to ``adata.obs``, matched by cell name.

    The columns are ``bagwise_prediction`` (of the cell's bag), and those of ``bagwise_contribution``,
    ``bagwise_weight``, ``bagwise_effect`` and ``bagwise_instance_prediction`` that the method has. Cells that were
    not explained get NaN. A backed object changes in memory; ``adata.write()`` stores it.

    Parameters
    ----------
    explanation : Explanation of bags that `from_anndata` made
    adata : anndata.AnnData with the explained cells, in any order
    prefix : str
        How the names of the columns begin; columns of these names are replaced.

    Returns
    -------
    names : list of the columns written

    Examples
    --------
    >>> import anndata, numpy as np, pandas as pd, bagwise as bw
    >>> obs = pd.DataFrame({"donor": np.repeat(["a", "b", "c"], 2), "age": np.repeat([60, 35, 50], 2)}).rename(str)
    >>> adata = anndata.AnnData(np.random.default_rng(0).normal(size=(6, 3)), obs=obs)
    >>> bags, y = bw.from_anndata(adata, bag="donor", target="age", use="X")
    >>> bw.to_anndata(bw.explain(bw.method("aggregated").fit(bags, y), bags), adata)
    ['bagwise_prediction', 'bagwise_instance_prediction', 'bagwise_contribution']
    """
    table = explanation.as_dict()
    if CELL not in table:
        raise ValueError(
            "these bags do not name their cells; explain bags that from_anndata made, or write "
            "explanation.table() to obs yourself"
        )
    if not adata.obs_names.is_unique:
        raise ValueError("two cells have one name; call adata.obs_names_make_unique() before from_anndata")
    places = adata.obs_names.get_indexer(table[CELL])
    if (places < 0).any():
        first = table[CELL][(places < 0).argmax()]
        raise ValueError(
            f"cell {first!r}{and_others(int((places < 0).sum()) - 1)} of the explanation is not in adata; "
            "pass the object that from_anndata read, or one with all its cells"
        )
    columns = {"prediction": explanation.bags.expand(explanation.predictions)}
    columns |= {_COLUMNS[name]: table[name] for name in _COLUMNS if name in table}
    for name, values in columns.items():
        column = np.full(adata.n_obs, np.nan)
        column[places] = values
        adata.obs[prefix + name] = column
    return [prefix + name for name in columns]


@contextmanager
def _opened(adata):
    """Yield the object, or open the file that holds it without reading its matrix, and close it at the end."""
    if not isinstance(adata, str | os.PathLike):
        if not all(hasattr(adata, name) for name in ("obs", "obsm", "layers", "X")):
            raise TypeError(f"adata must be an AnnData object or the path of a .h5ad file, not {type(adata).__name__}")
        yield adata
        return
    try:
        from anndata import read_h5ad
    except ImportError as error:
        raise ImportError("reading a .h5ad file needs anndata: pip install 'bagwise[anndata]'") from error
    with reading(adata):
        cells = read_h5ad(os.path.expanduser(adata), backed="r")
    try:
        yield cells
    finally:
        cells.file.close()


def _matrix(cells, use: str) -> tuple:
    """Return the matrix that ``use`` names, and the names of its columns."""
    where, _, key = str(use).partition(":")
    if use == "X" and cells.X is not None:
        return cells.X, cells.var_names.tolist()
    offered = [*(["X"] if cells.X is not None else []), *(f"layers:{name}" for name in cells.layers)]
    offered += [f"obsm:{name}" for name in cells.obsm]
    if where not in ("layers", "obsm") or use not in offered:
        raise ParameterError("use", f"there is no {use!r} in adata; use is one of {', '.join(offered) or 'none'}")
    matrix = getattr(cells, where)[key]
    if where == "layers":
        return matrix, cells.var_names.tolist()
    if hasattr(matrix, "columns"):
        return matrix.to_numpy(), [str(name) for name in matrix.columns]
    return matrix, [f"{key.removeprefix('X_')}_{j + 1}" for j in range(matrix.shape[1])]


def _read(matrix, order: np.ndarray, columns, n_columns: int) -> np.ndarray:
    """Read the rows in file order, a block at a time, and return them in the order of the bags."""
    height, width = matrix.shape
    read = np.empty((len(order), n_columns), float_dtype([matrix.dtype]))
    places = np.full(height, -1)
    places[order] = np.arange(len(order))
    if getattr(matrix, "format", None) == "csc":  # the rows of a bag are spread over the file
        matrix = (matrix.to_memory() if hasattr(matrix, "to_memory") else matrix).tocsr()
    step = max(1, BLOCK // width)
    for start in range(0, height, step):
        block = _rows(matrix, start, min(start + step, height))
        block = block[:, columns].toarray() if issparse(block) else np.asarray(block)[:, columns]
        targets = places[start : start + step]
        read[targets[targets >= 0]] = block[targets >= 0]
    return read


def _rows(matrix, start: int, stop: int):
    """Read consecutive rows; slice the parts of a sparse matrix, because versions of anndata slice it differently."""
    if not hasattr(matrix, "group"):
        return matrix[start:stop]
    ends = matrix.group["indptr"][start : stop + 1]
    values, places = (matrix.group[name][ends[0] : ends[-1]] for name in ("data", "indices"))
    return csr_array((values, places, ends - ends[0]), shape=(stop - start, matrix.shape[1]))
