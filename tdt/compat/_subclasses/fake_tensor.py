"""`torch._subclasses.fake_tensor`: importable, so that programs can ask whether a tensor is fake; none is."""

from __future__ import annotations

from tdt.compat._refusal import refused_class

_REASON = "tdt infers shapes with tensors on the meta device"
FakeTensor = refused_class("FakeTensor", _REASON)
FakeTensorMode = refused_class("FakeTensorMode", _REASON)


def is_fake(x: object) -> bool:
    """Whether `x` is a tensor without values with which PyTorch traces: never."""
    return False
