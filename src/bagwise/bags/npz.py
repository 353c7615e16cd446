"""NumPy archives: bags saved by `save_npz`, a padded block with its sizes, or a long table as arrays by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bagwise.bags.arrays import unpad
from bagwise.bags.checks import check_targets
from bagwise.bags.choosing import refuse_unknown
from bagwise.bags.columns import ArrayColumns
from bagwise.bags.container import Bags
from bagwise.bags.parts import as_instances, as_offsets, refuse_repeated
from bagwise.bags.reading import reading
from bagwise.bags.tables import fill, gather
from bagwise.writing import replace_file


def save_npz(path, bags: Bags, y=None) -> None:
    """Save bags, and targets if given, as a NumPy archive that `load` reads back exactly, without pickle.

    The archive holds ``instances``, ``offsets``, ``ids``, and where there are any ``targets``, ``groups`` and
    ``feature_names``. It is written beside its place and moved there when complete.

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
    if bags.feature_names is not None:
        arrays["feature_names"] = _storable(np.array(bags.feature_names, dtype=object), "feature names")
    replace_file(path, lambda whole: np.savez(whole, **arrays))


def load_npz(path: Path, *, bag, target, features, ignore, groups, missing):
    """See `bagwise.load`."""
    with reading(path), np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    # one of our own archives, or a padded block
    if "instances" in arrays or getattr(arrays.get("X"), "ndim", 0) == 3:
        if features is not None or list(ignore):
            raise ValueError(f"{path} holds bags, not a table; features= and ignore= do not apply")
        return _load_bags(arrays, bag, target, groups, missing)
    return gather(
        ArrayColumns(_as_columns(path, arrays)),
        bag=bag,
        target=target,
        features=features,
        ignore=ignore,
        groups=groups,
        missing=missing,
    )


def _load_bags(arrays: dict, bag, target, groups, missing: str) -> tuple[Bags, np.ndarray | None]:
    refuse_unknown(arrays, [name for name in (bag, target, groups) if name is not None])
    instances, offsets = _flat(arrays)
    ids, labels = arrays.get(bag or "ids"), arrays.get(groups or "groups")
    if missing == "drop-instances":
        names = np.arange(len(offsets) - 1) if ids is None else ids
        columns = ArrayColumns(dict(enumerate(instances.T)))
        codes = np.repeat(np.arange(len(names)), np.diff(offsets))
        instances, offsets = fill(columns, columns.names, codes, names, missing)
        missing = "refuse"
    features = arrays.get("feature_names")
    bags = Bags(instances, offsets, ids, groups=labels, feature_names=features, missing=missing)
    y = arrays.get(target or ("targets" if "targets" in arrays else "y"))
    return bags, None if y is None else check_targets(y, bags)


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
