"""Run the cases of a program and write what each returns: `_cases.py PROGRAM RESULT.json`, with PyTorch or on tdt.

A program has a dict `CASES`, name → function without arguments. Each case starts from the same seed; its value, nested
containers of tensors, numbers and text, is written as JSON, an exception as its class and message.
"""

from __future__ import annotations

import json
import math
import os
import random
import runpy
import sys
import traceback
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch


def plain(value: Any) -> Any:
    """`value` as JSON can write it; a tensor with its dtype and shape."""
    if isinstance(value, torch.Tensor):
        value = value.detach()
        values = value.to_dense().tolist() if value.is_sparse else value.tolist()
        return {"dtype": str(value.dtype), "shape": list(value.shape), "values": plain(values)}
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, complex):
        return [value.real, value.imag]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value if not isinstance(value, float) or math.isfinite(value) else str(value)
    return [plain(item) for item in value]


def run(case: Any) -> dict[str, Any]:
    """{"value": …} or {"error": …} of one case."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    try:
        return {"value": plain(case())}
    except Exception as error:  # noqa: BLE001  (a case that fails is a result)
        where = traceback.extract_tb(error.__traceback__)[-1]
        return {"error": f"{type(error).__name__}: {str(error)[:300]} ({where.filename}:{where.lineno})"}


def main(program: str, result: str) -> None:
    warnings.simplefilter("ignore")
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if entry != folder]  # our torchinfo.py must not hide the library
    torch.set_num_threads(1)
    try:
        cases = runpy.run_path(program)["CASES"]
    except ImportError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    with open(result, "w", encoding="utf-8") as file:
        json.dump({name: run(case) for name, case in cases.items()}, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
