"""The report in a real browser: it works, it is safe, it fits."""

import json

import pytest
from tests.helpers.toy_runs import END, HOSTILE, IMAGE, SCRIPT, hostile_run

import bagwise as bw
from bagwise.reports import write_report


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory):
    """The browser on the report of a run in which every name is hostile, at the size of a desk."""
    bags, y, results = hostile_run()
    model = bw.method("aggregated").fit(bags, y)
    path = write_report(results, tmp_path_factory.mktemp("report") / "hostile.html", bags=bags, y=y, model=model)
    browser.get_log("browser"), browser.get_log("performance")
    resize(browser, 1280, 900)
    still = {"name": "prefers-reduced-motion", "value": "reduce"}  # or a click meets a page that is still scrolling
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [still]})
    browser.get(path.as_uri())
    return browser


def resize(browser, width, height):
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def run(page, script, *arguments):
    return page.execute_script(script, *arguments)


def press(page, *keys):
    from selenium.webdriver import ActionChains

    actions = ActionChains(page)
    for key in keys:
        actions.send_keys(key)
    actions.perform()


def first_column(page, table):
    rows = "[...document.querySelectorAll(arguments[0] + ' tbody tr')]"
    return run(page, f"return {rows}.map(row => row.cells[0].innerText)", table)


def test_every_name_stays_text(page):
    assert page.title == f"{SCRIPT} · bagwise"
    assert run(page, "return document.images.length") == 0
    assert run(page, "return document.scripts.length") == 2  # the data of the explorer, and our own
    assert run(page, "return document.querySelector('h1').textContent") == SCRIPT
    assert set(HOSTILE) <= set(first_column(page, "#bag-table"))
    assert {"aggregated" + SCRIPT, IMAGE, END} == set(first_column(page, "#methods"))
    assert END in run(page, "return document.querySelector('.facts').textContent")
    assert SCRIPT in run(page, "return document.querySelector('#failed').textContent")
    for name in (SCRIPT, IMAGE, END):  # the features, in the table of instances
        assert name in run(page, "return document.querySelector('#panel thead').textContent")


def test_sorting_by_a_click_and_by_the_keyboard(page):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    errors = "return [...document.querySelectorAll('#bag-table tbody tr')].map(r => Number(r.cells[1].dataset.value))"
    assert run(page, errors) == sorted(run(page, errors), reverse=True)  # as it comes
    button = page.find_element(By.CSS_SELECTOR, "#bag-table th:nth-child(2) button")
    button.click()
    assert run(page, errors) == sorted(run(page, errors))
    head = "return document.querySelector('#bag-table th:nth-child(2)').getAttribute('aria-sort')"
    assert run(page, head) == "ascending"
    button.send_keys(Keys.ENTER)
    assert run(page, errors) == sorted(run(page, errors), reverse=True) and run(page, head) == "descending"


def test_the_explorer_answers_a_click(page):
    from selenium.webdriver.common.by import By

    row = page.find_elements(By.CSS_SELECTOR, "#bag-table tbody tr")[3]
    name, size = row.find_elements(By.TAG_NAME, "td")[0].text, int(row.find_elements(By.TAG_NAME, "td")[4].text)
    row.click()
    assert page.find_element(By.CSS_SELECTOR, "#panel h3").text == f"Bag {name}"
    strips = page.find_elements(By.CSS_SELECTOR, "#panel svg.strip")
    assert [len(strip.find_elements(By.CSS_SELECTOR, ".point")) for strip in strips] == [size] * len(strips)
    assert len(page.find_elements(By.CSS_SELECTOR, "#panel tbody tr")) == size
    strips[0].find_element(By.CSS_SELECTOR, ".point").click()  # the same instance everywhere
    assert len(page.find_elements(By.CSS_SELECTOR, "#panel .point.on")) == len(strips)


def test_the_explorer_answers_the_keyboard(page):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    names = first_column(page, "#bag-table")
    page.find_elements(By.CSS_SELECTOR, "#bag-table tbody tr")[0].click()
    run(page, "document.querySelector('#bag-table tr.picked button').focus()")
    press(page, Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_UP)
    assert page.find_element(By.CSS_SELECTOR, "#panel h3").text == f"Bag {names[1]}"
    press(page, Keys.END)
    assert page.find_element(By.CSS_SELECTOR, "#panel h3").text == f"Bag {names[-1]}"
    assert run(page, "return document.activeElement.textContent") == names[-1]
    tabbable = "return document.querySelectorAll('#bag-table tbody button[tabindex=\"0\"]').length"
    assert run(page, tabbable) == 1


def test_a_bag_is_found_by_its_name(page):
    from selenium.webdriver.common.by import By

    field = page.find_element(By.CSS_SELECTOR, "#bag-list input[type=search]")
    field.send_keys("BAG 1")
    seen = [row.text for row in page.find_elements(By.CSS_SELECTOR, "#bag-table tbody td.first") if row.is_displayed()]
    assert sorted(seen) == sorted(name for name in first_column(page, "#bag-table") if name.startswith("bag 1"))
    assert len(seen) == 11
    run(page, "arguments[0].value = ''; arguments[0].dispatchEvent(new Event('input'))", field)


def test_the_first_stop_of_the_tab_key_skips_to_the_results(page):
    from selenium.webdriver.common.keys import Keys

    run(page, "document.activeElement.blur(); window.scrollTo(0, 0); document.body.focus()")
    page.execute_cdp_cmd("Page.reload", {})
    press(page, Keys.TAB)
    assert run(page, "return document.activeElement.className") == "skip"
    assert run(page, "return document.activeElement.getBoundingClientRect().left") >= 0  # seen once it has the focus


@pytest.mark.parametrize("width", [320, 768, 1280])
def test_the_page_never_scrolls_sideways(page, width):
    resize(page, width, 800)
    run(page, "document.querySelectorAll('details').forEach(one => one.open = true)")
    assert run(page, "return document.documentElement.scrollWidth") <= width
    resize(page, 1280, 900)


def test_dark_mode_changes_the_ground(page):
    colours = {}
    for scheme in ("light", "dark"):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        colours[scheme] = run(page, "return getComputedStyle(document.body).backgroundColor")
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    light, dark = (sum(map(int, colours[name][4:-1].split(","))) for name in ("light", "dark"))
    assert light > 700 and dark < 100


def test_without_javascript_all_but_the_explorer_is_there(page):
    from selenium.webdriver.common.by import By

    page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        page.refresh()
        assert "The explorer needs JavaScript" in page.find_element(By.TAG_NAME, "main").text
        assert len(page.find_elements(By.CSS_SELECTOR, "#bag-table tbody tr")) == 40
        assert not page.find_element(By.ID, "panel").is_displayed()
        assert page.find_elements(By.CSS_SELECTOR, "th button") == []  # no button that does nothing
    finally:
        page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
        page.refresh()
    assert page.find_element(By.ID, "panel").is_displayed()


def test_no_error_and_no_request(page):
    """Last: what the browser has noted through all tests above."""
    assert page.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    asked = {e["params"]["request"]["url"].split("#")[0] for e in events if e["method"] == "Network.requestWillBeSent"}
    assert asked == {page.current_url.split("#")[0]}
    assert page.title == f"{SCRIPT} · bagwise"
