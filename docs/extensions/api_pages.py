"""The API reference, written anew at every build: a page per task, in the order of the work, and one per public name.

A name that `bagwise` itself has is written ``bagwise.name``, any other with its package.
"""

from __future__ import annotations

from importlib import import_module
from inspect import isclass, isroutine
from pathlib import Path

import bagwise

# Offered by a package for its neighbours and for tests: no part of the reference.
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


# Task -> what it is, and its names by heading. A test compares them with what the packages offer.
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
# What a method of an estimator does whose docstring would say no more.
ESTIMATOR = {
    "fit": "Learn from bags and their targets; ``sample_weight`` has one entry per bag. Returns the estimator.",
    "predict": "One prediction per bag, in their order.",
    "transform": "Pass bags on: as rows, one each, or as bags of other instances.",
    "fit_transform": "``fit``, and what ``transform`` makes of the same bags; of predictions, those held out.",
}
HEAD = """API
===

Every public name, by task: **Load**, **Fit**, **Evaluate**, **Explain**, **Save**, **Extend**.
What :mod:`bagwise` offers directly is written ``bw.name`` in these pages, after ``import bagwise as bw``.

.. toctree::
   :hidden:

"""


def offered() -> list[str]:
    """Every class and function that `bagwise` or one of its packages offers, without the leading ``bagwise.``."""
    folder = Path(bagwise.__file__).parent
    packages = sorted(path.parent.name for path in folder.glob("*/__init__.py") if path.parent.name != "cli")
    found = [*bagwise.__all__]
    for module in ("plots", "geo"):
        found += [f"{module}.{name}" for name in getattr(bagwise, module).__all__]
    for package in packages:
        module = import_module(f"bagwise.{package}")
        there = {name: getattr(module, name) for name in getattr(module, "__all__", []) if name not in bagwise.__all__}
        found += [f"{package}.{name}" for name, value in there.items() if isclass(value) or isroutine(value)]
    return [name for name in found if name != "datasets"]


def names(task: str) -> list[str]:
    return [name for group in TASKS[task][1].values() for name in group]


def full_name(name: str) -> str:
    """As Sphinx finds it: ``bw.plots`` and ``bw.geo`` are modules of packages."""
    return "bagwise." + name.replace("plots.", "reports.plots.").replace("geo.", "io.geo.")


def summary(task: str) -> str:
    """A task in the index: what it is, and the names in it."""
    linked = " ".join(f":py:obj:`~{full_name(name)}`" for name in names(task))
    return f":ref:`{task.capitalize()} <api-{task}>`\n   {TASKS[task][0]}\n\n   {linked}"


def page(task: str) -> str:
    """A task's own page: a line on every name."""
    about, groups = TASKS[task]
    lines = [f".. _api-{task}:", "", task.capitalize(), "=" * len(task), "", about, ""]
    for heading, group in groups.items():
        lines += [heading, "-" * len(heading), "", ".. autosummary::", "   :toctree: .", "   :nosignatures:", ""]
        lines += [*(f"   {full_name(name)}" for name in group), ""]
    return "\n".join(lines)


def pages() -> dict[str, str]:
    """File -> text."""
    tree = "\n".join(f"   {task}" for task in TASKS)
    index = "\n\n".join([HEAD + tree, *map(summary, TASKS), ""])
    return {"index": index, **{task: page(task) for task in TASKS}}


def write(app, config) -> None:
    folder = Path(app.srcdir) / "api"
    folder.mkdir(exist_ok=True)
    for name, text in pages().items():
        (folder / f"{name}.rst").write_text(text, encoding="utf-8")


def skip(app, what, name, member, skip, options):
    """The metadata requests that scikit-learn adds to every estimator are no part of ours; ``fit`` always is."""
    if name in ESTIMATOR and isroutine(member):
        return False
    return True if name.startswith("set_") and name.endswith("_request") else None


def describe(app, what, name, member, options, lines) -> None:
    """The usual words for a method of an estimator without a docstring."""
    text = ESTIMATOR.get(name.rpartition(".")[2])
    if what == "method" and text and not any(lines):
        lines[:] = [text, ""]


def setup(app) -> dict:
    app.connect("config-inited", write)  # before Sphinx looks which files there are
    app.connect("autodoc-skip-member", skip)
    app.connect("autodoc-process-docstring", describe)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
