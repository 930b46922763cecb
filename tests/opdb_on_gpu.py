"""PyTorch's op database on a GPU: the first samples of each op in float32 give what they give on the CPU.

The CPU is held to PyTorch by tests/ops/test_op_db.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

import tdt
from tests.on_gpu import _apart, _dense
from tests.parity.attempts import attempt, quiet
from tests.parity.convert import Unconvertible, to_tdt
from tests.parity.opdb import full_name, ours, present, samples, seed_all

MOST_SAMPLES = 2  # of an op
# These draw other numbers on a GPU, leave memory as it is, or look at memory around a view, which does not move with it: of their
# results, shapes and dtypes are compared.
OTHER_VALUES = {
    "cauchy", "exponential", "geometric", "log_normal", "normal/in_place", "uniform", "normal", "bernoulli", "multinomial",
    "randn_like", "rand_like", "randint_like", "empty_like", "empty_strided", "empty", "empty_permuted", "new_empty",
    "new_empty_strided", "resize_", "resize_as_", "as_strided/partial_views",
    "nn.functional.rrelu", "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d",
    "nn.functional.feature_alpha_dropout/with_train", "nn.functional.multi_head_attention_forward",
}  # fmt: skip
# Their vectors have free signs or phases, which the database takes out.
FREE = {"linalg.eigh", "linalg.eig", "linalg.svd", "svd", "svd_lowrank"}
OPS = {full_name(info): info for info in present() if torch.float32 in info.dtypes}


def check(name: str, device: str = "cuda", compares: bool = True) -> list[str]:
    """What is wrong with the samples of an op. compares: values too, not only dtypes and shapes."""
    info = OPS[name]
    function: Any = ours(info)
    wrong: list[str] = []
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in samples(info, torch.float32)[:MOST_SAMPLES]:
            try:
                arguments = to_tdt(((sample.input, *sample.args), dict(sample.kwargs)))
            except Unconvertible:
                continue
            results = []
            for target in ("cpu", device):
                args, named = _on(target, arguments)
                seed_all()
                results.append(attempt(function, *args, **named))
            (expected, failed), (found, error) = results
            if failed is None and error is not None:
                wrong.append(f"{type(error).__name__}: {error}"[:300])
            elif failed is None:
                pairs = [*zip(_tensors(expected), _tensors(found), strict=True)]
                wrong += [f"{f.dtype} {f.shape}" for e, f in pairs if (f.dtype, f.shape) != (e.dtype, e.shape)]
                if name in FREE:
                    take_out = sample.output_process_fn_grad
                    pairs = [*zip(_tensors(take_out(expected)), _tensors(take_out(found)), strict=True)]
                pairs = pairs if compares and name not in OTHER_VALUES else []
                wrong += [why for e, f in pairs if (why := _apart(_values(f), _values(e), "float32"))]
    return wrong


def _on(target: str, value: Any) -> Any:
    """A value of nested lists and dictionaries, with its tensors on a device."""
    if isinstance(value, tdt.Tensor):
        return value.to(target)
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_on(target, item) for item in value)
    if isinstance(value, dict):
        return {name: _on(target, item) for name, item in value.items()}
    return tdt.device(target) if isinstance(value, tdt.device) else value


def _tensors(value: Any) -> Iterator[tdt.Tensor]:
    if isinstance(value, tdt.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _values(x: tdt.Tensor) -> np.ndarray:
    return _dense(x if x.layout is tdt.strided else x.to_dense())
