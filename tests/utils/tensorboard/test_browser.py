"""What a person sees: a headless Chromium opens TensorBoard's pages of a real run and finds what was logged.

`TDT_SCREENSHOTS=docs/tensorboard pytest tests/utils/tensorboard/test_browser.py` takes the pictures of the guide anew.
"""

from __future__ import annotations

import io
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tdt.train.config import load
from tdt.train.session import Session
from tests.utils.tensorboard.server import tensorboard

SHOWN = [
    "train.epochs=3", "log.every=4 steps", "log.histograms=1 epoch", "log.images=16", "log.misclassified=16",
    "log.confusion=true", "log.pr_curves=true", "log.graph=true", "log.embedding=classifier.0",
]  # fmt: skip

# The text of a page with all that it hides in shadow roots, frames and fields.
READ = """
const parts = [];
(function read(node) {
  if (!node) return;
  if (node.nodeType === Node.TEXT_NODE) parts.push(node.textContent);
  if (["SCRIPT", "STYLE", "NOSCRIPT"].includes(node.tagName)) return;
  if (node.tagName === "INPUT") parts.push(node.value);
  if (node.tagName === "IFRAME") read(node.contentDocument && node.contentDocument.body);
  read(node.shadowRoot);
  for (const child of node.childNodes) read(child);
})(document.body);
return parts.join(" ");
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    programs = [shutil.which("chromium"), shutil.which("chromedriver")]
    if None in programs:
        pytest.skip("Chromium and its driver are not installed; apt-get install chromium chromium-driver")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    for argument in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "window-size=1400,900", "no-proxy-server",
                     "enable-unsafe-swiftshader"):  # fmt: skip
        options.add_argument(f"--{argument}")
    options.binary_location = programs[0]
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(programs[1]))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def board(browser, tmp_path_factory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("browser") / "runs"
    for rate in ("0.05", "0.01"):
        with Session.start(load("digits-cnn", [*SHOWN, f"optimizer.lr={rate}"]), root=root) as session:
            assert session.train().reason == "done"
    with tensorboard(root, "true") as address:
        yield address


@pytest.fixture
def look(browser, board) -> Callable[..., None]:
    def look(page: str, *texts: str) -> None:
        """Open a page, wait until all of `texts` stand in it, and save a screenshot where one is requested."""
        missing, read, end = list(texts), "", time.monotonic() + 40
        while missing:
            assert time.monotonic() < end, f"{page}: {missing} not found in: {read}"
            browser.get("about:blank")  # else a page that was opened before the run was read stays empty
            browser.get(f"{board}/?darkMode=false#{page}")
            waited = time.monotonic() + 6
            while missing and time.monotonic() < waited:
                time.sleep(0.2)
                read = " ".join(browser.execute_script(READ).split())
                missing = [text for text in texts if text not in read]
        if folder := os.environ.get("TDT_SCREENSHOTS"):
            time.sleep(2)  # charts come in gently
            Path(folder).mkdir(parents=True, exist_ok=True)
            picture = Image.open(io.BytesIO(browser.get_screenshot_as_png())).convert("RGB")
            picture.quantize(64).save(f"{folder}/{page}.png", optimize=True)

    return look


def test_scalars(look):
    look("scalars", "tag: grad_norm", "tag: lr", "digits-cnn/1", "digits-cnn/2", "train_epoch", "valid")


def test_time_series(look):
    look("timeseries", "train", "digits-cnn/2")


def test_images(look, browser):
    look("images", "valid/confusion", "valid/misclassified", "valid/samples", "step 108")


def test_histograms(look):
    look("histograms", "watch_activations/classifier.0", "tag: watch_activations/features.conv1")


def test_graphs(look):
    look("graphs", "Sequential", "input", "output", "Main Graph")


def test_projector(look):
    look("projector", "classifier.0:00108", "Points: 288", "Dimension: 128", "label")


def test_text(look):
    look("text", "config/text_summary", "name: digits-cnn", "lr: 0.01")


def test_hparams(look):
    look("hparams", "optimizer.lr", "0.050000", "0.010000", "valid/accuracy", "digits-cnn/1", "digits-cnn/2")


def test_precision_recall_curves(look):
    look("pr_curves", "tag: pr_curve/0", "is at step 108")


def test_custom_scalars(look):
    look("custom_scalars", "train and validation", "valid/loss (digits-cnn/1)", "train_epoch/loss (digits-cnn/2)")
