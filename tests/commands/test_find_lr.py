"""`tdt find-lr`: the rates rise exponentially, the suggestion trains, and nothing is left behind."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tdt.commands.find_lr import _chart
from tdt.train.tune.lr_range import RangeTest
from tests.commands.running import tdt_here
from tests.helpers import require


def test_the_range_test_suggests_a_rate_that_trains_and_leaves_no_run(tmp_path):
    done = tdt_here("find-lr", "digits-mlp", "device=cpu", "--steps", 60, "--output", "lr.png", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.count("*") == 64
    assert "suggestion: " in done.stdout and "where the loss falls fastest" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["lr.png"]
    override = done.stdout.split()[-1]
    assert override.startswith("optimizer.lr=") and 1e-4 < float(override.partition("=")[2]) < 1


def test_the_rates_rise_exponentially_until_the_loss_diverges(tmp_path):
    arguments = ("find-lr", "digits-mlp", "device=cpu", "optimizer=SGD(lr=1)", "--json", "--end", 1e6, "--steps", 60)
    found = json.loads(tdt_here(*arguments, cwd=tmp_path).stdout)
    assert len(found["rates"]) < 60 and found["stopped"].startswith(("the loss diverged at", "the loss became"))
    np.testing.assert_allclose(np.diff(np.log(found["rates"])), np.log(1e12) / 59, rtol=1e-9)
    assert found["rates"][0] == 1e-6 and found["losses"][0] == found["smoothed"][0]


def test_the_suggestion_is_where_the_loss_falls_fastest():
    rates = np.geomspace(1e-6, 10, 100)
    loss = 2 - np.tanh(np.log10(rates) + 3) + 10 * (rates > 1)  # falls fastest at 1e-3
    found = RangeTest(tuple(rates), tuple(loss), tuple(loss), "")
    assert found.steepest == pytest.approx(1e-3, rel=0.2)
    assert RangeTest(tuple(rates), tuple(rates), tuple(rates), "").steepest is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--start", 1, "--end", 0.1), "expected 0 < --start < --end, got 1 and 0.1"),
        (("optimizer.lrr=1",), "did you mean 'lr'?"),
    ],
)
def test_wrong_arguments_are_explained(tmp_path, arguments, message):
    done = tdt_here("find-lr", "digits-mlp", *arguments, cwd=tmp_path)
    assert done.returncode == 2 and message in done.stderr


@pytest.mark.parametrize(
    ("output", "message"), [("lr.yaml", "lr.yaml: its ending says no format"), ("no/lr.png", "no/")]
)
def test_a_picture_that_cannot_be_drawn_is_refused_before_the_test(tmp_path, output, message):
    require("matplotlib")
    done = tdt_here("find-lr", "digits-mlp", "--output", output, cwd=tmp_path)
    assert done.returncode in (1, 2) and not done.stdout and message in done.stderr
    assert "Traceback" not in done.stderr and not list(tmp_path.iterdir())


@pytest.mark.parametrize(("width", "columns"), [(None, 64), (60, 48), (120, 64)])
def test_the_curve_fits_the_terminal(monkeypatch, width: int | None, columns: int):
    monkeypatch.setattr("tdt.commands.find_lr.terminal_width", lambda: width)
    rates, losses = tuple(np.geomspace(1e-6, 1, 200).tolist()), tuple(np.linspace(3, 1, 200).tolist())
    *curve, axis, ends = _chart(RangeTest(rates, losses, losses, "")).splitlines()
    assert sum(line.count("*") for line in curve) == axis.count("-") == columns
    assert len(ends) <= (width or 80) and ends.split() == ["lr", "1e-06", "1"]
