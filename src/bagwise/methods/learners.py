"""The instance learners that methods share, so that a comparison of two methods is not one of two networks."""

from __future__ import annotations

from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from bagwise.instances import EachInstance

# Chosen on the simulations, never on one data set: a network seldom needs more, and the candidates come free.
EPOCHS = (5, 10, 20, 40, 80)


def standardised() -> EachInstance:
    """Features of mean 0 and variance 1, new values kept within the range of training.

    A feature that hardly varied in training would otherwise put a new instance a hundred deviations out.
    """
    return EachInstance(make_pipeline(MinMaxScaler(clip=True), StandardScaler()))


def default_network(*, random_state=0, n_jobs=None):
    """One hidden layer of 128 units; the number of epochs is chosen on held-out bags."""
    from bagwise.instances.networks.estimator import NetworkRegressor

    return NetworkRegressor(
        (128,), epochs=EPOCHS, batch_size="auto", weight_decay=0.05, random_state=random_state, n_jobs=n_jobs
    )


def paper_network(*, random_state=0, n_jobs=None):
    """128 units, weight decay 0.05, 100 epochs, targets in their own units: the setting in a comment of the notebook of
    Uriot (2019), the plausible one for aerosol; the paper prints none."""
    from bagwise.instances.networks.estimator import NetworkRegressor

    return NetworkRegressor(
        (128,), epochs=100, weight_decay=0.05, scale_target=False, random_state=random_state, n_jobs=n_jobs
    )


def notebook_network(*, random_state=0, n_jobs=None):
    """512 units, weight decay 1, 75 epochs, targets in their own units: the active line of the notebook (CORN)."""
    from bagwise.instances.networks.estimator import NetworkRegressor

    return NetworkRegressor(
        (512,), epochs=75, weight_decay=1.0, scale_target=False, random_state=random_state, n_jobs=n_jobs
    )
