"""The built site, in the folder TDT_SITE (see `.ci/run`): a reader's searches find their pages, in a browser too."""

from __future__ import annotations

import functools
import html
import json
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

SITE = Path(os.environ.get("TDT_SITE", ""))
pytestmark = pytest.mark.skipif(
    "TDT_SITE" not in os.environ, reason="TDT_SITE names no built site: mkdocs build --strict"
)


@pytest.fixture(scope="module")
def index() -> list[dict[str, str]]:
    return json.loads((SITE / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("Conv2d", "reference/tdt.nn/#tdt.nn.Conv2d"),
        ("--resume", "reference/cli/#tdt-train"),
        ("clip_grad_norm", "guide/config/#train"),
        ("Dense(32", "guide/coming-from/#keras"),
    ],
)
def test_the_search_index_has_what_a_reader_looks_for(index, text, place):
    assert place in [entry["location"] for entry in index if text in entry["title"] + entry["text"]]


def test_every_page_of_the_tutorials_shows_output():
    for name in ("first-run", "images", "tables", "texts", "forecasting", "fine-tuning", "tuning"):
        assert "epoch" in (SITE / "guide" / name / "index.html").read_text(encoding="utf-8"), name


def test_a_method_that_another_module_defines_is_on_the_page_of_its_class():
    page = (SITE / "reference" / "tdt.Tensor" / "index.html").read_text(encoding="utf-8")
    assert 'id="tdt.Tensor.sum"' in page and 'id="tdt.Tensor.backward"' in page


def addresses(page: str) -> Iterator[tuple[Path, str]]:
    """The file and the anchor that each link and picture of a page names, where they are the site's own."""
    text = (SITE / page).read_text(encoding="utf-8")
    for quoted, bare in re.findall(r'\b(?:href|src)=(?:"([^"]*)"|([^\s">]+))', text):
        place = urlsplit(html.unescape(quoted or bare))
        if not place.scheme and not place.netloc:
            start = SITE if place.path.startswith("/") else (SITE / page).parent
            file = (start / unquote(place.path.lstrip("/"))).resolve() if place.path else (SITE / page).resolve()
            yield file / "index.html" if file.is_dir() else file, unquote(place.fragment)


def test_every_link_of_the_site_leads_to_a_file_and_an_anchor_of_it():
    pages = {page.resolve(): str(page.relative_to(SITE)) for page in SITE.rglob("*.html")}
    anchors = {page: set(re.findall(r'\bid="?([^"\s>]+)', page.read_text(encoding="utf-8"))) for page in pages}
    links = [(name, file, anchor) for name in pages.values() for file, anchor in addresses(name)]
    assert len(links) > 1000
    assert [(name, str(file)) for name, file, _ in links if not file.is_file()] == []
    lost = [
        (name, str(file), anchor)
        for name, file, anchor in links
        if anchor and anchor not in anchors.get(file, [anchor])
    ]
    assert lost == []


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    programs = [shutil.which("chromium"), shutil.which("chromedriver")]
    if None in programs:
        pytest.skip("Chromium and its driver are not installed; apt-get install chromium chromium-driver")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    for argument in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "window-size=1400,900", "no-proxy-server"):
        options.add_argument(f"--{argument}")
    options.binary_location = programs[0]
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(programs[1]))
    yield driver
    driver.quit()


@pytest.mark.parametrize(("text", "place"), [("Conv2d", "tdt.nn.Conv2d"), ("--resume", "reference/cli/")])
def test_the_search_of_a_browser_finds(browser, address, text, place):
    browser.get(f"{address}/")
    end, links = time.monotonic() + 60, list[str]()
    browser.find_element("css selector", ".md-search__input").send_keys(text)
    while not any(place in link for link in links):
        assert time.monotonic() < end, (text, links)
        time.sleep(0.3)
        found = browser.find_elements("css selector", ".md-search-result__link")
        links = [link.get_attribute("href") or "" for link in found]


@pytest.mark.parametrize("scheme", ["default", "slate"])
def test_pages_are_light_or_dark_as_the_reader_chooses(browser, address, scheme):
    browser.get(f"{address}/guide/first-run/")
    browser.execute_script(f"document.body.setAttribute('data-md-color-scheme', '{scheme}')")
    color = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    lightness = sum(map(int, color.removeprefix("rgb(").rstrip(")").split(","))) / 3
    assert lightness > 200 if scheme == "default" else lightness < 70
