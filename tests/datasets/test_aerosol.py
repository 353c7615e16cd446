"""Simulated satellite scenes: constant and varying parts, and the documented difficulty."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from bagwise.bags.segments import segment_max, segment_mean, segment_median, segment_min
from bagwise.datasets import make_aerosol


@pytest.mark.parametrize("ragged", [False, True])
def test_layout_follows_the_misr_files(ragged):
    bags, y = make_aerosol(30, instances=40, ragged=ragged)
    assert bags.shape == (30, 16) and y.shape == (30,) and bags.groups is None
    assert bags.feature_names[0] == "reflectance_1" and bags.feature_names[-1] == "angle_4"
    width = segment_max(bags.instances, bags.offsets) - segment_min(bags.instances, bags.offsets)
    assert (width[:, 12:] == 0).all() and (width[bags.sizes > 1, :12] > 0).all()


def test_values_are_physical():
    bags, y = make_aerosol(2000, instances=20)
    reflectance, angles = bags.instances[:, :12], bags.instances[:, 12:]
    assert reflectance.min() > 0 and reflectance.max() < 1.5
    assert angles.min() >= 0 and angles.max() <= 180
    assert y.min() > 0 and y.max() <= 2
    assert np.median(y) == pytest.approx(0.18, abs=0.02)
    assert y.std() == pytest.approx(0.16, abs=0.02)


def test_haze_brightens_the_blue_and_hides_the_bright_infrared_ground():
    bags, y = make_aerosol(1000, instances=20, cloud_fraction=0.0, noise=0.0)
    nadir = segment_mean(bags.instances, bags.offsets)[:, :4]
    blue, green, _, infrared = np.polyfit(y, nadir, 1)[0]
    assert blue > 0 > infrared
    assert blue > green


def test_clouds_are_bright_and_flat():
    clear, _ = make_aerosol(300, instances=50, cloud_fraction=0.0, noise=0.0)
    cloudy, _ = make_aerosol(300, instances=50, cloud_fraction=0.5, noise=0.0)
    difference = (cloudy.instances - clear.instances)[:, :4]
    touched = np.abs(difference).max(axis=1) > 1e-6
    assert touched.mean() == pytest.approx(0.5, abs=0.05)  # cloud_fraction is the share touched
    assert np.ptp(cloudy.instances[touched, :4], axis=1).mean() < np.ptp(clear.instances[touched, :4], axis=1).mean()
    assert difference[touched, 0].mean() > 0.05


def test_without_clouds_and_noise_only_the_surface_varies_in_a_bag():
    bags, _ = make_aerosol(5, instances=30, cloud_fraction=0.0, noise=0.0)
    for bag in bags:  # a surface has two degrees of freedom, so the pixels of a camera lie in a plane
        centred = bag[:, :4] - bag[:, :4].mean(axis=0)
        assert np.linalg.matrix_rank(centred, tol=1e-10) == 2


def test_ragged_drops_pixels_and_changes_none():
    full, y = make_aerosol(40)
    ragged, same_y = make_aerosol(40, ragged=True)
    np.testing.assert_array_equal(y, same_y)
    assert ragged.sizes.min() < 40 and ragged.sizes.max() > 70
    for bag, part in zip(full, ragged, strict=True):
        assert set(map(tuple, part)) <= set(map(tuple, bag))
    assert (make_aerosol(200, instances=1, ragged=True)[0].sizes == 1).all()


def test_stations_share_their_surface():
    bags, _ = make_aerosol(200, instances=30, stations=10, cloud_fraction=0.0)
    assert (np.bincount(bags.groups) == 20).all()
    infrared = segment_mean(bags.instances, bags.offsets)[:, 3]
    between = np.var([infrared[bags.groups == station].mean() for station in range(10)])
    within = np.mean([infrared[bags.groups == station].var() for station in range(10)])
    assert between > within


def test_clouds_make_the_median_better_than_the_mean():
    """The documented property: clouds bias the mean of instance predictions more than the median."""
    bags, y = make_aerosol(200, instances=50)
    model = make_pipeline(StandardScaler(), PolynomialFeatures(2), StandardScaler(), Ridge(10.0))
    held_out = cross_val_predict(model, bags.instances, bags.expand(y), groups=bags.expand(bags.ids), cv=GroupKFold(5))
    of_mean = np.sqrt(np.mean((segment_mean(held_out, bags.offsets) - y) ** 2))
    of_median = np.sqrt(np.mean((segment_median(held_out, bags.offsets) - y) ** 2))
    assert of_median < of_mean < 0.7 * y.std()


def test_sensor_units_look_like_the_published_pixels():
    bags, y = make_aerosol(300, instances=30, units="sensor", random_state=0)
    reflectance, angles = bags.instances[:, :12], bags.instances[:, 12:]
    assert (reflectance == np.rint(reflectance)).all()
    medians = np.median(reflectance, axis=0)
    assert (medians > 145).all() and (medians < 435).all()
    np.testing.assert_allclose(np.median(angles, axis=0), [35, 76, 145, 123], atol=3)
    assert (np.ptp(angles.reshape(300, 30, 4), axis=1) == 0).all()
    together = np.corrcoef(reflectance.T)
    assert together[0, 1] > 0.95 and 0.3 < together[2, 3] < 0.9
    np.testing.assert_array_equal(y, make_aerosol(300, instances=30, random_state=0)[1])


def test_difficulty_by_name():
    named, number = (make_aerosol(20, instances=5, cloud_fraction=c)[0] for c in ("cloudy", 0.55))
    np.testing.assert_array_equal(named.instances, number.instances)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cloud_fraction": 0.6}, "cloud_fraction must be a share from 0 to below 0.6, not 0.6"),
        ({"cloud_fraction": "dark"}, "cloud_fraction must be a share, or one of 'clear', 'mixed', 'cloudy'"),
        ({"noise": -1}, "noise must be .* at least 0, not -1"),
        ({"stations": 0}, r"stations must be from 1 to the number of bags \(5\), not 0"),
        ({"stations": 6}, r"stations must be from 1 to the number of bags \(5\), not 6"),
        ({"units": "counts"}, "units must be 'reflectance' or 'sensor', not 'counts'"),
    ],
)
def test_errors(options, message):
    with pytest.raises(ValueError, match=message):
        make_aerosol(5, **options)
