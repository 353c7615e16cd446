"""What is read of a table: the columns by their roles, chosen as `load` chooses them, and their types."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bagwise.bags.choosing import as_list, choose_features
from bagwise.bags.columns import FrameColumns
from bagwise.bags.parts import as_feature_names
from bagwise.bags.roles import refuse_no_labels, refuse_no_target
from bagwise.lake.filters import Where


@dataclass(frozen=True)
class Layout:
    """What is read of every chunk of a scan: which columns, which rows, and in which types."""

    bag: str
    target: str | None
    groups: str | None
    features: tuple[str, ...]
    dtype: np.dtype
    labels: dict  # the types of bag and groups, in which all files agree
    where: Where | None = None

    @classmethod
    def of(cls, schema, roles: dict, features: list, where: Where | None) -> Layout:
        columns = FrameColumns(schema.empty_table())
        dtype = np.dtype(np.float32 if all(columns.single(name) for name in features) else np.float64)
        labels = {name: _plain(schema.field(name).type) for name in (roles["bag"], roles["groups"]) if name is not None}
        return cls(**roles, features=tuple(features), dtype=dtype, labels=labels, where=where)

    def column(self, role: str) -> str:
        """The column that has a role; refused if none has."""
        name = getattr(self, role)
        if name is None:
            raise ValueError(f"the scan has no {role}; name the column with scan(..., {role}=...)")
        return name


def asked_for(roles: dict, features, ignore, where: Where | None) -> list:
    """Every column that is named somewhere."""
    named = [name for name in roles.values() if name is not None]
    others = as_list([] if features is None else features) + as_list(ignore) + (where.names if where else [])
    return list(dict.fromkeys(named + others))


def choose(columns: FrameColumns, roles: dict, features, ignore) -> list:
    """The feature columns, by the rules of `load`, without columns of lists; every other role is fit for it."""
    names = choose_features(columns, **roles, features=features, ignore=ignore)
    lists = [name for name in names if columns.kind(name) in ("list", "vector")]
    if lists:
        raise TypeError(
            f"column {lists[0]!r} holds lists, which are not read chunk by chunk; write a row per instance and a "
            "column per feature, ignore it, or read the table whole with bagwise.load"
        )
    as_feature_names(names, len(names))  # no name twice
    refuse_no_labels(columns, roles["bag"], "bag ids")
    if roles["groups"] is not None:
        refuse_no_labels(columns, roles["groups"], "groups")
    if roles["target"] is not None:
        refuse_no_target(columns, roles["target"])
    return names


def _plain(kind):
    """The type of the labels themselves, where a file holds their numbers in a dictionary."""
    import pyarrow as pa

    return kind.value_type if pa.types.is_dictionary(kind) else kind
