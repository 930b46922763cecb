"""`Function`, and what its context offers; they are built on the engine, in `tdt/autograd/_function.py`."""

from tdt.autograd._function import Function, FunctionCtx, InplaceFunction, once_differentiable

__all__ = ["Function", "FunctionCtx", "InplaceFunction", "once_differentiable"]
