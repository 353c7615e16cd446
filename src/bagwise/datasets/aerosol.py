"""Satellite pixels around a ground station: a small physical simulation in the spirit of the MISR data sets."""

from __future__ import annotations

import numpy as np

from bagwise.bags import Bags

BANDS = np.array([0.446, 0.558, 0.672, 0.867])  # micrometres: blue, green, red and near infrared of MISR
RAYLEIGH = 0.008569 * BANDS**-4 * (1 + 0.0113 * BANDS**-2 + 0.00013 * BANDS**-4)  # optical depth of pure air
ASYMMETRY = 0.55  # of aerosol: it scatters forward (a little less than real: one such p has too faint a back)
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
    r"""Aerosol optical depth from satellite pixels, some of them cloudy: the problem this library grew up with.

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

    where :math:`\ell_b` leaves out what is scattered forwards, since that light still arrives. A pixel of which a
    cloud covers the share c shows :math:`(1 - c) \rho_{bc} + c \rho_\mathrm{cloud}`, bright and the same in every
    band, and every reflectance is multiplied by 1 + noise * N(0, 1). The target is lognormal, median 0.18, at most 2;
    the surface a mixture of soil and vegetation that differs between pixels; the exponent :math:`\alpha` and the
    albedo :math:`\omega` of the aerosol differ between bags and are not observed. Pixels lie uniformly in a disc; one
    cloud per scene is densest at its centre and thins out to an edge.

    A cloud hides the aerosol, so the predictions of cloudy pixels fall back towards the mean target, and the
    predictions of a bag are skewed: upwards in clean air, downwards in haze. Their median is therefore better than
    their mean, and a regression on their distribution can be better than both.

    Parameters
    ----------
    n_bags : int
    instances : int
        Pixels of a bag.
    ragged : bool
        Drop the pixels that a cloud mask would flag (more than half covered) and those outside the satellite's swath,
        which sees 20 to 100 percent of a scene. The pixels that stay are those of the same seed without this option.
    cloud_fraction : float or {"clear", "mixed", "cloudy"}
        Mean share of the pixels touched by cloud, from 0 to below 0.6; or by name 0.1, 0.4, 0.55: how difficult it is.
    noise : float
        Relative standard deviation of a reflectance: the sensor, and cameras that do not see quite the same ground.
    stations : int, optional
        Number of ground stations. The bags of a station share its kind of surface, and `Bags.groups` names it. By
        default every bag has a place of its own and there are no groups.
    units : {"reflectance", "sensor"}
        Reflectances from 0 to 1 and the angles above; or what the 740 pixels of MISR1 that are published without labels
        look like: reflectances as whole numbers, their medians about 150 to 425 (there 152 to 415), and four angles,
        the zenith of the sun and the angles by which light turns on its way to the three cameras (fore, nadir, aft),
        with medians near 35, 76, 145 and 123 degrees.
    random_state : int, Generator or None

    Returns
    -------
    bags : Bags
    y : array of shape (n_bags,)

    Notes
    -----
    Physics: single scattering by air and aerosol, the way through the haze, the spectra of air, soil and vegetation;
    so neighbouring visible bands are correlated by 0.98, red and near infrared by 0.6. Guesses: how targets, greenness
    and clouds are distributed, the gain of the sensor (one for all bands), and which four angles the published file
    holds (there, the third has a median of 133).

    References
    ----------
    Z. Wang, L. Lan, S. Vucetic, "Mixture model for multiple instance regression and applications in remote sensing",
    IEEE Transactions on Geoscience and Remote Sensing, 2012 (the data sets MISR1 and MISR2).
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
    if isinstance(cloud_fraction, str):
        if cloud_fraction not in CLOUDS:
            named = ", ".join(map(repr, CLOUDS))
            raise ValueError(f"cloud_fraction must be a share, or one of {named}, not {cloud_fraction!r}")
        cloud_fraction = CLOUDS[cloud_fraction]
    if not 0 <= cloud_fraction < MOST_CLOUDY:
        raise ValueError(f"cloud_fraction must be a share from 0 to below {MOST_CLOUDY}, not {cloud_fraction!r}")
    if noise < 0:
        raise ValueError(f"noise is a relative standard deviation, zero or more, not {noise!r}")
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
    kept = _draw_kept(rng, cover) if ragged else np.ones(cover.shape, dtype=bool)
    sizes = kept.sum(axis=1)
    pixels = np.column_stack([reflectance.reshape(n_bags, instances, 12)[kept], np.repeat(angles, sizes, axis=0)])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return Bags(pixels, offsets, groups=groups, feature_names=FEATURE_NAMES), aod


def _draw_angles(rng, n_bags: int, units: str) -> np.ndarray:
    """(bags, 4), degrees; an azimuth of 0 looks towards the sun, and the two oblique cameras look in about opposite
    directions.
    """
    if units == "sensor":
        ends = np.array([[20, 50], [68, 73], [5, 35], [100, 140]])
        return rng.uniform(*ends.T, (n_bags, 4))
    sun = rng.uniform(30, 55, n_bags)
    view = rng.uniform(50, 60, n_bags)
    fore = rng.uniform(20, 80, n_bags)
    aft = np.clip(180 - fore + rng.normal(0, 5, n_bags), 0, 180)
    return np.column_stack([sun, view, fore, aft])


def _draw_surface(rng, place: np.ndarray, instances: int) -> np.ndarray:
    """(bags, pixels, bands): a mean greenness and brightness for every place, varied from pixel to pixel."""
    shape = (len(place), instances)
    green, bright = rng.beta(6, 6, place.max() + 1), rng.lognormal(0, 0.1, place.max() + 1)
    green = np.clip(green[place, None] + rng.normal(0, 0.2, shape), 0, 1)[..., None]
    bright = (bright[place, None] * rng.lognormal(0, 0.25, shape))[..., None]
    return bright * (green * VEGETATION + (1 - green) * SOIL)


def _draw_air(rng, aod: np.ndarray, angles: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Path reflectance and two-way transmission, (bags, cameras, bands) each; cosines of the scattering angles."""
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
    """Cover and reflectance of the cloud in every pixel, (bags, pixels) each."""
    n_bags = shape[0]
    mean = max(cloud_fraction, 1e-9) / MOST_CLOUDY  # a beta distribution needs parameters above zero
    share = MOST_CLOUDY * rng.beta(2 * mean, 2 * (1 - mean), (n_bags, 1))
    # In a disc the squared distance from the centre is uniform, so the cloud touches this share of the pixels.
    cover = np.clip((share - rng.uniform(size=shape)) / rng.uniform(0.2, 0.8, (n_bags, 1)), 0, 1)
    cloud = rng.uniform(0.2, 0.6, (n_bags, 1)) * rng.lognormal(0, 0.1, shape)
    return cover, cloud


def _draw_kept(rng, cover: np.ndarray) -> np.ndarray:
    """Which pixels pass the cloud mask and lie inside the swath; the clearest of every bag in any case."""
    inside = rng.uniform(size=cover.shape) < rng.uniform(0.2, 1, (len(cover), 1))
    kept = inside & (cover <= 0.5)
    kept[np.arange(len(cover)), cover.argmin(axis=1)] = True  # a bag cannot be empty
    return kept
