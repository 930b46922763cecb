"""`torch._dynamo`, the compiler of PyTorch that programs guard code against: tdt compiles no Python."""

from __future__ import annotations

from typing import Any

from tdt.compat._dynamo import config as config
from tdt.compat._dynamo import eval_frame as eval_frame
from tdt.compat._dynamo.eval_frame import OptimizedModule as OptimizedModule
from tdt.compat._refusal import refused, unchanged
from tdt.compiler import allow_in_graph as allow_in_graph
from tdt.compiler import assume_constant_result as assume_constant_result
from tdt.compiler import disable as disable
from tdt.compiler import is_compiling as is_compiling
from tdt.compiler import list_backends as list_backends
from tdt.compiler import reset as reset
from tdt.compiler import set_stance as set_stance

REASON = "tdt does not compile Python"
explain = refused("_dynamo.explain", REASON)
export = refused("_dynamo.export", REASON)
disallow_in_graph = forbid_in_graph = nonstrict_trace = run = unchanged


def optimize(*args: Any, **kwargs: Any) -> Any:
    """A decorator that returns the function unchanged."""
    return unchanged


def is_dynamo_supported() -> bool:
    """Whether the compiler is supported: False. Programs check it before they compile."""
    return False


def graph_break(msg: str = "") -> None:
    """Do nothing: tdt does not trace graphs."""


def mark_dynamic(t: Any, index: Any = None, **kwargs: Any) -> None:
    """Do nothing: every size may change between calls."""


maybe_mark_dynamic = mark_static = mark_static_address = mark_dynamic
