"""Pictures for notebooks and papers: every function draws on the axis it is given and returns it.

>>> from matplotlib.figure import Figure
>>> from bagwise import plots
>>> axis = plots.predicted_against_true(Figure().subplots(), [1.0, 2.0, 3.0], [1.1, 1.9, 3.2])
>>> axis.get_xlabel()
'target'
"""

from bagwise.plots.instances import bag_distributions, contributions, learned_function
from bagwise.plots.maps import map_of_bags
from bagwise.plots.predictions import calibration, fold_scores, predicted_against_true, residuals_against_size

__all__ = [
    "bag_distributions",
    "calibration",
    "contributions",
    "fold_scores",
    "learned_function",
    "map_of_bags",
    "predicted_against_true",
    "residuals_against_size",
]
