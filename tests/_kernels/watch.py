"""Which kernels a call uses."""

from __future__ import annotations

import pytest

from tdt._kernels import KERNELS


def watch(monkeypatch: pytest.MonkeyPatch, *paths: str) -> list[str]:
    """A list to which every call of these kernels adds the kernel's path."""
    called: list[str] = []
    for path in paths:
        function = KERNELS[path].function
        spy = lambda *a, _p=path, _f=function, **k: called.append(_p) or _f(*a, **k)  # noqa: E731
        monkeypatch.setattr(KERNELS[path], "function", spy)
    return called
