"""Pictures of the gallery with letters that can still be read in a thumbnail."""


def use(gallery_conf, path) -> None:
    """Set the style before every example."""
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 14, "axes.titlesize": 14, "savefig.dpi": 100, "figure.dpi": 100})
