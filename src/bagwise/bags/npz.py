"""NumPy archives: bags saved by `save_npz`, a padded block with its sizes, or a long table as arrays by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bagwise.bags.arrays import unpad
from bagwise.bags.checks import check_targets
from bagwise.bags.choosing import refuse_unknown
from bagwise.bags.claims import refuse_claims
from bagwise.bags.columns import ArrayColumns
from bagwise.bags.container import Bags
from bagwise.bags.fill_values import as_fill_values, warn_of_suspects, with_missing
from bagwise.bags.parts import as_instances, as_offsets, refuse_repeated
from bagwise.bags.reading import reading
from bagwise.bags.tables import fill, gather
from bagwise.writing import replace_file


def save_npz(path, bags: Bags, y=None) -> None:
    """Save bags, and targets if given, as a NumPy archive that `load` reads back exactly, without pickle.

    The archive holds ``instances``, ``offsets``, ``ids``, and where there are any ``targets``, ``groups``,
    ``feature_names``, ``weights``, ``covariates`` and ``covariate_names``. It is written beside its place and moved
    there when complete.

    Examples
    --------
    >>> import tempfile, pathlib, bagwise as bw
    >>> bags = bw.from_arrays([[[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]]], ids=["a", "b"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     bw.save_npz(pathlib.Path(folder) / "bags.npz", bags, [0.5, 1.5])
    ...     again, y = bw.load(pathlib.Path(folder) / "bags.npz")
    >>> again == bags, y.tolist()
    (True, [0.5, 1.5])
    """
    path = Path(path).expanduser()
    if path.suffix.lower() != ".npz":
        raise ValueError(f"the name of the file must end in .npz, not {path.name!r}")
    refuse_repeated(bags.ids)  # a selection may repeat a bag; it could not be loaded again
    arrays = {"instances": bags.instances, "offsets": bags.offsets, "ids": _storable(bags.ids, "ids")}
    if y is not None:
        arrays["targets"] = check_targets(y, bags)
    if bags.groups is not None:
        arrays["groups"] = _storable(bags.groups, "groups")
    for name in ("feature_names", "covariate_names"):
        if getattr(bags, name) is not None:
            arrays[name] = _storable(np.array(getattr(bags, name), dtype=object), name.replace("_", " "))
    arrays |= {name: getattr(bags, name) for name in ("weights", "covariates") if getattr(bags, name) is not None}
    replace_file(path, lambda whole: _write(whole, arrays))


def _write(path: Path, arrays: dict) -> None:
    with path.open("wb") as stream:  # given a name, numpy would change that of BAGS.NPZ
        np.savez(stream, **arrays)


def load_npz(
    path: Path, *, bag, target, features, ignore, groups, missing, fill_values=(), weights=None, bag_features=None
):
    """See `bagwise.load`."""
    with reading(path):
        refuse_claims(path)
    with reading(path), np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    if _are_bags(arrays):
        if features is not None or list(ignore) or weights is not None or bag_features is not None:
            raise ValueError(
                f"{path} holds bags, not a table; features=, ignore=, weights= and bag_features= do not apply"
            )
        return _load_bags(arrays, bag, target, groups, missing, as_fill_values(fill_values))
    return gather(
        ArrayColumns(_as_columns(path, arrays)),
        bag=bag,
        target=target,
        features=features,
        ignore=ignore,
        groups=groups,
        missing=missing,
        fill_values=fill_values,
        weights=weights,
        bag_features=bag_features,
    )


def holds_bags(path: Path) -> bool:
    """Whether an archive holds bags, whose columns have their roles already, rather than a long table."""
    with reading(path):
        refuse_claims(path)
    with reading(path), np.load(path, allow_pickle=False) as archive:
        return _are_bags({name: archive[name] for name in archive.files if name in ("instances", "X")})


def _are_bags(arrays: dict) -> bool:
    """One of our own archives, or a padded block."""
    return "instances" in arrays or getattr(arrays.get("X"), "ndim", 0) == 3


def _load_bags(arrays: dict, bag, target, groups, missing: str, fill_values) -> tuple[Bags, np.ndarray | None]:
    refuse_unknown(arrays, [name for name in (bag, target, groups) if name is not None])
    instances, offsets = _flat(arrays)
    instances = with_missing(instances, fill_values)
    ids, labels = arrays.get(bag or "ids"), arrays.get(groups or "groups")
    extra = {name: arrays.get(name) for name in ("feature_names", "weights", "covariates", "covariate_names")}
    if missing == "drop-instances":
        names = np.arange(len(offsets) - 1) if ids is None else ids
        columns = ArrayColumns(dict(enumerate(instances.T)))
        codes = np.repeat(np.arange(len(names)), np.diff(offsets))
        finite = np.isfinite(instances).all(axis=1)
        instances, offsets = fill(columns, columns.names, codes, names, missing)
        if extra["weights"] is not None and len(extra["weights"]) == len(finite):
            extra["weights"] = extra["weights"][finite]
        missing = "refuse"
    bags = Bags(instances, offsets, ids, groups=labels, missing=missing, **extra)
    y = arrays.get(target or ("targets" if "targets" in arrays else "y"))
    y = None if y is None else check_targets(with_missing(np.asarray(y), fill_values), bags)
    names = bags.feature_names or range(bags.n_features)
    warn_of_suspects([*zip(names, bags.instances.T, strict=True), *([] if y is None else [("targets", y)])])
    return bags, y


def _flat(arrays: dict) -> tuple[np.ndarray, np.ndarray]:
    """Instances and offsets, from either, from sizes, or from a padded block with sizes."""
    if "instances" not in arrays:
        return unpad(arrays["X"], arrays.get("sizes"))
    if "offsets" not in arrays and "sizes" not in arrays:
        raise ValueError("instances alone do not say which rows belong together; store offsets or sizes beside them")
    instances = as_instances(arrays["instances"])
    offsets = arrays["offsets"] if "offsets" in arrays else np.concatenate([[0], np.cumsum(arrays["sizes"])])
    return instances, as_offsets(offsets, len(instances))


def _as_columns(path: Path, arrays: dict) -> dict:
    """Arrays of one length by name; a 2-D array is several columns."""
    columns = {}
    for name, array in arrays.items():
        if array.ndim == 2:
            columns |= {f"{name}_{j + 1}": column for j, column in enumerate(array.T)}
        elif array.ndim == 1:
            columns[name] = array
    if len({len(column) for column in columns.values()}) != 1:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ValueError(f"{path} is not a table: its arrays must have one length, but are {shapes}")
    return columns


def _storable(values: np.ndarray, what: str) -> np.ndarray:
    """Labels as an array that needs no pickle and comes back equal."""
    plain = np.array(values.tolist()) if values.dtype == object else values
    if plain.dtype == object or plain.shape != values.shape or not (plain == values).all():
        raise TypeError(f"{what} can be saved if all are text, all are numbers, or all are dates (datetime64)")
    return plain
