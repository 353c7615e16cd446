"""attention, and instance-kme-attention: networks that learn which instances of a bag matter."""

from __future__ import annotations

from bagwise.instances import OutOfFold
from bagwise.methods.catalogue import Card, register
from bagwise.methods.instance_kme import KERNELS, default_network, second_stage
from bagwise.regressors import AttentionRegressor, AttentionWeighted


def set_attention(*, random_state=0, n_jobs=None) -> AttentionRegressor:
    """Set attention that looks at the bag twice; five networks, those that learned something averaged."""
    return AttentionRegressor(random_state=random_state, n_jobs=n_jobs)


def gated(*, random_state=0, n_jobs=None) -> AttentionRegressor:
    """Gated attention, which looks once."""
    return AttentionRegressor(pooling="gated", random_state=random_state, n_jobs=n_jobs)


def moments(*, random_state=0, n_jobs=None) -> AttentionRegressor:
    """Set attention, and mean, variance and skewness of every feature in the bag for the head."""
    return AttentionRegressor(moments=3, random_state=random_state, n_jobs=n_jobs)


def weighted_kme(*, random_state=0, n_jobs=None, use="both") -> AttentionWeighted:
    """instance-kme, its loss and embedding weighed by cross-fitted attention; how strongly, by leave-one-bag-out."""
    attention = AttentionRegressor(restarts=2, random_state=random_state, n_jobs=n_jobs)
    # No offset: the mean that it adds would have to be weighted, too.
    head, judge = second_stage(KERNELS, offset="none"), second_stage(KERNELS[:5:2], offset="none")
    learner = default_network(random_state=random_state)
    stage = OutOfFold(learner, judge=judge, random_state=random_state, n_jobs=n_jobs)
    return AttentionWeighted(attention, stage, head, use=use)


def weighted_loss(*, random_state=0, n_jobs=None) -> AttentionWeighted:
    """The same with the attention in the loss of the instance networks alone."""
    return weighted_kme(random_state=random_state, n_jobs=n_jobs, use="loss")


def weighted_embedding(*, random_state=0, n_jobs=None) -> AttentionWeighted:
    """The same with the attention in the embedding alone."""
    return weighted_kme(random_state=random_state, n_jobs=n_jobs, use="embedding")


register(
    Card(
        name="attention",
        idea="Let a network weigh the instances of a bag, several times over, add them up, and predict from the sum.",
        assumes="some instances matter more than others, and their features tell which",
        cites="Uriot (2019a); Vinyals, Bengio, Kudlur (2016); Ilse, Tomczak, Welling (2018)",
        cost="5 networks on N instances, a pass being O(N d h), h = 64; at most 200 passes",
        presets={"default": set_attention, "gated": gated, "moments": moments},
        search_space={"looks": [1, 2, 3, 4], "moments": [0, 1, 2, 3], "read": [(32,), (64,), (64, 64)]},
        gives=("weights",),
        needs="torch",
        gpu=True,
    )
)

register(
    Card(
        name="instance-kme-attention",
        idea="instance-kme, with the instances of a bag weighed by an attention network that never saw its target.",
        assumes="instance predictions carry the target, and some instances deserve more trust",
        cites="Uriot (2019), future work",
        cost="3 times instance-kme, and 2 attention networks per fold",
        presets={"default": weighted_kme, "loss": weighted_loss, "embedding": weighted_embedding},
        gives=("weights", "contributions"),
        needs="torch",
        gpu=True,
    )
)
