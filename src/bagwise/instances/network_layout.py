"""Where the weights of a network lie: all of them in one flat vector, padded to whole processor vectors."""

from __future__ import annotations

import numpy as np

# Columns of the table of layers: true sizes, padded sizes, and where things start in the flat vectors.
INPUTS, UNITS, ROWS, COLUMNS, WEIGHT_AT, BIAS_AT, SPACE_AT = range(7)
_PADDING = 16  # the same on every machine, so that a saved network can be loaded on another


def layout(sizes) -> np.ndarray:
    """Where every layer lies in the flat vector of parameters, a row per layer: all weights first, then all biases.

    The last layer has one output, which is not padded.
    """
    inputs, units = np.asarray(sizes[:-1]), np.asarray(sizes[1:])
    plan = np.zeros((len(inputs), 7), dtype=np.int64)
    plan[:, INPUTS], plan[:, UNITS] = inputs, units
    plan[:, ROWS], plan[:, COLUMNS] = _pad(inputs), _pad(units)
    plan[-1, COLUMNS] = 1
    weights = plan[:, ROWS] * plan[:, COLUMNS]
    plan[:, WEIGHT_AT] = np.cumsum(weights) - weights
    plan[:, BIAS_AT] = weights.sum() + np.cumsum(plan[:, COLUMNS]) - plan[:, COLUMNS]
    plan[:, SPACE_AT] = np.cumsum(plan[:, ROWS]) - plan[:, ROWS]
    return plan


def _pad(sizes: np.ndarray) -> np.ndarray:
    return -(-sizes // _PADDING) * _PADDING


def layers(parameters: np.ndarray, plan: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weights (inputs, units) and biases (units) of every layer: views of the flat vector, without the padding."""
    views = []
    for n, m, rows, columns, weight, bias, _ in plan:
        W = parameters[weight : weight + rows * columns].reshape(rows, columns)
        views.append((W[:n, :m], parameters[bias : bias + m]))
    return views
