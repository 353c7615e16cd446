"""`load`: bags and targets from a data frame or from files."""

from __future__ import annotations

from dataclasses import replace

import narwhals as nw
import numpy as np
from scipy.sparse import csr_array

from bagwise.bags.container import Bags
from bagwise.bags.frames import FrameColumns, as_frame, as_list, as_matrix, names_files
from bagwise.bags.shared_rows import SHARED_ROWS, warn_of_shared_rows
from bagwise.bags.validation import ParameterError, label, name_bags, one_of, warn_user
from bagwise.io.columns import (
    USABLE,
    Roles,
    alike_ids,
    choose_features,
    describe_suspects,
    find_bags,
    first_rows,
    is_auto,
    is_made_of,
    left_out,
    one_label,
    read_targets,
    refuse_no_bag,
    refuse_not_numeric,
    refuse_unknown,
    split_covariates,
    suspects,
)

READING = ("missing", "fill_values", "variable", "decimal", "time", "fold")  # options of `load` that are not in `Roles`


def collect(frame, roles: Roles) -> tuple[object, Roles]:
    """Collect the columns of a lazy frame that have a role or may be features; also return roles without ``ignore``."""
    try:
        lazy = nw.from_native(frame)
    except (TypeError, nw.exceptions.DuplicateError):
        return as_frame(frame), roles  # raises an error with the reason
    if not isinstance(lazy, nw.LazyFrame):
        return frame, roles
    schema = lazy.collect_schema()
    if roles.bag is None:
        return lazy.head(1).collect().to_native(), roles  # the caller raises an error that lists the columns
    refuse_unknown(schema, [roles.bag], parameter="bag")
    refuse_unknown(schema, as_list(roles.ignore), parameter="ignore")
    named = replace(roles, ignore=()).asked()
    needed = {name for name in schema if any(is_made_of(name, role) for role in named)}
    if roles.targets is None:  # else they may be columns of the second table
        refuse_unknown(schema, [role for role in named if not any(is_made_of(name, role) for name in needed)])
    types = _without_rows(schema)
    if is_auto(roles.categories):
        needed |= {name for name in schema if types.kind(name) in ("String", "Categorical")}
    needed -= set(as_list(roles.ignore)) - set(named)
    if roles.features is None:
        unused = [name for name in schema if name not in {*needed, *as_list(roles.ignore)}]
        needed |= {name for name in unused if types.kind(name) in USABLE}
        if notes := left_out(types, roles, list(needed)):
            warn_user("; ".join(notes))
    return lazy.select([name for name in schema if name in needed]).collect().to_native(), replace(roles, ignore=())


def _without_rows(schema) -> FrameColumns:
    """Return empty columns with the types of a lazy frame."""
    import pyarrow as pa

    fields = []
    for name in schema:
        try:
            fields.append(nw.Schema({name: schema[name]}).to_arrow().field(0))
        except (NotImplementedError, TypeError, AssertionError):  # a type that Arrow does not have
            fields.append(pa.field(name, pa.null()))
    return FrameColumns(pa.schema(fields).empty_table())


def load(
    source,
    *,
    bag=None,
    target=None,
    features=None,
    ignore=(),
    groups=None,
    missing="refuse",
    fill_values=(),
    weights=None,
    bag_features=None,
    variable=None,
    keep=(),
    decimal=".",
    categories=(),
    dates=(),
    targets=None,
    time=None,
    fold=None,
) -> tuple[Bags, np.ndarray | None]:
    """Load bags and targets from a data frame, or from files by the endings of their names.

    - **.csv, .tsv** (also .gz), **.parquet, .feather, .arrow**: a long table, without the unnamed row numbers that
      pandas writes. Bag ids and groups of a .csv or .tsv are integers if all are written as integers, and otherwise
      text, so "007", "1.10" and "1e5" are unchanged.
    - **.mat**: a MATLAB matrix with the bag id in the first column and the target in the last, as in MISR1.mat;
      other columns by position. Features are named x1, x2, ...; those of MISR1, MISR2 and MODIS reflectance_1, ...,
      angle_1, ...
    - **.npz**: bags saved by `save_npz`, or arrays of these names (instances with offsets or sizes), a padded array X
      with sizes (and y), or a long table as arrays by name. There ``bag``, ``target`` and ``groups`` are names of
      arrays. Pickled arrays are never read.

    Several tables, passed as a list of paths or as a pattern such as ``"year-*.parquet"``, are concatenated, and a bag
    may span several of them. The same holds for the Parquet files below a folder, or at a URL that fsspec supports
    (``s3://bucket/pixels``). A folder named ``year=2020`` gives its files a column ``year``, which is used
    only if you name it. Read tables larger than memory with `scan`. Of a lazy frame (polars LazyFrame, DuckDB relation)
    only the columns that are needed are computed.

    Bags are in order of first appearance; the rows of a bag need not be adjacent. A column of *lists* has a row per
    bag: the values of its instances, or one list of features per instance; other columns are repeated for each
    instance. A column of *fixed-size* lists has a row per instance: its features, named ``column_1``, ``column_2``, ...

    Parameters
    ----------
    source : data frame of any library (pandas, polars, pyarrow, ...), path, pattern, folder, URL, or list of paths
    bag : column of bag ids
        Text, integers, dates or categories; never null. Needed for every table.
    target : column of targets, optional
        The same number on every row of a bag. Several columns give several targets (see `MultiTarget`); then a bag may
        lack some of them, but not all.
    features : columns, optional
        Default: every column of numbers or booleans that has no other role and is not ignored. A warning names the
        columns that are left out.
    ignore : columns to leave out of the default features
    groups : column of labels, the same on every row of a bag, optional
        Bags of one group stay together in every inner split. With "shared-rows", bags that share rows are one group.
    missing : {"refuse", "drop-instances", "impute", "keep"}
        What to do with rows that have NaN or null features: raise an error, drop the row, keep the values and let every
        method impute them, or keep the values for methods that read NaN. Infinite values raise an error, except with
        "drop-instances", which drops the row.
    fill_values : number, text, or a list of them, default none
        Values that mean a missing value in features, targets, weights and covariates, such as -9999 or "n/a?". A
        warning lists values that look like undeclared fill values.
    weights : column of instance weights, optional
        Zero or positive, and at least one above zero in each bag.
    bag_features : columns, or "auto", optional
        Columns that are the same on every row of a bag become its covariates instead of features of the instances.
        "auto" selects each feature column that never varies within a bag, but leaves at least one feature for the
        instances, and selects none if all bags have one row.
    categories : columns, "auto", or dict of column -> levels, optional
        Each level becomes a feature ``crop=wheat`` that is 1 or 0, and ``crop=other`` stands for other levels and for
        missing ones. The levels are those of the table (at most the 50 most frequent), or those that you pass. To
        predict new tables with the same levels, load them with ``features=list(model.feature_names_in_)``. "auto"
        selects text columns with 2 to 20 levels that occur in several bags, and a warning lists them.
    dates : columns, optional
        Dates, or text such as 2019-04-23. Each becomes three features: ``sown_sine`` and ``sown_cosine`` of the day of
        the year, as an angle, so that December is next to January; and ``sown_year``.
    targets : data frame or path, optional
        A second table with a row per bag, joined by the column ``bag``: the target, groups, weights and bag features
        may be columns of it. The target need not be named if it is the only remaining numeric column. Bags
        without a target are left out; a warning counts them, and the rows of this table without a bag.
    variable : str, optional
        The matrix to take from a .mat file that holds several.
    keep : columns, optional
        Columns to copy into ``bags.kept`` and into tables of instances; they are never features. ``row``, the position
        of each instance in the table (from 0), is always copied.
    decimal : {".", ","}
        With ",", text such as 1,5 is read as a number, and a .csv may be separated by ";".
    time : column of dates or numbers, the same on each row of a bag, optional
        The order of the bags in time, for ``folds="forward"``; see `Validation`.
    fold : column of folds, or of "train" and "test", the same on each row of a bag, optional
        The column then defines all folds, unless you ask for another scheme.

    Returns
    -------
    bags : Bags
        float32 if every feature column is float32, else float64.
    y : array of float64, one target per bag (a column per target for several), or None without a target

    Examples
    --------
    >>> import pandas as pd, bagwise as bw
    >>> frame = pd.DataFrame({"site": ["a", "a", "b"], "red": [1.0, 2.0, 3.0], "aod": [0.1, 0.1, 0.3]})
    >>> bags, y = bw.load(frame, bag="site", target="aod")
    >>> bags
    Bags: 2 bags of 1 to 2 instances (3 in all), 1 feature
    """
    roles = Roles(bag, target, features, ignore, groups, weights, bag_features, keep, categories, dates, targets)
    how = {"missing": missing, "fill_values": fill_values, "variable": variable, "decimal": decimal}
    bags, y, _ = load_labels(source, roles, time=time, fold=fold, **how)
    refuse_constant_target(y)
    return bags, y


def load_to_score(source, **options) -> tuple[Bags, np.ndarray | None]:
    """Load bags and true targets for scoring, with the options of `load`; the targets may all be equal."""
    how = {name: options.pop(name) for name in READING if name in options}
    return load_labels(source, Roles(**options), **how)[:2]


def load_labels(
    source, roles: Roles, *, missing="refuse", fill_values=(), variable=None, decimal=".", time=None, fold=None
) -> tuple[Bags, np.ndarray | None, dict[str, np.ndarray]]:
    """Load bags with declared times and folds, their targets, and the columns named in ``roles.labels``."""
    declared = {name: column for name, column in (("time", time), ("fold", fold)) if column is not None}
    roles = replace(roles, labels=roles.labels | declared)
    one_of(decimal, (".", ","), "decimal")
    if names_files(source):
        bags, y, labels = _load_files(source, roles, missing, fill_values, variable, decimal)
    else:
        source, roles = collect(source, roles)
        bags, y, labels = gather(FrameColumns(source, fill_values, decimal), roles, missing)
    if declared:
        from bagwise.bags.folds import Validation

        scheme = "random" if fold is None else "given"
        bags = bags.with_validation(Validation(scheme, time=labels.pop("time", None), given=labels.pop("fold", None)))
    return bags, y, labels


def _load_files(source, roles: Roles, missing, fill_values, variable, decimal) -> tuple:
    from bagwise.io.table_files import find_files, read_files

    only = roles.features is not None and roles.bag is not None and roles.targets is None and not roles.derived
    table = read_files(source, roles, only=only, decimal=decimal)
    path = None if table is not None else find_files(source)[0]
    if path is not None and path.suffix.lower() == ".mat":
        from bagwise.io.matlab_files import load_mat

        return load_mat(path, roles, missing=missing, fill_values=fill_values, variable=variable)
    if variable is not None:
        name = path.name if path else source
        raise ParameterError("variable", f"variable= chooses a matrix of a .mat file; {name} is not one")
    if path is not None:
        from bagwise.io.array_files import load_npz

        return load_npz(path, roles, missing=missing, fill_values=fill_values)
    return gather(FrameColumns(table, fill_values, decimal), roles, missing)


def refuse_constant_target(y) -> None:
    """Refuse a target that is the same for all bags, of which there are at least two."""
    for target in [] if y is None else np.reshape(y, (len(y), -1)).T:
        values = target[~np.isnan(target)]
        if len(values) > 1 and (values == values[0]).all():
            raise ParameterError(
                "target",
                f"every bag has the same target, {values[0]:g}, so there is nothing to learn; check that this is "
                "the target column",
            )


def prepare(table, roles: Roles) -> tuple[FrameColumns, Roles, dict, list]:
    """Join the second table and encode categories and dates; return also the levels by column, and notes."""
    if table.n_rows == 0:
        raise ValueError("the table has no rows; at least one is required. Check the file, or the condition on rows")
    refuse_no_bag(table, roles.bag)
    notes: list = []
    if roles.targets is not None:
        from bagwise.io.second_table import join

        table, roles, notes = join(table, roles)
    if not roles.encoded:
        return table, roles, {}, notes
    from bagwise.io.encodings import encode

    table, roles, categories, encoding_notes = encode(table, roles)
    return table, roles, categories, [*encoding_notes, *notes]


def gather(table, roles: Roles, missing: str = "refuse") -> tuple[Bags, np.ndarray | None, dict[str, np.ndarray]]:
    """Build bags, targets and further labels of the bags from the columns of a table by their roles."""
    one_of(missing, ("refuse", "drop-instances", "impute", "keep"), "missing")
    table, roles, categories, notes = prepare(table, roles)
    names = choose_features(table, roles)
    notes += left_out(table, roles, names) if roles.features is None else []
    codes, ids = find_bags(table, roles.bag)
    if doubt := alike_ids(ids):
        warn_user(doubt)
    first, targets = first_rows(codes), roles.target_list
    y = read_targets(table, targets, codes, first, ids)
    groups = None if roles.groups is None else one_label(table, roles.groups, codes, first, ids)
    labels = {
        name: one_label(table, column, codes, first, ids, noun=name, parameter=name)
        for name, column in roles.labels.items()
    }
    names, covariates = split_covariates(table, names, roles, codes, first, ids)
    weights = [] if roles.weights is None else [roles.weights]
    for name in weights:
        if table.kind(name) not in ("list", "vector"):
            refuse_not_numeric(table, name, "instance weights", "weights")
    # A row with lists may become several instances.
    whole, row_of_instance = table, np.arange(len(codes), dtype=np.int32 if len(codes) < 2**31 else np.int64)
    if any(table.kind(name) in ("list", "vector") for name in names):
        from bagwise.io.encodings import spread_lists

        table, columns, codes = spread_lists(table, [*names, *weights], codes, ids)
        if len(codes) != len(row_of_instance):  # a list column has a row per bag
            row_of_instance = first[codes]
        names = [name for name in columns if name not in weights]
    rows, offsets = rows_in_order(table, names, codes, ids, missing)
    n_dropped = len(codes) - offsets[-1]
    if n_dropped:
        affected = np.bincount(codes, minlength=len(ids)) > np.diff(offsets)
        notes.append(
            f"{n_dropped:,} of {len(codes):,} rows, in {np.count_nonzero(affected):,} of {len(ids):,} bags, have "
            "missing or infinite values and were dropped"
        )
    origin = row_of_instance if whole.origin is None else whole.origin[row_of_instance]
    carried = {"row": origin[rows]}
    carried |= {name: whole.values(name)[row_of_instance[rows]] for name in as_list(roles.keep)}
    if n_dropped:  # positions within a bag include dropped rows
        order, starts = rows_in_order(table, names, codes, ids, "refuse")
        place = np.empty(len(codes), dtype=np.int64)
        place[order] = np.arange(len(codes)) - np.repeat(starts[:-1], np.diff(starts))
        carried["instance"] = place[rows]
    if notes:
        warn_user("; ".join(notes))
    bags = Bags(
        as_matrix(table, names, rows),
        offsets,
        ids,
        groups=SHARED_ROWS if roles.group_by_rows else groups,
        feature_names=names,
        missing="refuse" if missing == "drop-instances" else missing,
        weights=table.numbers(roles.weights)[rows] if weights else None,
        **covariates,
    )
    warn_of_values(bags, y, targets, shared_rows=set(roles.labels) <= {"time"})
    texts = tuple(map(str, targets))
    metadata = {"id_name": str(roles.bag), "target_name": texts if len(texts) > 1 else next(iter(texts), None)}
    return bags._with(kept=carried, **metadata, categories=categories or None), y, labels


def warn_of_values(bags: Bags, y, targets: list, *, shared_rows: bool) -> None:
    """Warn of values that look like fill values and, with ``shared_rows``, of rows that occur in several bags."""
    columns = [] if y is None else zip(targets, np.reshape(y, (len(bags), -1)).T, strict=True)
    columns = [*zip(bags.feature_names or range(bags.n_features), bags.instances.T, strict=True), *columns]
    if suspect_columns := {str(name): counts for name, values in columns if (counts := suspects(values))}:
        warn_user(describe_suspects(suspect_columns))
    if y is not None and shared_rows:
        warn_of_shared_rows(bags)


def rows_in_order(table, names, codes, ids, missing) -> tuple[np.ndarray | slice, np.ndarray]:
    """Return the rows of the instances, bag after bag (a slice if all are in order), and the offsets of the bags."""
    rows: slice | np.ndarray = slice(None)
    if missing == "drop-instances":
        finite = np.ones(len(codes), dtype=bool)
        for name in names:
            finite &= np.isfinite(table.numbers(name))
        rows = np.flatnonzero(finite)
        codes = codes[rows]
    sizes = np.bincount(codes, minlength=len(ids))
    if (sizes == 0).any():
        raise ParameterError(
            "missing",
            f"{name_bags(ids, sizes == 0)} no finite instance; every bag needs one; "
            "drop such bags and their targets, or impute the values",
        )
    if (codes[1:] < codes[:-1]).any():
        # a stable sort by bag; transposing a sparse matrix counts instead of comparing: 10 times faster
        n = len(codes)
        order = csr_array((np.ones(n, dtype=bool), codes, np.arange(n + 1)), shape=(n, len(ids))).tocsc().indices
        rows = order if isinstance(rows, slice) else rows[order]
    return rows, np.concatenate([[0], np.cumsum(sizes)])


def attributes(table: FrameColumns, roles: Roles, *, repeated: str) -> tuple[Bags, np.ndarray | None]:
    """Read a table with a row per bag, with the checks of `load`: bags of one instance, its position, and targets."""
    covariates = None if roles.bag_features is None else as_list(roles.bag_features)  # "auto" needs several rows
    refuse_unknown(table.names, [*roles.taken, *(covariates or ())])
    codes, ids = find_bags(table, roles.bag)
    if len(ids) < len(codes):
        raise ValueError(repeated.format(id=label(ids[np.bincount(codes).argmax()]), column=roles.bag))
    position = "the position in the table"
    table = table.with_columns({position: np.arange(table.n_rows)})
    return gather(table, replace(roles, bag_features=covariates, features=[position]))[:2]


def with_instances(attributes: Bags, instances: np.ndarray, sizes, **parts) -> Bags:
    """Build bags of instances, of the given sizes, with the ids, groups and covariates of other bags."""
    names = ("groups", "covariates", "covariate_names")
    parts = {name: getattr(attributes, name) for name in names} | parts
    return Bags(instances, np.concatenate([[0], np.cumsum(sizes)]), attributes.ids, **parts)
