"""`torch._dynamo.testing`: compiler backends that count compilations; not supported."""

from __future__ import annotations

from tdt.compat._refusal import refused_class

_REASON = "tdt does not compile Python; torch._dynamo.is_dynamo_supported() says so"
CompileCounter = refused_class("_dynamo.testing.CompileCounter", _REASON)
CompileCounterWithBackend = refused_class("_dynamo.testing.CompileCounterWithBackend", _REASON)
EagerAndRecordGraphs = refused_class("_dynamo.testing.EagerAndRecordGraphs", _REASON)
