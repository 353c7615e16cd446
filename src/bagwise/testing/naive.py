"""Reference implementations: slow, short, and read off the formula. Only tests use them."""

from __future__ import annotations

import numpy as np


def mean_gram(kernel, left, right=None) -> np.ndarray:
    """K[i, j] = 1/(L_i L_j) Σ_l Σ_m k(x_il, x_jm), by double loops over bags and instances."""
    right = left if right is None else right
    gram = np.zeros((len(left), len(right)))
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            gram[i, j] = np.mean([[kernel(x[None], z[None])[0, 0] for z in b] for x in a])
    return gram


def kernel_ridge(K, y, penalty, K_new) -> np.ndarray:
    """y (K + penalty I)⁻¹ K_new, as printed in Uriot (2019), equation 7."""
    return K_new @ np.linalg.solve(K + penalty * np.eye(len(y)), y)


def left_out_residuals(fit_predict, n, groups=None) -> np.ndarray:
    """y_i minus its prediction by a refit without bag i (its group); fit_predict(train, test) gives those of test."""
    groups = np.arange(n) if groups is None else np.asarray(groups)
    residuals = np.empty(n)
    for group in np.unique(groups):
        test = np.flatnonzero(groups == group)
        residuals[test] = fit_predict(np.flatnonzero(groups != group), test)
    return residuals
