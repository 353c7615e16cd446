"""A real browser for the tests of the report: found, installed where allowed, or the tests are skipped aloud."""

import os
import shutil
import subprocess

import pytest

PACKAGES = ("chromium", "chromium-driver")
PROGRAMS = ("chromium", "chromedriver")


@pytest.fixture(scope="session")
def browser():
    """One headless Chromium for all tests, with its console and its requests on record."""
    selenium = pytest.importorskip(
        "selenium.webdriver", reason="selenium is not installed: pip install 'bagwise[test]'"
    )
    _install_if_missing()
    options = selenium.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = selenium.Chrome(options=options, service=selenium.ChromeService(shutil.which("chromedriver")))
    yield driver
    driver.quit()


def _install_if_missing() -> None:
    if all(map(shutil.which, PROGRAMS)):
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        pytest.skip(f"there is no Chromium here and it cannot be installed: apt-get install {' '.join(PACKAGES)}")
    wait = ("-o", "DPkg::Lock::Timeout=240")  # another test process may be installing it
    said = _apt("install", "-y", "--no-install-recommends", *wait, *PACKAGES)
    if not all(map(shutil.which, PROGRAMS)):
        _apt("update", *wait)
        said = _apt("install", "-y", "--no-install-recommends", *wait, *PACKAGES)
    if not all(map(shutil.which, PROGRAMS)):
        pytest.skip(f"Chromium could not be installed: {said[-300:]}")


def _apt(*arguments) -> str:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            ["apt-get", *arguments], env=environment, capture_output=True, text=True, timeout=300, check=False
        )
    except subprocess.TimeoutExpired:
        return "apt-get took longer than five minutes"
    return done.stdout + done.stderr
