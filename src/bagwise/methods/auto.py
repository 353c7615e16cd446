"""auto: the default, for those who do not know which method their problem needs."""

from __future__ import annotations

from bagwise.methods.catalogue import Card, register, variant


def auto(*, random_state=0, n_jobs=None, **options):
    """A dozen methods on the same folds of bags, and an honest blend of those that earn their place."""
    from bagwise.auto import AutoRegressor  # its members are methods of the catalogue, so it is imported late

    return AutoRegressor(random_state=random_state, n_jobs=n_jobs, **options)


register(
    Card(
        name="auto",
        idea="Try a diverse set of methods on the same folds of bags, and blend those that earn their place.",
        assumes="nothing: which assumption fits is found out on held-out bags",
        cites="Wolpert (1992); Breiman (1996), Stacked regressions",
        cost="that of all members times the number of folds; a time_budget limits it",
        presets={
            "default": auto,
            "quick": variant("No networks: seconds for a few hundred bags.", auto, members="quick"),
            "best": variant(
                "More members, each on all folds, and three deals of folds: many times the work.",
                auto,
                members="best",
                repeats=3,
            ),
            "additive": variant(
                "Only members whose prediction of a bag is an exact sum over its instances.", auto, members="additive"
            ),
        },
    )
)
