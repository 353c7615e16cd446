"""A real browser for the tests of the report, where `make browser` has set one up."""

import shutil

import pytest

PROGRAMS = ("chromium", "chromedriver")


@pytest.fixture(scope="session")
def browser():
    """One headless Chromium for all tests, with its console and its requests on record."""
    selenium = pytest.importorskip(
        "selenium.webdriver", reason="selenium is not installed: pip install 'bagwise[test]'"
    )
    from selenium.common.exceptions import WebDriverException

    if not all(map(shutil.which, PROGRAMS)):
        pytest.skip(
            "there is no Chromium here: run `make browser` as root, or apt-get install chromium chromium-driver"
        )
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
