"""The names of our classes in model files: stable, whatever module a class lives in.

A file says ``bagwise.RidgePath``; the table below says where that class is now. So a class can move, or be renamed,
without breaking a file: its line changes, its name does not. A class that is not in the table cannot be in a file.
Files of format 2 named modules, as they were then; a second table gives those classes their names.
"""

from __future__ import annotations

OURS = "bagwise"

# Module: the names of its classes. "Name=Class" where the class goes by another name in files.
_PLACES = {
    "auto.auto_regressor": ("AutoRegressor",),
    "auto.cross_validation": ("LearningCurve=Curve",),
    "auto.members": ("MeanTarget",),
    "auto.preparation": ("Components", "CovariateRouting=Routing", "MonotoneTarget", "ThinBags"),
    "bags.folds": ("BagKFold",),
    "bags.training_profile": ("TrainingProfile",),
    "embeddings.base": ("CovariatesBeside",),
    "embeddings.feature_mean": ("FeatureMean", "MinusDistance", "NystroemMean", "PhaseMean", "Similarity"),
    "embeddings.kernel_mean": (
        "ChebyshevInterpolant=Interpolant",
        "KernelMean",
    ),
    "embeddings.landmarks": ("LandmarkMean",),
    "embeddings.second_kernel": ("SecondKernel",),
    "embeddings.summaries": ("Pool", "QuantileRows", "SlicedQuantiles", "Statistics"),
    "instances.imputation": ("Imputation",),
    "instances.networks.ensemble": ("NetworkEnsemble",),
    "instances.networks.estimator": ("NetworkRegressor",),
    "instances.out_of_fold": (
        "EachInstance",
        "FoldMean",
        "OutOfFold",
        "OutOfFoldUnion",
    ),
    "instances.random_feature_ridge": (
        "ColumnScaler",
        "RandomFeatureRidge",
    ),
    "intervals.calibration": (
        "FoldModels",
        "LeftOutRidgePath=LeavingOut",
        "LeftOutHead",
        "LeftOutRidge",
        "RidgeSmoother=Smoother",
    ),
    "intervals.conformal": ("Intervals",),
    "intervals.quantile_regression": (
        "BagQuantiles",
        "FoldQuantiles",
    ),
    "intervals.scales": (
        "BagScale",
        "ConstantScale=Constant",
        "FittedScale=Fitted",
        "ModelScale=ModelStd",
    ),
    "kernels.bandwidths": (
        "MarginalPseudolikelihood",
        "MedianDistance",
    ),
    "kernels.formulas": (
        "Cauchy",
        "Exponential",
        "Gaussian",
        "InverseMultiquadric",
        "Linear",
        "Matern32",
        "Matern52",
        "Polynomial",
        "PrintedInverse",
        "RationalQuadratic",
        "Student",
    ),
    "kernels.random_features": (
        "FourierFeatures",
        "NystroemFeatures",
    ),
    "model_files.registry": ("Bags=make_bags",),
    "regressors.additive": ("AdditiveRegressor",),
    "regressors.attention.attention_regressor": (
        "AttentionRegressor",
        "AttentionInputs=Inputs",
        "AttentionScale=Scale",
    ),
    "regressors.attention.network": ("AttentionMember=Member", "AttentionNetwork=Network"),
    "regressors.attention.attention_kme": ("AttentionWeighted",),
    "regressors.bayesian.aggregate_gp": ("AggregateGP",),
    "regressors.bayesian.evidence_ridge": (
        "Evidence",
        "EvidenceRidge",
        "TargetScale",
    ),
    "regressors.bayesian.prime_instances": ("BayesianPrime",),
    "regressors.bayesian.sampled_shrinkage": ("SampledShrinkage",),
    "regressors.multi_target": ("MultiTarget",),
    "regressors.bayesian.shrinkage": (
        "ShrinkageCoordinates=Coordinates",
        "Shrinkage",
    ),
    "regressors.clusters": ("ClusterRegressor",),
    "regressors.gate": ("Gate",),
    "regressors.lasso_path": ("LassoPath",),
    "regressors.pipeline": (
        "BagPipeline",
        "PoolPredictions",
    ),
    "regressors.prediction_blend": ("PredictionBlend",),
    "regressors.iterative_weights": ("Mixture", "Primary", "Pruning", "Reweighting"),
    "regressors.ridge": ("EmbeddingRidge", "RidgePath"),
    "regressors.salience": ("SalienceRegressor",),
    "regressors.trees": ("BoostedTrees",),
}

# The same, for files of format 2: the modules as they were.
_FORMER = {
    "automatic.curve": ("LearningCurve=Curve",),
    "automatic.members": ("MeanTarget",),
    "automatic.preparing": (
        "Components",
        "ThinBags",
    ),
    "automatic.regressor": ("AutoRegressor",),
    "automatic.routing": ("CovariateRouting=Routing",),
    "automatic.targets": ("MonotoneTarget",),
    "embeddings.chebyshev": ("ChebyshevInterpolant=Interpolant",),
    "embeddings.covariates": ("CovariatesBeside",),
    "embeddings.feature_mean": (
        "FeatureMean",
        "NystroemMean",
    ),
    "embeddings.kernel_mean": ("KernelMean",),
    "embeddings.landmarks": ("LandmarkMean",),
    "embeddings.phase": ("PhaseMean",),
    "embeddings.pools": ("Pool",),
    "embeddings.quantiles": (
        "QuantileRows",
        "SlicedQuantiles",
    ),
    "embeddings.second_kernel": ("SecondKernel",),
    "embeddings.similarity": (
        "MinusDistance",
        "Similarity",
    ),
    "embeddings.statistics": ("Statistics",),
    "heads.boosted_trees": ("BoostedTrees",),
    "heads.lasso_path": ("LassoPath",),
    "heads.ridge_path": ("RidgePath",),
    "instances.folds": ("BagKFold",),
    "instances.network": ("NetworkRegressor",),
    "instances.network_ensemble": ("NetworkEnsemble",),
    "instances.out_of_fold": (
        "EachInstance",
        "FoldMean",
        "OutOfFold",
    ),
    "instances.random_feature_ridge": ("RandomFeatureRidge",),
    "instances.random_features": (
        "FourierFeatures",
        "NystroemFeatures",
    ),
    "intervals.closed_form": (
        "LeftOutRidgePath=LeavingOut",
        "LeftOutHead",
        "LeftOutRidge",
        "RidgeSmoother=Smoother",
    ),
    "intervals.fold_scales": (
        "ConstantScale=Constant",
        "FittedScale=Fitted",
        "ModelScale=ModelStd",
    ),
    "intervals.left_out": ("FoldModels",),
    "intervals.regressor": ("Intervals",),
    "intervals.scales": ("BagScale",),
    "kernels.bandwidth": (
        "MarginalPseudolikelihood",
        "MedianDistance",
    ),
    "kernels.formulas": (
        "Cauchy",
        "Exponential",
        "Gaussian",
        "InverseMultiquadric",
        "Linear",
        "Matern32",
        "Matern52",
        "Polynomial",
        "PrintedInverse",
        "RationalQuadratic",
        "Student",
    ),
    "regressors.attention": ("AttentionRegressor",),
    "regressors.attention_inputs": (
        "AttentionInputs=Inputs",
        "AttentionScale=Scale",
    ),
    "regressors.attention_members": ("AttentionMember=Member",),
    "regressors.attention_network": ("AttentionNetwork=Network",),
    "regressors.attention_weighted": ("AttentionWeighted",),
    "regressors.bayesian": (
        "Evidence",
        "EvidenceRidge",
    ),
    "regressors.bayesian_prime": ("BayesianPrime",),
    "regressors.clusters": ("ClusterRegressor",),
    "regressors.embedding_ridge": ("EmbeddingRidge",),
    "regressors.gate": ("Gate",),
    "regressors.mixture": ("Mixture",),
    "regressors.pipeline": ("BagPipeline",),
    "regressors.pool_predictions": ("PoolPredictions",),
    "regressors.predictive": ("TargetScale",),
    "regressors.reweighting": ("Reweighting",),
    "regressors.salience": ("SalienceRegressor",),
    "regressors.sampled_shrinkage": ("SampledShrinkage",),
    "regressors.shrinkage": ("Shrinkage",),
    "regressors.shrinkage_model": ("ShrinkageCoordinates=Coordinates",),
    "regressors.weightings": (
        "Primary",
        "Pruning",
    ),
    "saving.stored_bags": ("Bags=make_bags",),
}


def _table(modules: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, str]]:
    """Name in files -> (module, class)."""
    found = {}
    for module, names in modules.items():
        for entry in names:
            name, _, kind = entry.partition("=")
            found[name] = (f"{OURS}.{module}", kind or name)
    return found


PLACES = _table(_PLACES)
NAMES = {place: name for name, place in PLACES.items()}
_OLD = {place: name for name, place in _table(_FORMER).items()}


def stable_name(module: str, kind: str) -> str | None:
    """The name in files of a class of ours; None if it has none, so that it cannot be saved.

    Examples
    --------
    >>> stable_name("bagwise.regressors.ridge", "RidgePath")
    'RidgePath'
    """
    return NAMES.get((module, kind))


def place_of(module: str, name: str) -> tuple[str, str] | None:
    """Where a class is that a file names: by its stable name, or (in format 2) by the module it was in.

    Examples
    --------
    >>> place_of("bagwise", "RidgePath") == place_of("bagwise.heads.ridge_path", "RidgePath")
    True
    >>> place_of("bagwise.regressors.ridge", "RidgePath") is None  # modules are no longer named
    True
    """
    if module == OURS:
        return PLACES.get(name)
    return PLACES.get(_OLD.get((module, name), ""))
