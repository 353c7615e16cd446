"""The report in a real browser: it works, it is safe, it fits, it can be read, reached by keys, and printed."""

import base64
import json
import re

import numpy as np
import pytest
from tests.helpers.toy_runs import END, HOSTILE, IMAGE, SCRIPT, Automatic, hostile_run

import bagwise as bw
from bagwise.reports import write_model_report, write_report
from bagwise.testing.contract_checks import sample


@pytest.fixture(scope="module")
def evaluation_file(tmp_path_factory):
    """The report of a run in which every name is hostile."""
    bags, y, results = hostile_run()
    model = bw.method("aggregated").fit(bags, y)
    return write_report(results, tmp_path_factory.mktemp("report") / "hostile.html", bags=bags, y=y, model=model)


@pytest.fixture(scope="module")
def page(browser, evaluation_file):
    """The browser on that report, at the size of a desk."""
    browser.get_log("browser"), browser.get_log("performance")
    resize(browser, 1280, 900)
    still = {"name": "prefers-reduced-motion", "value": "reduce"}  # or a click meets a page that is still scrolling
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [still]})
    browser.get(evaluation_file.as_uri())
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


def test_dark_mode_changes_the_ground_and_the_figures(page):
    dots = "document.querySelector('.plot path[style*=\"round\"]')"
    colours = []
    for scheme in ("light", "dark"):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        for colour in ("document.body).backgroundColor", f"{dots}).stroke"):
            channels = run(page, f"return getComputedStyle({colour}")[4:-1].split(",")
            colours.append(sum(map(int, channels)))
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    light, light_dots, dark, dark_dots = colours
    assert light > 700 and dark < 100 and light_dots < 300 < dark_dots


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


# The report of a model, with members, a map, and names that are out to do harm -----------------------------------


@pytest.fixture
def model_page(browser, model_file):
    resize(browser, 1280, 900)
    browser.get(model_file.as_uri())
    yield browser
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    resize(browser, 1280, 900)


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    bags, y = sample(40, ids=[*HOSTILE, *(f"bag {i}" for i in range(36))], feature_names=[SCRIPT, IMAGE, "c"])
    rng = np.random.default_rng(0)
    bags = bags._with(kept={"lon": rng.normal(size=bags.n_instances), "lat": rng.normal(size=bags.n_instances)})
    path = tmp_path_factory.mktemp("model") / "model.html"
    return write_model_report(path, Automatic().fit(bags, y), bags, y, method="auto")


# The contrast (WCAG 2.2, 1.4.3) of every text that is seen, with the colours under it laid over each other.
CONTRAST = """
const channels = (text) => text.match(/[0-9.]+/g).map(Number);
const over = (top, under) => {
  const a = top.length > 3 ? top[3] : 1;
  return [0, 1, 2].map((i) => a * top[i] + (1 - a) * under[i]);
};
const ground = (node) => {
  const layers = [];
  for (let one = node; one; one = one.parentElement) layers.push(channels(getComputedStyle(one).backgroundColor));
  return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255]);
};
const light = (rgb) => {
  const [r, g, b] = rgb.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const poor = [];
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
let seen = 0;
while (walk.nextNode()) {
  const node = walk.currentNode.parentElement;
  if (!walk.currentNode.textContent.trim() || node.closest("script, style, title, noscript, .skip, .unseen")) continue;
  if (!node.checkVisibility()) continue;
  const style = getComputedStyle(node);
  const under = ground(node.closest("svg") ?? node);
  const ink = over(channels(node.closest("svg") ? style.fill : style.color), under);
  const [low, high] = [light(ink), light(under)].sort((a, b) => a - b);
  const ratio = (high + 0.05) / (low + 0.05);
  const size = parseFloat(style.fontSize);
  const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
  seen += 1;
  if (ratio < (large ? 3 : 4.5)) poor.push(`${walk.currentNode.textContent.trim().slice(0, 40)}: ${ratio.toFixed(2)}`);
}
return [seen, poor];
"""


@pytest.fixture(params=["model", "evaluation"])
def any_page(request, model_page, evaluation_file):
    if request.param == "evaluation":
        model_page.get(evaluation_file.as_uri())
    return model_page


@pytest.mark.parametrize("look", ["light", "dark", "print"])
def test_every_text_has_enough_contrast(any_page, look):
    media = {"media": "print"} if look == "print" else {"features": [{"name": "prefers-color-scheme", "value": look}]}
    any_page.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    run(any_page, "document.querySelectorAll('details').forEach(one => one.open = true)")
    seen, poor = run(any_page, CONTRAST)
    assert seen > 300 and poor == []


def test_every_figure_has_a_text_alternative(any_page):
    bare = """return [...document.querySelectorAll('svg')].filter(one => !(one.getAttribute('aria-hidden') === 'true'
        || (one.getAttribute('role') === 'img' && (one.getAttribute('aria-label') ?? '').length > 8))).map(
        one => one.outerHTML.slice(0, 120))"""
    assert run(any_page, "return document.querySelectorAll('svg').length") > 15
    assert run(any_page, bare) == []


def test_the_tab_key_reaches_everything_in_order_and_shows_where_it_is(model_page):
    from selenium.webdriver.common.keys import Keys

    run(
        model_page,
        """const all = 'a[href], button, input, summary, [tabindex]';
        const seen = [...document.querySelectorAll(all)].filter(one => one.tabIndex >= 0 && one.checkVisibility());
        seen.forEach((one, i) => { one.dataset.stop = i; }); window.scrollTo(0, 0); document.activeElement.blur();""",
    )
    stops = run(model_page, "return document.querySelectorAll('[data-stop]').length")
    reached = []
    for _ in range(stops):
        press(model_page, Keys.TAB)
        stop, outline = run(
            model_page,
            "const e = document.activeElement; return [e.dataset.stop, getComputedStyle(e).outlineStyle]",
        )
        reached.append(int(stop))
        assert outline not in ("none", ""), stop
    assert stops > 20 and reached == list(range(stops))


def test_no_column_of_members_is_clipped_at_a_desk(model_page):
    box = "document.querySelector('#summary .scroll')"
    wide, seen = run(model_page, f"return [{box}.scrollWidth, {box}.clientWidth]")
    assert wide <= seen


# Texts that take about a line for every word: what a column that is too narrow does.
NARROW = r"""
const found = [];
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
  const text = walk.currentNode.textContent.trim();
  const words = text.split(/\s+/).length;
  const node = walk.currentNode.parentElement;
  if (words < 4 || !node.checkVisibility() || node.closest("svg, script, style")) continue;
  const range = document.createRange();
  range.selectNodeContents(walk.currentNode);
  const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size;
  if (lines > 2 && text.length / lines < 10) found.push(`${lines} lines: ${text.slice(0, 60)}`);
}
return found;
"""


@pytest.mark.parametrize("width", [320, 380, 768, 1280])
def test_any_screen_shows_it_without_narrow_columns(any_page, width):
    resize(any_page, width, 800)
    run(any_page, "document.querySelectorAll('details').forEach(one => one.open = true)")
    assert run(any_page, "return document.documentElement.scrollWidth") <= width
    assert run(any_page, NARROW) == []
    sizes = "[...document.querySelectorAll('p, td, th, dd, dt')].map(one => parseFloat(getComputedStyle(one).fontSize))"
    assert run(any_page, f"return Math.min(...{sizes})") >= 12


def test_on_paper_everything_is_open_and_fits(model_page):
    printed = model_page.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    pages = len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(printed["data"])))
    assert 2 <= pages <= 8
    assert run(model_page, "return document.querySelectorAll('details:not([open])').length") > 0  # closed again
    run(model_page, "window.dispatchEvent(new Event('beforeprint'))")
    assert run(model_page, "return document.querySelectorAll('details:not([open])').length") == 0
    model_page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    resize(model_page, 690, 1000)  # the width of a page of A4
    assert run(model_page, "return document.documentElement.scrollWidth") <= 690
    assert not run(model_page, "return document.querySelector('nav').checkVisibility()")


def test_the_explorer_shows_features_and_a_map(model_page):
    from selenium.webdriver.common.by import By

    rugs = run(
        model_page, "return [...document.querySelectorAll('#panel .feature')].map(one => one.firstChild.textContent)"
    )
    assert sorted(rugs) == sorted([SCRIPT, IMAGE, "c"])
    label = run(model_page, "return document.querySelector('#panel .feature svg').getAttribute('aria-label')")
    assert "in the instances that mattered most" in label
    size = int(run(model_page, "return document.querySelector('#bag-table tr.picked').cells[4].textContent"))
    assert len(model_page.find_elements(By.CSS_SELECTOR, "#panel .place-map circle")) == size
    circle = model_page.find_element(By.CSS_SELECTOR, "#bag-map circle[data-place='17']")
    name = run(model_page, "return document.querySelector('#bag-table tr[data-place=\"17\"]').cells[0].textContent")
    run(model_page, "arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))", circle)
    assert model_page.find_element(By.CSS_SELECTOR, "#panel h3").text == f"Bag {name}"
    assert "on" in circle.get_attribute("class").split()
    assert model_page.get_log("browser") == []
