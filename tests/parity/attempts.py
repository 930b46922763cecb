"""Calls of either library, of which the result or the error is compared."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

import tdt


def attempt(function: Callable, *args: Any, **kwargs: Any) -> tuple[Any, Exception | None]:
    """The result, or the error it raised; both libraries' generators start from the same seed."""
    torch.default_generator.manual_seed(7)  # torch.manual_seed walks the stack for each kind of device: 1 ms
    tdt.manual_seed(7)
    try:
        return function(*args, **kwargs), None
    except Exception as error:  # noqa: BLE001 (the error is the answer that is compared)
        return None, error


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without warnings of either library: they are not what is compared here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
