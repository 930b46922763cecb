"""`torch.fx.proxy`: the values of a traced function; tracing is refused."""

from __future__ import annotations

from tdt.compat._refusal import refused_class
from tdt.compat.fx import REASON, Proxy

__all__ = ["GraphAppendingTracer", "Proxy", "TraceError", "TracerBase"]

TracerBase = refused_class("fx.TracerBase", REASON)
GraphAppendingTracer = refused_class("fx.GraphAppendingTracer", REASON, TracerBase)


class TraceError(ValueError):
    """A function that cannot be traced."""
