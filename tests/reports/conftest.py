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
    from selenium.common.exceptions import WebDriverException

    _install_if_missing()
    options = selenium.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    try:
        driver = selenium.Chrome(options=options, service=selenium.ChromeService(shutil.which("chromedriver")))
    except WebDriverException as error:
        pytest.skip(f"Chromium is installed and does not start here: {str(error)[:300]}")
    yield driver
    driver.quit()


def _install_if_missing() -> None:
    if all(map(shutil.which, PROGRAMS)):
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        pytest.skip(f"there is no Chromium here and it cannot be installed: apt-get install {' '.join(PACKAGES)}")
    # Another test process may be installing it; a mirror that does not answer must not hold up all tests.
    wait = ("-o", "DPkg::Lock::Timeout=120", "-o", "Acquire::http::Timeout=15", "-o", "Acquire::Retries=1")
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
            ["apt-get", *arguments], env=environment, capture_output=True, text=True, timeout=150, check=False
        )
    except subprocess.TimeoutExpired:
        return "apt-get took longer than 150 seconds"
    return done.stdout + done.stderr
