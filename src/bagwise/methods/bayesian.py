"""Methods with a predictive standard deviation: blr, shrinkage, bdr, instance-kme-shrinkage and aggregate-gp."""

from __future__ import annotations

from bagwise.embeddings import LandmarkMean
from bagwise.instances import OutOfFold
from bagwise.kernels import Gaussian
from bagwise.kernels.formulas import FourierFeatures, NystroemFeatures
from bagwise.methods.catalogue import SIZES, VALUES, Card, first_sentence, register, variant
from bagwise.methods.instance_kme import default_network, second_stage
from bagwise.regressors import AggregateGP, BagPipeline, EvidenceRidge, SampledShrinkage, Shrinkage

# In units of sqrt(median squared distance / 2).
BANDWIDTHS = (0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
LANDMARKS = 60
LAW = "Law, Sutherland, Sejdinovic, Flaxman (2018)"


def _grid(bandwidths=BANDWIDTHS) -> dict[str, list]:
    return {"kernel": [Gaussian(b) for b in bandwidths]}


def blr(draw: str = "bags", *, random_state=0, n_jobs=None) -> EvidenceRidge:
    """Fit Bayesian linear regression on the mean similarity to 60 landmarks; held-out likelihood chooses bandwidth."""
    embedding = LandmarkMean(landmarks=LANDMARKS, draw=draw, random_state=random_state)
    return EvidenceRidge(embedding, grid=_grid(), random_state=random_state, n_jobs=n_jobs)


def shrinkage(prior: str = "kernel", *, random_state=0, n_jobs=None) -> Shrinkage:
    """Shrink the rows of blr, small bags more; held-out likelihood chooses bandwidth and penalty."""
    embedding = LandmarkMean(landmarks=LANDMARKS, random_state=random_state)
    return Shrinkage(embedding, prior=prior, grid=_grid(BANDWIDTHS[1:5]), random_state=random_state, n_jobs=n_jobs)


def bdr(prior: str = "kernel", *, random_state=0, n_jobs=None) -> SampledShrinkage:
    """Draw the weights of shrinkage from their posterior: four chains of 250 draws."""
    fitted = shrinkage(prior, random_state=random_state, n_jobs=n_jobs)
    return SampledShrinkage(fitted, random_state=random_state)


def instance_kme_shrinkage(prior: str = "kernel", *, random_state=0, n_jobs=None) -> BagPipeline:
    """Fit instance-kme with a second stage that shrinks small bags more: the future work (b) of Uriot (2019).

    The epochs of the networks are judged as in instance-kme, in closed form; shrinkage would be refitted for each.
    """
    judge = second_stage(Gaussian(b) for b in (0.5, 2.0, 8.0))
    learner = default_network(random_state=random_state)
    # Landmarks are for the predictions alone: the networks see the covariates.
    stage = OutOfFold(learner, judge=judge, keep_covariates=False, random_state=random_state, n_jobs=n_jobs)
    embedding = LandmarkMean(landmarks=20, placement="quantiles", random_state=random_state)
    head = Shrinkage(embedding, prior=prior, grid=_grid((0.5, 1.0, 2.0, 4.0)), random_state=random_state, n_jobs=n_jobs)
    return BagPipeline([("instances", stage), ("head", head)])


def aggregate_gp(features=FourierFeatures, *, random_state=0, n_jobs=None) -> AggregateGP:
    """Use 256 Fourier features; the evidence chooses kernel and bandwidth. It also fits data larger than memory."""
    phi = features(256, linear=False, random_state=random_state)
    return AggregateGP(phi, random_state=random_state, n_jobs=n_jobs)


PRIORS = {
    "kernel": "Prior of an embedding: the kernel at the landmarks.",
    "nonstationary": "Prior: the kernel smoothed by a normal density as wide as the instances (shrinkageC).",
    "between": "Prior: the covariance between training bags plus a small multiple of the kernel (not in the source).",
}


def _priors(factory, *names) -> dict:
    """Return a preset per prior, with the name of the prior; that of the kernel is the default."""
    texts = {name: f"{first_sentence(factory)} {PRIORS[name]}" for name in ("kernel", *names)}
    return {name if name in names else "default": variant(text, factory, name) for name, text in texts.items()}


register(
    Card(
        name="blr",
        idea="Average the similarity of a bag's instances to landmarks, and fit Bayesian linear regression.",
        question=SIZES,
        assumes="the target is a smooth function of the distribution of the bag, and bags are large enough to show it",
        cites=LAW,
        cost="O(N s) for s landmarks, times bandwidths tried",
        presets={
            "default": blr,
            "rows": variant(
                "Draw landmarks from distinct rows, whatever the size of their bag. The fit needs only sums over "
                "instances, so it also runs out of core and on a cluster (``bagwise.fit_scan``).",
                blr,
                "rows",
            ),
        },
        search_space={"embedding__landmarks": [30, 60, 90]},
        gives=("std", "contributions"),
    ),
    Card(
        name="shrinkage",
        idea="Shrink the embedding of a bag and widen its uncertainty, more for bags with fewer instances.",
        question=SIZES,
        assumes="the target is a smooth function of the distribution that the instances of the bag are drawn from",
        cites=LAW,
        cost="O(N s) for s landmarks and O(s³), times bandwidths tried",
        presets=_priors(shrinkage, "nonstationary", "between"),
        search_space={"embedding__landmarks": [30, 60, 90]},
        gives=("std",),
    ),
    Card(
        name="bdr",
        idea="Average the model of shrinkage over the posterior of its weights, by Hamiltonian Monte Carlo.",
        question=SIZES,
        assumes="the target is a smooth function of the distribution that the instances of the bag are drawn from",
        cites=LAW,
        cost="that of shrinkage, and some seconds of sampling",
        presets=_priors(bdr, "nonstationary", "between"),
        search_space={"shrinkage__embedding__landmarks": [30, 60, 90]},
        gives=("std",),
    ),
    Card(
        name="instance-kme-shrinkage",
        idea="Embed each bag's out-of-fold instance predictions at landmarks, and shrink small bags more.",
        question=SIZES,
        assumes="instances predict the target, and a small bag shows little of their distribution",
        cites=f"Uriot (2019), future work; {LAW}",
        cost="D networks on N instances; then O(N s), s = 20",
        presets=_priors(instance_kme_shrinkage, "between"),
        search_space={"head__embedding__landmarks": [10, 20, 40]},
        gives=("std",),
    ),
    Card(
        name="aggregate-gp",
        idea="Fit a Gaussian process for the value of an instance, from means, sums, counts or rates of bags.",
        question=VALUES,
        assumes="the target is the mean or sum of a smooth function of the instances",
        cites="Law, Sejdinovic, Cameron, Lucas, Flaxman, Battle, Fukumizu (2018)",
        cost="O(N m + B m²), m = 256 features, times kernels and bandwidths tried; about ten times that for counts",
        presets={
            "default": aggregate_gp,
            "landmarks": variant(
                "Use similarities to 256 landmarks; the process is exact if at most 256 instances are distinct.",
                aggregate_gp,
                NystroemFeatures,
            ),
        },
        search_space={"features__n_features": [128, 256, 512]},
        gives=("std", "contributions"),
    ),
)
