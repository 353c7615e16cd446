"""Rows of embeddings, a row per bag, from sums over the instances of bags that are cut and spread."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from bagwise.bags import Bags, remember_columns
from bagwise.embeddings import KernelMean, LandmarkMean
from bagwise.embeddings.feature_mean import FeatureMean
from bagwise.embeddings.landmarks import unbiasing
from bagwise.lake import Chunk
from bagwise.sums.out_of_fold import Predicted
from bagwise.sums.survey import Survey
from bagwise.sums.walk import BLOCK_ROWS, Walk, sum_rows

Embedded = Iterator[tuple[dict, object, np.ndarray]]  # (setting, fitted embedding, rows)


def embed_features(head, walk: Walk, survey: Survey) -> Embedded:
    """`FeatureMean` for every setting of the head: a pass each."""
    columns = survey.columns
    for setting in head.settings():
        embedding: FeatureMean = head.embedding_for(setting)
        embedding.features_ = embedding.fresh_features().fit_sums(columns.mean, columns.scale, survey.sample)
        remember_columns(embedding, survey.bags)
        yield setting, embedding, walk.sum_by_bag(sum_features, embedding.features_.transform) / survey.sizes[:, None]


def sum_features(chunk: Chunk, features: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Σ φ(x) over the rows of every bag of a chunk."""
    sums, (ids, codes) = 0.0, chunk.bags()
    for block in chunk.blocks(rows=BLOCK_ROWS, codes=codes):
        sums = sums + sum_rows(block.bag, features(block.X), len(ids))
    return sums


def embed_landmarks(head, walk: Walk, survey: Survey) -> Embedded:
    """`LandmarkMean` for every setting of the head, all in one pass."""
    settings = head.settings()
    fitted: list[LandmarkMean] = [
        head.embedding_for(setting).fit_sums(survey.bags, survey.sample) for setting in settings
    ]
    weight = unbiasing(survey.sizes) / survey.sizes
    seconds = None
    sums = np.zeros((walk.n_bags, sum(len(one.landmarks_) for one in fitted)))
    for own, (rows, second) in zip(walk.own, walk.each(_sum_landmarks, fitted, known=(weight,)), strict=True):
        sums[own] += rows
        seconds = second if seconds is None else [a + b for a, b in zip(seconds, second, strict=True)]
    ends = np.cumsum([len(one.landmarks_) for one in fitted])[:-1]
    for setting, embedding, own, second in zip(settings, fitted, np.split(sums, ends, axis=1), seconds, strict=True):
        means = own / survey.sizes[:, None]
        embedding.keep_noise(means, second, survey.sizes)
        yield setting, embedding, means


def _sum_landmarks(chunk: Chunk, weight, fitted) -> tuple[np.ndarray, list[np.ndarray]]:
    sums, seconds = 0.0, [0.0] * len(fitted)
    for block in chunk.blocks(rows=BLOCK_ROWS):
        phis = [one.similarities(block.X) for one in fitted]
        sums = sums + sum_rows(block.bag, np.hstack(phis), len(weight))
        w = weight[block.bag]
        seconds = [second + (phi.T * w) @ phi for second, phi in zip(seconds, phis, strict=True)]
    return sums, seconds


def embed_predictions(head, walk: Walk, survey: Survey, predicted: Predicted) -> Embedded:
    """`KernelMean` of out-of-fold predictions for every setting of the head, all in one pass.

    The polynomials of a short series are the first of a longer one on the same interval, so the means of the longest
    serve all.
    """
    columns, settings = predicted.columns, head.settings()
    spread = float(columns.deviation[0]) or 1.0
    found = float(columns.low[0]), float(columns.high[0]), float(columns.mean[0]), spread
    fitted: list[KernelMean] = [head.embedding_for(setting).fit_sums(predicted.bags, *found) for setting in settings]
    longest = max(fitted, key=lambda one: one.length_)
    known = (predicted.fold,)
    scale = longest.spread_, *longest.range_
    means = walk.sum_by_bag(_sum_polynomials, predicted.models, longest.interpolant_, scale, known=known)
    means /= survey.sizes[:, None]  # in place: of all that this process holds, it is the largest
    for setting, embedding in zip(settings, fitted, strict=True):
        # `rows_of` keeps rows apart, which training rows need not be: a product of matrices is ten times as fast.
        yield setting, embedding, means[:, : embedding.length_] @ embedding.to_features_


def _sum_polynomials(chunk: Chunk, fold, models, interpolant, scale) -> np.ndarray:
    # A number per row can be held for a whole chunk; its bags are then in one piece, however mixed the rows are.
    found = [(block.bag, models.predict(block.X, fold[block.bag])[:, 0]) for block in chunk.blocks(rows=BLOCK_ROWS)]
    bag, values = (np.concatenate(part) for part in zip(*found, strict=True))
    sizes = np.bincount(bag, minlength=len(fold))
    spread, low, high = scale
    values = np.clip(values / spread, low, high)[np.argsort(bag, kind="stable")]
    return interpolant.means(Bags(values, np.append(0, np.cumsum(sizes)))) * sizes[:, None]
