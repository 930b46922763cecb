"""`torch._dynamo.eval_frame`: the class of compiled modules, which has no instances."""

from __future__ import annotations

from tdt.compat._refusal import refused_class
from tdt.nn import Module

OptimizedModule = refused_class("_dynamo.OptimizedModule", "tdt does not compile Python", Module)
