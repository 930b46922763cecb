"""What several test files share."""

from __future__ import annotations

import copy
import functools
import importlib
import os
import pickle
import shutil
import warnings
from types import ModuleType
from typing import Any

import numpy as np
import pytest


def require(name: str) -> ModuleType:
    """The optional module `name`; without it the test is skipped, or fails where TDT_REQUIRE lists that name."""
    try:
        if name.partition(".")[0] in ("torchvision", "timm", "transformers"):
            _import_torchvision()
        return importlib.import_module(name)
    except ImportError as error:
        if name.partition(".")[0] in os.environ.get("TDT_REQUIRE", "").split(","):
            pytest.fail(f"TDT_REQUIRE={os.environ['TDT_REQUIRE']}, but {name} cannot be imported: {error}")
        pytest.skip(f"{name} is not installed; pip install -e '.[parity]'", allow_module_level=True)


def require_program(name: str) -> str:
    """The path of a program; without it the test is skipped, or fails where TDT_REQUIRE lists that name."""
    path = shutil.which(name)
    if path is None and name in os.environ.get("TDT_REQUIRE", "").split(","):
        pytest.fail(f"TDT_REQUIRE={os.environ['TDT_REQUIRE']}, but there is no program {name}")
    if path is None:
        pytest.skip(f"there is no program {name}", allow_module_level=True)
    return path


@functools.cache
def _import_torchvision() -> None:
    """Import torchvision, also one whose compiled operators are for another build of PyTorch: its networks call none."""
    try:
        importlib.import_module("torchvision")
    except RuntimeError as error:
        if "operator torchvision::nms does not exist" not in str(error):
            raise
        library = importlib.import_module("torch").library
        for name in ("nms", "qnms"):  # its import needs these declared
            library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        importlib.import_module("torchvision")


def require_torch() -> ModuleType:
    """PyTorch, on one thread: its pool would fight ours for the cores, and its sums depend on the thread count."""
    torch = require("torch")
    torch.set_num_threads(1)
    return torch


def repr_or_error(lib: ModuleType, expression: str) -> Any:
    """The `repr` of an expression in `t`, the library, with tdt's name for PyTorch's; or the class of its error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            value = eval(
                expression, {"t": lib, "np": np, "copy": copy, "again": lambda x: pickle.loads(pickle.dumps(x))}
            )
        except (AttributeError, BufferError, IndexError, OverflowError, RuntimeError, TypeError, ValueError) as error:
            return type(error)
    return repr(value).replace("torch.", "tdt.")
