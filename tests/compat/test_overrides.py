"""`torch.overrides`, `torch.nn.attention.flex_attention`, `torch._C._nn`: importable, and clear about what they cannot do."""

from __future__ import annotations

import pytest

import tdt
from tdt.compat import _C, overrides
from tdt.compat.nn.attention import flex_attention
from tests.helpers import require_torch


def test_nothing_is_overridden():
    torch = require_torch()
    for lib, module in ((tdt, overrides), (torch, torch.overrides)):
        assert not module.has_torch_function((lib.ones(1), 2))
        assert (module.is_tensor_like(lib.ones(1)), module.is_tensor_like([1])) == (True, False)


def test_a_function_mode_is_refused_on_entry():
    class Mode(overrides.TorchFunctionMode):
        pass

    with pytest.raises(NotImplementedError, match="^Mode: tdt's functions do not call __torch_function__"), Mode():
        pass


def test_flex_attention_is_refused_when_it_is_used():
    assert not isinstance(tdt.ones(1), flex_attention.BlockMask)
    for name in flex_attention.__all__:
        with pytest.raises(NotImplementedError, match=f"^{name}: .* use nn.functional.scaled_dot_product_attention"):
            getattr(flex_attention, name)(tdt.ones(1))
    assert flex_attention.__all__ and set(flex_attention.__all__) <= set(dir(_flex_attention_of_pytorch()))


def _flex_attention_of_pytorch():
    import importlib

    return importlib.import_module(f"{require_torch().__name__}.nn.attention.flex_attention")


PARSED = [
    lambda t: ("cpu",), lambda t: (t.float64,), lambda t: ("cpu", t.float16, True), lambda t: (t.ones(1),), lambda t: (),
]  # fmt: skip


@pytest.mark.parametrize("arguments", PARSED)
def test_arguments_of_to_are_parsed_as_in_pytorch(arguments):
    torch = require_torch()
    ours, theirs = _C._nn._parse_to(*arguments(tdt)), torch._C._nn._parse_to(*arguments(torch))
    assert [str(part).replace("torch.", "tdt.") for part in theirs] == [str(part) for part in ours]


def test_keyword_arguments_of_to_are_parsed():
    assert _C._nn._parse_to(dtype=tdt.float64, non_blocking=True) == (None, tdt.float64, True, None)
