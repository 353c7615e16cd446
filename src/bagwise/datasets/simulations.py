"""Simulations designed for bagwise, and all simulations by name, for `bagwise datasets`.

- `make_aerosol`: satellite pixels around a ground station, a small physical model similar to the MISR data sets.
- `make_problem`: four kinds of problem, each suited to a different family of methods.
- `make_districts`: people with only the share of supporters per district known, as in ecological inference.
- `make_instance_map`: targets that aggregate known instance values, to measure the error of predicted instance values.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from functools import partial

import numpy as np

from bagwise.bags import Bags, Validation, from_arrays
from bagwise.bags.segments import segment_mean, segment_sum
from bagwise.datasets.published import make_bmir, make_entropy, make_gaussian, make_modes, make_outlier2

BANDS = np.array([0.446, 0.558, 0.672, 0.867])  # micrometres: blue, green, red and near infrared of MISR
RAYLEIGH = 0.008569 * BANDS**-4 * (1 + 0.0113 * BANDS**-2 + 0.00013 * BANDS**-4)  # optical depth of pure air
ASYMMETRY = 0.55  # of aerosol: mostly forward, but less than measured, because this p underestimates backscatter
VEGETATION = np.array([0.02, 0.05, 0.03, 0.35])  # reflectance of the two pure surfaces in the four bands
SOIL = np.array([0.06, 0.11, 0.16, 0.25])
MOST_CLOUDY = 0.6  # a scene with more cloud than this would not be used
CLOUDS = {"clear": 0.1, "mixed": 0.4, "cloudy": 0.55}  # shares of cloudy pixels, by name
UNITS = ("reflectance", "sensor")
GAIN = 1230.0  # sensor units of a reflectance of one: columns have medians of 150 to 425 then (MISR1: 152 to 415)
FEATURE_NAMES = (*(f"reflectance_{i}" for i in range(1, 13)), *(f"angle_{i}" for i in range(1, 5)))


def make_aerosol(
    n_bags: int = 200,
    *,
    instances: int = 100,
    ragged: bool = False,
    cloud_fraction: float | str = 0.4,
    noise: float = 0.03,
    stations: int | None = None,
    units: str = "reflectance",
    random_state=0,
) -> tuple[Bags, np.ndarray]:
    r"""Simulate aerosol optical depth from satellite pixels, some of them cloudy.

    A bag is a scene around a ground station, an instance a pixel, the target the aerosol optical depth (AOD) at
    0.55 micrometres that the station measures. As in MISR1 a pixel has 12 reflectances (three cameras, four bands
    each: the nadir camera first) and 4 angles that are constant in a bag (zenith of the sun, zenith of the two
    oblique cameras, azimuth of the fore and of the aft camera relative to the sun; degrees).

    With :math:`\tau_b = \mathrm{AOD}\,(\lambda_b / 0.55)^{-\alpha}` the depth of aerosol in band b, :math:`r_b` that
    of air, :math:`\mu_0, \mu_c` the cosines of the zeniths of sun and camera, :math:`m_c = 1/\mu_0 + 1/\mu_c` the
    slant path and :math:`s_b` the reflectance of the surface, a clear pixel shows the light scattered once on the way
    (by aerosol, by air) plus the surface seen through the haze twice,

    .. math::

        \rho_{bc} &= \frac{\omega \tau_b\, p(\Theta_c) + r_b\, \tfrac34 (1 + \cos^2 \Theta_c)}
                     {4 (\mu_0 + \mu_c)\, \ell_b} \left(1 - e^{-\ell_b m_c}\right) + e^{-\ell_b m_c} s_b

        p(\Theta) &= (1 - g^2) / (1 + g^2 - 2 g \cos\Theta)^{3/2}, \quad
        \ell_b = \left(1 - \omega \tfrac{1+g}{2}\right) \tau_b + \tfrac12 r_b

    where :math:`\ell_b` excludes forward-scattered light, which still arrives. A pixel with cloud
    cover c shows :math:`(1 - c) \rho_{bc} + c \rho_\mathrm{cloud}`, bright and the same in every
    band, and every reflectance is multiplied by 1 + noise * N(0, 1). The target is lognormal, median 0.18, at most 2;
    the surface a mixture of soil and vegetation that differs between pixels; the exponent :math:`\alpha` and the
    albedo :math:`\omega` of the aerosol differ between bags and are not observed. Pixels lie uniformly in a disc; one
    cloud per scene is densest at its centre and thins out to an edge.

    A cloud hides the aerosol, so the predictions of cloudy pixels fall back towards the mean target, and the
    predictions of a bag are skewed: upwards in clean air, downwards in haze. Their median is therefore better than
    their mean, and a regression on their distribution can be better than both.

    Parameters
    ----------
    n_bags, instances : int, default 200 and 100
        Number of bags, and of pixels per bag.
    ragged : bool, default False
        Drop pixels that are more than half covered by cloud, and those outside the satellite's swath, which covers 20
        to 100 percent of a scene. The remaining pixels equal those of the same seed without this option.
    cloud_fraction : float or {"clear", "mixed", "cloudy"}, default 0.4
        Mean share of the pixels touched by cloud, from 0 to below 0.6; the names stand for 0.1, 0.4 and 0.55.
    noise : float, default 0.03
        Relative standard deviation of a reflectance, for the sensor and the misalignment of cameras.
    stations : int, optional
        Number of ground stations. Bags of one station share its surface, and `Bags.groups` holds the station. By
        default each bag has a separate surface and there are no groups.
    units : {"reflectance", "sensor"}, default "reflectance"
        "reflectance": reflectances from 0 to 1 and the angles above. "sensor": values similar to the 740 unlabelled
        pixels published for MISR1, with integer reflectances of medians 150 to 425 (there 152 to 415), the zenith of
        the sun and the scattering angles of the three cameras (fore, nadir, aft), with medians near 35, 76, 145 and
        123 degrees.
    random_state : int, Generator or None, default 0

    Returns
    -------
    bags, y : Bags and array of shape (n_bags,)

    Notes
    -----
    Assumed, not physical: the distributions of targets, greenness and clouds, the gain of the sensor (one for all
    bands), and which four angles the published file contains (there, the third has a median of 133).

    References
    ----------
    Z. Wang, L. Lan, S. Vucetic, 2012, see `make_gaussian` (the data sets MISR1 and MISR2).
    J. E. Hansen, L. D. Travis, "Light scattering in planetary atmospheres", Space Science Reviews, 1974 (air).
    L. G. Henyey, J. L. Greenstein, "Diffuse radiation in the galaxy", Astrophysical Journal, 1941 (p).

    Examples
    --------
    >>> from bagwise.datasets import make_aerosol
    >>> bags, y = make_aerosol(50, ragged=True, stations=5)
    >>> bags
    Bags: 50 bags of ... instances (... in all), 16 features, 5 groups
    """
    if units not in UNITS:
        raise ValueError(f"units must be 'reflectance' or 'sensor', not {units!r}")
    if isinstance(cloud_fraction, str) and cloud_fraction not in CLOUDS:
        named = ", ".join(map(repr, CLOUDS))
        raise ValueError(f"cloud_fraction must be a share, or one of {named}, not {cloud_fraction!r}")
    cloud_fraction = CLOUDS[cloud_fraction] if isinstance(cloud_fraction, str) else cloud_fraction
    if not 0 <= cloud_fraction < MOST_CLOUDY:
        raise ValueError(f"cloud_fraction must be a share from 0 to below {MOST_CLOUDY}, not {cloud_fraction!r}")
    if noise < 0:
        raise ValueError(f"noise must be a relative standard deviation of at least 0, not {noise!r}")
    if stations is not None and not 1 <= stations <= n_bags:
        raise ValueError(f"stations must be from 1 to the number of bags ({n_bags}), not {stations!r}")
    rng = np.random.default_rng(random_state)
    aod = np.minimum(rng.lognormal(np.log(0.18), 0.65, n_bags), 2.0)
    angles = _draw_angles(rng, n_bags, units)
    groups = None if stations is None else rng.permutation(np.arange(n_bags) % stations)
    surface = _draw_surface(rng, np.arange(n_bags) if groups is None else groups, instances)
    path, transmission, turn = _draw_air(rng, aod, angles)
    cover, cloud = _draw_clouds(rng, (n_bags, instances), cloud_fraction)

    # (bags, pixels, cameras, bands)
    reflectance = path[:, None] + transmission[:, None] * surface[:, :, None]
    reflectance += cover[..., None, None] * (cloud[..., None, None] - reflectance)
    reflectance *= 1 + noise * rng.standard_normal(reflectance.shape)

    if units == "sensor":
        reflectance = np.rint(GAIN * reflectance)
        angles = np.column_stack([angles[:, 0], np.degrees(np.arccos(turn[:, [1, 0, 2]]))])
    visible = _draw_visible(rng, cover) if ragged else np.ones(cover.shape, dtype=bool)
    sizes = visible.sum(axis=1)
    pixels = np.column_stack([reflectance.reshape(n_bags, instances, 12)[visible], np.repeat(angles, sizes, axis=0)])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return Bags(pixels, offsets, groups=groups, feature_names=FEATURE_NAMES), aod


def _draw_angles(rng, n_bags: int, units: str) -> np.ndarray:
    """Return angles in degrees, (bags, 4); azimuth 0 is towards the sun, the oblique cameras are about opposite."""
    if units == "sensor":
        ends = np.array([[20, 50], [68, 73], [5, 35], [100, 140]])
        return rng.uniform(*ends.T, (n_bags, 4))
    sun = rng.uniform(30, 55, n_bags)
    view = rng.uniform(50, 60, n_bags)
    fore = rng.uniform(20, 80, n_bags)
    aft = np.clip(180 - fore + rng.normal(0, 5, n_bags), 0, 180)
    return np.column_stack([sun, view, fore, aft])


def _draw_surface(rng, place: np.ndarray, instances: int) -> np.ndarray:
    """Return surface reflectances (bags, pixels, bands): greenness and brightness of the place, varied per pixel."""
    shape = (len(place), instances)
    green, bright = rng.beta(6, 6, place.max() + 1), rng.lognormal(0, 0.1, place.max() + 1)
    green = np.clip(green[place, None] + rng.normal(0, 0.2, shape), 0, 1)[..., None]
    bright = (bright[place, None] * rng.lognormal(0, 0.25, shape))[..., None]
    return bright * (green * VEGETATION + (1 - green) * SOIL)


def _draw_air(rng, aod: np.ndarray, angles: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return path reflectance and two-way transmission, (bags, cameras, bands), and cosines of scattering angles."""
    exponent = rng.uniform(0.9, 1.5, len(aod))[:, None, None]
    albedo = rng.uniform(0.92, 0.97, len(aod))[:, None, None]
    depth = aod[:, None, None] * (BANDS / 0.55) ** -exponent

    sun, oblique, fore, aft = np.radians(angles).T
    zenith = np.column_stack([0 * oblique, oblique, oblique])
    azimuth = np.column_stack([0 * fore, fore, aft])
    sideways = (np.sin(sun)[:, None] * np.sin(zenith) * np.cos(azimuth))[..., None]
    sun, view = np.cos(sun)[:, None, None], np.cos(zenith)[..., None]
    turn = sideways - sun * view  # cosine of the scattering angle
    slant = 1 / sun + 1 / view

    by_aerosol = (1 - ASYMMETRY**2) / (1 + ASYMMETRY**2 - 2 * ASYMMETRY * turn) ** 1.5
    by_air = 0.75 * (1 + turn**2)
    lost = (1 - albedo * (1 + ASYMMETRY) / 2) * depth + RAYLEIGH / 2
    transmission = np.exp(-lost * slant)
    path = (albedo * depth * by_aerosol + RAYLEIGH * by_air) * (1 - transmission) / (4 * (sun + view) * lost)
    return path, transmission, turn[..., 0]


def _draw_clouds(rng, shape: tuple[int, int], cloud_fraction: float) -> tuple[np.ndarray, np.ndarray]:
    """Return cover and reflectance of the cloud in each pixel, (bags, pixels) each."""
    n_bags = shape[0]
    mean = max(cloud_fraction, 1e-9) / MOST_CLOUDY  # a beta distribution needs parameters above zero
    share = MOST_CLOUDY * rng.beta(2 * mean, 2 * (1 - mean), (n_bags, 1))
    # In a disc the squared distance from the centre is uniform, so the cloud touches this share of the pixels.
    cover = np.clip((share - rng.uniform(size=shape)) / rng.uniform(0.2, 0.8, (n_bags, 1)), 0, 1)
    cloud = rng.uniform(0.2, 0.6, (n_bags, 1)) * rng.lognormal(0, 0.1, shape)
    return cover, cloud


def _draw_visible(rng, cover: np.ndarray) -> np.ndarray:
    """Return which pixels are inside the swath and pass the cloud mask; the clearest pixel of each bag always does."""
    inside = rng.uniform(size=cover.shape) < rng.uniform(0.2, 1, (len(cover), 1))
    visible = inside & (cover <= 0.5)
    visible[np.arange(len(cover)), cover.argmin(axis=1)] = True  # a bag cannot be empty
    return visible


N_FEATURES = 8
# The same in every draw, so that bags of two seeds belong to one problem.
DIRECTION = np.array([1.0, -1.0, 2.0, 0.5, -0.5, 1.5, -2.0, 1.0]) / np.sqrt(13.75)


def make_problem(kind: str, n_bags: int = 200, *, random_state=0) -> tuple[Bags, np.ndarray]:
    r"""Simulate bags of 5 to 55 instances and 8 features, with one of four relations to the target.

    =======  ======================================================================================================
    kind     how the bag is drawn (u is a fixed unit vector, all noise is normal)
    =======  ======================================================================================================
    noisy    Every instance is a nonlinear view of a hidden t, with noise; 15 percent show another t. y is t with noise.
    mean     The instances scatter around a centre, and y is linear in their mean: 1.87 u' mean(bag) + 0.4 N(0, 1).
    shape    Zero-mean instances with spread exp(y) along u and 1 across: the mean says nothing.
    prime    The instance that is largest in feature 0 carries the target, y = 2.4 u' x + 0.3 N(0, 1), its feature 0
             left out. The others say nothing.
    =======  ======================================================================================================

    Parameters
    ----------
    kind : {"noisy", "mean", "shape", "prime"}
    n_bags : int, default 200
    random_state : int, Generator or None, default 0
        Different seeds draw different bags of the same problem.

    Returns
    -------
    bags, y : Bags and array of shape (n_bags,)

    Notes
    -----
    Predicting the mean has a root mean squared error of about 0.89, 1.96, 0.73 and 2.3.

    Examples
    --------
    >>> from bagwise.datasets import make_problem
    >>> make_problem("prime")[0].shape
    (200, 8)
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(map(repr, KINDS))}, not {kind!r}")
    rng = np.random.default_rng(random_state)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(5, 56, n_bags))])
    rows, y = KINDS[kind](rng, offsets)
    return Bags(rows, offsets), y


def _noisy(rng, offsets):
    n_bags, n_rows = len(offsets) - 1, offsets[-1]
    hidden = rng.normal(0, 0.87, n_bags)
    shown = np.repeat(hidden, np.diff(offsets))
    corrupted = rng.uniform(size=n_rows) < 0.15
    shown[corrupted] = rng.uniform(-3, 3, corrupted.sum())
    # Each feature is another sine of the hidden value, so that no single feature determines it.
    rows = np.sin(np.outer(shown, np.linspace(0.5, 2.5, N_FEATURES)) + np.arange(N_FEATURES))
    return rows + 0.7 * rng.standard_normal(rows.shape), hidden + rng.normal(0, 0.2, n_bags)


def _mean(rng, offsets):
    n_bags = len(offsets) - 1
    centre = np.repeat(rng.standard_normal((n_bags, N_FEATURES)), np.diff(offsets), axis=0)
    rows = centre + rng.standard_normal(centre.shape)
    return rows, 1.87 * segment_mean(rows, offsets) @ DIRECTION + rng.normal(0, 0.4, n_bags)


def _shape(rng, offsets):
    y = rng.uniform(-1.27, 1.27, len(offsets) - 1)
    rows = rng.standard_normal((offsets[-1], N_FEATURES))
    stretch = np.repeat(np.exp(y), np.diff(offsets)) - 1
    return rows + np.outer(stretch * (rows @ DIRECTION), DIRECTION), y


def _prime(rng, offsets):
    rows = rng.standard_normal((offsets[-1], N_FEATURES))
    # A stable sort by feature 0, then by bag: the last row of every bag is its largest.
    order = np.lexsort((rows[:, 0], np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))))
    key = rows[order[offsets[1:] - 1]]
    return rows, 2.4 * key[:, 1:] @ DIRECTION[1:] + rng.normal(0, 0.3, len(key))


KINDS = {"noisy": _noisy, "mean": _mean, "shape": _shape, "prime": _prime}


def make_drift(n_bags: int = 300, *, trend: float = 1.0, drift: float = 1.5, random_state=0) -> tuple[Bags, np.ndarray]:
    r"""Simulate bags of 15 instances and 4 features whose relation to the target changes over time.

    A bag at time t, from 0 to 1, has a hidden signal s. Its instances show s along a direction that turns by ``drift``
    radians from the first bag to the last, and their spread in feature 2 is exp(s / 2). The target is s + trend t plus
    noise. Models grow stale: random folds, whose training bags surround each held-out bag in time, promise too much.

    Parameters
    ----------
    n_bags : int, default 300
    trend : float, default 1.0
        Change of the mean target over time; feature 0 follows it.
    drift : float, default 1.5
        Angle in radians by which the direction of the signal turns.
    random_state : int, Generator or None, default 0

    Returns
    -------
    bags, y : Bags in order of time, with ``bags.time``, and array of shape (n_bags,)

    Examples
    --------
    >>> from bagwise.datasets import make_drift
    >>> bags, y = make_drift(60)
    >>> bags.shape, float(bags.time[0]), float(bags.time[-1])
    ((60, 4), 0.0, 1.0)
    """
    rng = np.random.default_rng(random_state)
    size, time, signal = 15, np.linspace(0, 1, n_bags), rng.standard_normal(n_bags)
    rows = rng.standard_normal((n_bags, size, 4))
    rows[:, :, 0] += (signal * np.cos(drift * time) + trend * time)[:, None]
    rows[:, :, 1] += (signal * np.sin(drift * time))[:, None]
    rows[:, :, 2] *= np.exp(signal / 2)[:, None]
    y = signal + trend * time + 0.2 * rng.standard_normal(n_bags)
    bags = Bags(rows.reshape(-1, 4), np.arange(0, n_bags * size + 1, size))
    return bags.with_validation(Validation(time=time)), y


def make_districts(n_bags: int = 300, *, context: float = 0.0, random_state=0) -> tuple[Bags, np.ndarray]:
    r"""Simulate districts of 60 to 200 people; the target is the share that supports a motion.

    The features are age, sex (1 or 2) and income. A person supports it with probability

    p = 1 / (1 + exp(0.4 - 0.05 (age - 45) - 0.8 [sex = 2] + 0.5 income - context (centre - 45) / 8)),

    with centre the mean age that the district was drawn with. Districts differ in the centre (N(45, 8²)), the share of
    women (N(0.5, 0.12²)) and the mean income (N(0, 0.6²)). ``bags.kept["chance"]`` holds p of every person: the truth
    for any group of people.

    Parameters
    ----------
    n_bags : int, default 300
    context : float, default 0.0
        Effect of the mean age of the district on the support of each person, which totals do not show.
    random_state : int, Generator or None, default 0

    Returns
    -------
    bags, y : Bags and array of shape (n_bags,)

    Examples
    --------
    >>> from bagwise.datasets import make_districts
    >>> bags, y = make_districts(40)
    >>> bags.feature_names, sorted(bags.kept)
    (('age', 'sex', 'income'), ['chance'])
    """
    rng = np.random.default_rng(random_state)
    people, chances, y = [], [], []
    for size in rng.integers(60, 200, size=n_bags):
        centre, income = rng.normal(45, 8), rng.normal(0, 0.6)
        women = np.clip(rng.normal(0.5, 0.12), 0.1, 0.9)
        age = np.clip(rng.normal(centre, 14, size=size), 18, 95)
        sex = np.where(rng.random(size) < women, 2.0, 1.0)
        incomes = rng.normal(income, 1.0, size=size)
        logit = 0.05 * (age - 45) + 0.8 * (sex == 2) - 0.5 * incomes - 0.4 + context * (centre - 45) / 8
        chance = 1 / (1 + np.exp(-logit))
        people.append(np.column_stack([age, sex, incomes]))
        chances.append(chance)
        y.append((rng.random(size) < chance).mean())
    bags = from_arrays(people, feature_names=["age", "sex", "income"])
    return bags._with(kept={"chance": np.concatenate(chances)}), np.array(y)


def make_instance_map(kind: str, n_bags: int = 200, *, random_state=0) -> tuple[Bags, np.ndarray, np.ndarray]:
    r"""Simulate bags whose targets aggregate a value of each instance; return bags, targets and these values.

    ==========  ===================================================================================================
    kind        how the bag is drawn
    ==========  ===================================================================================================
    surface     20 to 60 points around a centre in the unit square, deviation 0.12 in each direction (those beyond an
                edge are reflected at it); y is the mean of a smooth surface, with noise of deviation 0.02. Most
                centres are near the lower left corner.
    shifted     The same surface, most centres near the upper right corner and points half as far apart: new bags for
                what was fitted to "surface".
    counts      Points as in "surface" with an elevation as a third feature and a population, log-normal, as the
                weight; y is Poisson, its mean the sum of population times rate, about 56 on average.
    swiss-roll  Points on a swiss roll in 18 dimensions, sorted along an axis and cut into bags whose sizes are negative
                binomial of mean 150 and deviation 50; the rate is half the angle, from 2.4 to 7.1, and y the Poisson
                count of the bag: every bag is a slab across the roll, and holds many rates.
    ==========  ===================================================================================================

    Parameters
    ----------
    kind : {"surface", "shifted", "counts", "swiss-roll"}
    n_bags : int, default 200
    random_state : int, Generator or None, default 0
        Different seeds draw different bags of the same problem.

    Returns
    -------
    bags, y, values : Bags, and arrays with an entry per bag and per instance
        y is the mean of the values of a bag with noise ("surface", "shifted"), or a count. In "counts" and "swiss-roll"
        a value is a rate, per unit of population or per point.

    References
    ----------
    "swiss-roll" is drawn as in the paper, with other random numbers and another rotation:
    H. C. L. Law, D. Sejdinovic, E. Cameron, T. C. D. Lucas, S. Flaxman, K. Battle, K. Fukumizu, "Variational learning
    on aggregate outputs with Gaussian processes", NeurIPS 2018.

    Examples
    --------
    >>> from bagwise.datasets import make_instance_map
    >>> bags, y, rate = make_instance_map("counts", 50)
    >>> bags
    Bags: 50 bags of 20 to 59 instances (1,917 in all), 3 features, with instance weights
    >>> rate.shape
    (1917,)
    """
    if kind not in INSTANCE_MAPS:
        raise ValueError(f"kind must be one of {', '.join(map(repr, INSTANCE_MAPS))}, not {kind!r}")
    return INSTANCE_MAPS[kind](np.random.default_rng(random_state), n_bags)


def _points(rng, n_bags: int, *, corner: tuple[float, float], deviation: float) -> tuple[np.ndarray, np.ndarray]:
    """Return points in the unit square and the offsets of their bags."""
    sizes = rng.integers(20, 61, n_bags)
    centres = np.repeat(rng.beta(*corner, size=(n_bags, 2)), sizes, axis=0)
    points = np.abs(centres + deviation * rng.standard_normal(centres.shape))
    return 1.0 - np.abs(1.0 - points), np.concatenate([[0], np.cumsum(sizes)])


LOWER_LEFT, UPPER_RIGHT = (1.2, 2.4), (2.4, 1.2)  # of the beta distribution of a centre's coordinates


def _surface_of(points: np.ndarray) -> np.ndarray:
    u, v = points[:, 0], points[:, 1]
    return np.sin(2 * np.pi * u) * np.cos(np.pi * v) + 2.0 * np.exp(-((u - 0.6) ** 2 + (v - 0.4) ** 2) / 0.05)


def _surface(rng, n_bags: int, corner=LOWER_LEFT, deviation: float = 0.12):
    points, offsets = _points(rng, n_bags, corner=corner, deviation=deviation)
    values = _surface_of(points)
    return Bags(points, offsets), segment_mean(values, offsets) + rng.normal(0, 0.02, n_bags), values


def _counts(rng, n_bags: int):
    points, offsets = _points(rng, n_bags, corner=LOWER_LEFT, deviation=0.12)
    elevation = np.sin(5 * points[:, 0]) + np.cos(4 * points[:, 1]) + 0.5 * rng.standard_normal(len(points))
    population = np.exp(rng.normal(3.0, 1.0, len(points)))
    rate = np.exp(_surface_of(points) - 0.8 * elevation - 3.5)
    y = rng.poisson(segment_sum(population * rate, offsets)).astype(np.float64)
    features = np.column_stack([points, elevation])
    names = ["east", "north", "elevation"]
    return Bags(features, offsets, weights=population, feature_names=names), y, rate


DIMENSIONS, MEAN_SIZE, SIZE_DEVIATION = 18, 150.0, 50.0


def _swiss_roll(rng, n_bags: int):
    # One more than a negative binomial, so that no bag is empty.
    success = (MEAN_SIZE - 1) / SIZE_DEVIATION**2
    sizes = 1 + rng.negative_binomial((MEAN_SIZE - 1) * success / (1 - success), success, n_bags)
    angle = 1.5 * np.pi * (1 + 2 * rng.uniform(size=sizes.sum()))
    angle = angle[np.argsort(-angle * np.sin(angle))]
    roll = np.column_stack([angle * np.cos(angle), 21 * rng.uniform(size=len(angle)), angle * np.sin(angle)])
    # The rotation is the same in every draw, so that bags of two seeds belong to one problem.
    rotation, _ = np.linalg.qr(np.random.default_rng(23).standard_normal((DIMENSIONS, DIMENSIONS)))
    offsets, rate = np.concatenate([[0], np.cumsum(sizes)]), 0.5 * angle
    return Bags(roll @ rotation[:3], offsets), rng.poisson(segment_sum(rate, offsets)).astype(np.float64), rate


INSTANCE_MAPS: dict[str, Callable] = {"surface": _surface}
INSTANCE_MAPS |= {"shifted": partial(_surface, corner=UPPER_RIGHT, deviation=0.06)}
INSTANCE_MAPS |= {"counts": _counts, "swiss-roll": _swiss_roll}


SIMULATIONS: dict[str, tuple[Callable, str]] = {
    "aerosol": (partial(make_aerosol, ragged=True), "satellite pixels around ground stations, clouds included"),
    "districts": (make_districts, "the share of supporters in districts of people; ecological inference"),
    "gaussian": (make_gaussian, "noisy copies of a hidden value (Wang et al. 2012)"),
    "outlier": (make_outlier2, "the same with outliers among the instances (Wang et al. 2012)"),
    "primary": (make_bmir, "one primary instance hidden among others (Park et al. 2020)"),
    "modes": (make_modes, "the number of modes of the distribution behind a bag (as in Meunier et al. 2022)"),
    "entropy": (make_entropy, "the entropy of the distribution behind a bag (as in Szabó et al. 2015)"),
    "noisy": (partial(make_problem, "noisy"), "every instance a nonlinear view of the target, some corrupted"),
    "mean": (partial(make_problem, "mean"), "the target is linear in the mean instance"),
    "shape": (partial(make_problem, "shape"), "the target is the spread along one direction; the mean does not help"),
    "prime": (partial(make_problem, "prime"), "one key instance determines the target"),
}


def simulate(name: str, n_bags: int = 200, *, random_state=0):
    """Return bags and targets of the simulation ``name``."""
    if name not in SIMULATIONS:
        close = difflib.get_close_matches(name, SIMULATIONS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else "."
        raise ValueError(f"there is no data set {name!r}{hint} The data sets are: {', '.join(SIMULATIONS)}")
    if n_bags < 1:
        raise ValueError(f"n_bags must be at least 1, not {n_bags}")
    return SIMULATIONS[name][0](n_bags, random_state=random_state)
