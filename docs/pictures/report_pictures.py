"""Writes the pictures of reports that README and docs/report.md show: `make pictures`, with Chromium (`make browser`).

The data is simulated, and stations lie somewhere in Europe so that the report has a map.
"""

import base64
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from selenium import webdriver

import bagwise as bw

HERE = Path(__file__).parent
# file: which report, width, height, the section at the top, dark or light
PICTURES = {
    "report-model.png": ("model", 1280, 910, None, "light"),
    "report-data.png": ("model", 1280, 900, "#profile", "light"),
    "report-thumbnail.png": ("model", 600, 420, ".verdict", "light"),  # of the gallery
    "report-phone.png": ("model", 380, 900, None, "light"),
    "report-dark.png": ("model", 1280, 1240, "#bags", "dark"),
    "report-desktop.png": ("evaluation", 1280, 1150, None, "light"),
}


def stations(random_state: int = 0):
    """Bags and targets of the simulated scenes, with the place of every pixel kept."""
    bags, y = bw.datasets.make_aerosol(200, instances=50, ragged=True, random_state=random_state)
    rng = np.random.default_rng(random_state)
    centre = rng.uniform([5, 45], [15, 55], size=(len(bags), 2))
    place = bags.expand(centre) + rng.normal(0, 0.05, (bags.n_instances, 2))
    frame = pd.DataFrame(bags.instances, columns=bags.feature_names)
    frame = frame.assign(scene=bags.expand(bags.ids), aod=bags.expand(y), lon=place[:, 0], lat=place[:, 1])
    return bw.load(frame, bag="scene", target="aod", keep=["lon", "lat"])


def write_reports(folder: Path) -> dict[str, Path]:
    bags, y = stations()
    model = bw.method("auto", random_state=0).fit(bags, y)
    command = "bagwise fit aerosol.csv --bag scene --target aod --keep lon --keep lat --report aerosol.html"
    about = {"name": "aerosol.csv", "method": "auto", "command": command}
    methods = ["aggregated", "instance-mean", "instance-median", "input-kme", "instance-kme:ridge", "blr"]
    results = bw.evaluate(bags, y, methods, tune=False, repeats=3, name="aerosol.csv")
    return {
        "model": bw.reports.write_model_report(folder / "model.html", model, bags, y, **about),
        "evaluation": bw.reports.write_report(results, folder / "evaluation.html", bags=bags, y=y),
    }


def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))


def take(driver, page: Path, width: int, height: int, section: str | None, scheme: str) -> bytes:
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    driver.get(page.as_uri())
    top = 0
    if section is not None:
        top = driver.execute_script(
            "return document.querySelector(arguments[0]).getBoundingClientRect().top + scrollY - 8", section
        )
    clip = {"x": 0, "y": top, "width": width, "height": height, "scale": 1}
    found = driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    return base64.b64decode(found["data"])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        pages, driver = write_reports(Path(scratch)), browser()
        try:
            for name, (page, *how) in PICTURES.items():
                (HERE / name).write_bytes(take(driver, pages[page], *how))
                print(HERE / name)
        finally:
            driver.quit()
