"""Compiled functions are tried natively at once, however few calls a test makes."""

import pytest

from tdt._compiled import native


@pytest.fixture(autouse=True)
def _without_waiting(monkeypatch):
    monkeypatch.setattr(native, "WAITED", 1 << 40)
    monkeypatch.setattr(native, "COPIED", 1 << 40)
