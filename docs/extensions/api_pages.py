"""Write the API reference at each build: an index, a page per task in the order of the work, a page per public name.

Names that `bagwise` itself has are written ``bagwise.name``, all others with their package.
"""

from __future__ import annotations

from importlib import import_module
from inspect import isclass, isroutine
from pathlib import Path

import bagwise

# Names that packages export for other packages and for tests: not part of the reference.
INTERNAL = (
    *("auto.Member", "auto.blend", "auto.blend_weights", "embeddings.mean_gram", "evaluation.Split"),
    *("evaluation.make_splits", "execution.Lost", "execution.executor_for", "kernels.squared_distances"),
    *("kernels.with_bandwidth", "model_files.try_saving", "testing.zoo"),
    *("testing.kernel_ridge", "testing.left_out_residuals", "testing.mean_gram"),
)


def offered_by(package: str) -> tuple[str, ...]:
    """Names of a package that are in the reference and are not names of `bagwise` itself."""
    public = import_module(f"bagwise.{package}").__all__
    return tuple(
        f"{package}.{name}" for name in public if name not in bagwise.__all__ and f"{package}.{name}" not in INTERNAL
    )


# The names that most users need, with which the index begins.
FIRST = (
    *("load", "check_table", "from_arrays", "Bags"),
    *("method", "auto.AutoRegressor", "Intervals"),
    *("evaluate", "Validation", "learning_curve"),
    *("explain", "importance", "novelty"),
    *("save_model", "load_model"),
)
# Task -> a description, and its names by heading. A test compares them with what the packages export.
TASKS: dict[str, tuple[str, dict[str, tuple[str, ...]]]] = {
    "load": (
        "Bags and targets from tables, files, arrays and rasters.",
        {
            "From tables and files": ("load", "check_table", "from_folder"),
            "From other fields": (
                "from_raster",
                "from_cube",
                "from_anndata",
                "to_anndata",
                "from_smiles",
                "from_sequences",
            ),
            "Blocks and maps": ("geo.blocks", "geo.to_raster", "geo.to_zones"),
            "From arrays": ("from_arrays", "from_padded", "from_awkward"),
            "The container": ("Bags",),
            "Tables larger than memory": ("scan", "scale.Scan"),
            "Simulated and published data": offered_by("datasets"),
        },
    ),
    "fit": (
        "A method by its name, fitted to bags; intervals around its predictions.",
        {
            "Methods": ("method", "method_names", "method_card", "methods.Card", "auto.AutoRegressor", "MultiTarget"),
            "Intervals": (
                *("Intervals", "intervals.PredictiveDistribution", "intervals.BagQuantiles", "intervals.coverage"),
                *("intervals.coverage_by", "intervals.coverage_by_size", "intervals.gaussian_coverage"),
                "intervals.units_needed",
            ),
            "Out of core, and on a cluster": (
                "fit_scan",
                "predict_scan",
                "cluster",
            ),
        },
    ),
    "evaluate": (
        "Methods compared on the same folds of bags, and the report.",
        {
            "Comparison": ("evaluate", "Results", "Validation", "BagKFold"),
            "Would more data help": ("learning_curve", "evaluation.LearningCurve"),
            "Statistics": ("evaluation.corrected_t_test", "evaluation.holm"),
            "Reports": ("reports.write_report", "reports.write_model_report"),
        },
    ),
    "explain": (
        "Which instances a prediction rests on, and pictures.",
        {
            "Instances": ("explain", "Explanation", "predict_subset", "SubsetPredictions"),
            "Features": ("importance", "Importance"),
            "New bags": ("novelty", "Novelty"),
            "Pictures": (
                *("plots.predicted_against_true", "plots.residuals_against_size", "plots.fold_scores"),
                *("plots.calibration", "plots.bag_distributions", "plots.learned_function", "plots.contributions"),
                *("plots.map_of_bags", "plots.learning_curve", "plots.importance"),
            ),
        },
    ),
    "save": (
        "Models in one file that opens without running code; bags in one file.",
        {
            "Models": ("save_model", "load_model", "model_files.read_header", "model_files.describe_training"),
            "Bags": ("save_npz",),
        },
    ),
    "extend": (
        "The parts that methods are made of, and what your own need.",
        {
            "Pipelines": ("BagPipeline",),
            "From instances to numbers": (
                *("OutOfFold", "instances.NetworkRegressor", "instances.RandomFeatureRidge", "instances.EachInstance"),
                *("instances.OutOfFoldUnion", "instances.ColumnScaler", "instances.Imputation", "instances.CrossFit"),
                "instances.CrossFitting",
            ),
            "From bags to rows": offered_by("embeddings"),
            "From rows or bags to targets": ("EmbeddingRidge", *offered_by("regressors")),
            "Kernels": offered_by("kernels"),
            "Scale of the errors": ("intervals.BagScale",),
            "Checks of arguments": (
                *("bags.check_bags", "bags.check_fit", "bags.check_targets", "bags.check_weights"),
                *("bags.weights_or_ones", "bags.remember_columns", "bags.bag_folds", "bags.split_bags", "bags.Folds"),
            ),
            "Who runs the cells": ("execution.Serial", "execution.Processes", "execution.Dask"),
            "Checks of your estimator": (
                *("check_bag_estimator", "testing.parametrize_with_checks", "testing.bag_estimator_checks"),
            ),
        },
    ),
}
# Descriptions of estimator methods that have no docstring of their own.
ESTIMATOR = {
    "fit": "Learn from bags and their targets; ``sample_weight`` has one entry per bag. Return the estimator.",
    "predict": "Return one prediction per bag, in the order of the bags.",
    "transform": "Return one row per bag, or bags of other instances.",
    "fit_transform": "Fit, and transform the same bags; predictions of instances are held out.",
}
HEAD = """API
===

Most programs need only these {first} names, after ``import bagwise as bw``:

{table}
All public names, by task
-------------------------

.. toctree::
   :hidden:

{tree}

"""


def offered() -> list[str]:
    """Return all classes and functions that `bagwise` or its packages export, without the leading ``bagwise.``."""
    folder = Path(bagwise.__file__).parent
    packages = sorted(path.parent.name for path in folder.glob("*/__init__.py") if path.parent.name != "cli")
    public = [*bagwise.__all__]
    for module in ("plots", "geo"):
        public += [f"{module}.{name}" for name in getattr(bagwise, module).__all__]
    for package in packages:
        module = import_module(f"bagwise.{package}")
        objects = {
            name: getattr(module, name) for name in getattr(module, "__all__", []) if name not in bagwise.__all__
        }
        public += [f"{package}.{name}" for name, value in objects.items() if isclass(value) or isroutine(value)]
    return [name for name in public if name != "datasets"]


def names(task: str) -> list[str]:
    return [name for group in TASKS[task][1].values() for name in group]


def full_name(name: str) -> str:
    """Return the name by which Sphinx imports it: ``bw.plots`` and ``bw.geo`` are modules of packages."""
    return "bagwise." + name.replace("plots.", "reports.plots.").replace("geo.", "io.geo.")


def summary(task: str) -> str:
    """Return the entry of a task in the index: its description and its names."""
    linked = " ".join(f":py:obj:`~{full_name(name)}`" for name in names(task))
    return f":ref:`{task.capitalize()} <api-{task}>`\n   {TASKS[task][0]}\n\n   {linked}"


def table(listed: tuple[str, ...], toctree: str = "") -> str:
    """Return a table with a line per name; ``toctree`` makes a page per name as well."""
    options = [f"   :toctree: {toctree}"] if toctree else []
    return "\n".join(
        [".. autosummary::", *options, "   :nosignatures:", "", *(f"   {full_name(n)}" for n in listed), ""]
    )


def page(task: str) -> str:
    """Return the page of a task: a table per heading."""
    about, groups = TASKS[task]
    lines = [f".. _api-{task}:", "", task.capitalize(), "=" * len(task), "", about, ""]
    for heading, group in groups.items():
        lines += [heading, "-" * len(heading), "", table(group, toctree=".")]
    return "\n".join(lines)


def pages() -> dict[str, str]:
    """Return file -> text."""
    tree = "\n".join(f"   {task}" for task in TASKS)
    head = HEAD.format(first=len(FIRST), table=table(FIRST), tree=tree)
    index = "\n\n".join([head, *map(summary, TASKS), ""])
    return {"index": index, **{task: page(task) for task in TASKS}}


def write(app, config) -> None:
    folder = Path(app.srcdir) / "api"
    folder.mkdir(exist_ok=True)
    for name, text in pages().items():
        (folder / f"{name}.rst").write_text(text, encoding="utf-8")


def skip(app, what, name, member, skip, options):
    """Leave out the metadata requests that scikit-learn adds to each estimator; keep ``fit``."""
    if name in ESTIMATOR and isroutine(member):
        return False
    return True if name.startswith("set_") and name.endswith("_request") else None


def describe(app, what, name, member, options, lines) -> None:
    """Describe estimator methods without a docstring."""
    text = ESTIMATOR.get(name.rpartition(".")[2])
    if what == "method" and text and not any(lines):
        lines[:] = [text, ""]


def setup(app) -> dict:
    app.connect("config-inited", write)  # before Sphinx looks which files there are
    app.connect("autodoc-skip-member", skip)
    app.connect("autodoc-process-docstring", describe)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
