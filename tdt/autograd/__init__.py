"""Automatic differentiation: `backward`, `grad`, `Function`, grad modes, hooks on what is saved, gradient checks.

Gradient rules are in `tdt/_ops` beside their ops; `_op` and `_dispatch` record the graph, `_engine` runs it backward. The
features built on these (`_function.py`, `_graph.py`, `_saved.py`, `_anomaly.py`) are imported lazily, and so are the public
modules, of which `functional`, `gradcheck` and `profiler` are made of ops: no file whose name begins with `_` imports these.
"""

import importlib

from tdt._core import interchange as _interchange
from tdt._core.mode import enable_grad as enable_grad
from tdt._core.mode import inference_mode as inference_mode
from tdt._core.mode import no_grad as no_grad
from tdt._core.mode import set_grad_enabled as set_grad_enabled
from tdt.autograd import _engine_ops, _variable
from tdt.autograd._backward import backward as backward
from tdt.autograd._backward import grad as grad
from tdt.autograd.gradcheck import gradcheck as gradcheck
from tdt.autograd.gradcheck import gradgradcheck as gradgradcheck

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tdt.autograd import function as function
    from tdt.autograd import functional as functional
    from tdt.autograd import graph as graph
    from tdt.autograd._anomaly import detect_anomaly as detect_anomaly
    from tdt.autograd._anomaly import set_detect_anomaly as set_detect_anomaly
    from tdt.autograd.function import Function as Function
    from tdt.autograd.variable import Variable as Variable

assert _interchange and _variable and _engine_ops  # they bind methods of Tensor and fill the op table

LATER = {"Function": "function", "Variable": "variable", "detect_anomaly": "anomaly_mode",
         "set_detect_anomaly": "anomaly_mode"}  # fmt: skip
MODULES = ("anomaly_mode", "forward_ad", "function", "functional", "grad_mode", "graph", "profiler", "variable")


def __getattr__(name: str) -> "Any":
    if name in MODULES:
        return importlib.import_module(f"tdt.autograd.{name}")
    if name in LATER:
        return getattr(importlib.import_module(f"tdt.autograd.{LATER[name]}"), name)
    raise AttributeError(f"module 'tdt.autograd' has no attribute '{name}'")
