"""Neural networks: modules, their parameters, their functions, and how parameters start."""

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING

from tdt import Tensor as _Tensor  # noqa: F401  (loads the core: from here on tensors have their methods)
from tdt.nn import attention as attention
from tdt.nn import common_types as common_types
from tdt.nn import functional as functional
from tdt.nn import init as init
from tdt.nn import utils as utils
from tdt.nn.modules import *  # noqa: F403
from tdt.nn.modules import __all__ as _modules
from tdt.nn.parameter import Buffer as Buffer
from tdt.nn.parameter import Parameter as Parameter
from tdt.nn.parameter import UninitializedBuffer as UninitializedBuffer
from tdt.nn.parameter import UninitializedParameter as UninitializedParameter

if _TYPE_CHECKING:
    from tdt.nn import parallel as parallel
    from tdt.nn.parallel import DataParallel as DataParallel
else:

    def __getattr__(name: str) -> object:  # imported on first use: `parallel` loads `distributed` and its sockets
        if name not in ("DataParallel", "parallel"):
            raise AttributeError(f"module 'tdt.nn' has no attribute '{name}'")
        parallel = _importlib.import_module("tdt.nn.parallel")
        return parallel if name == "parallel" else parallel.DataParallel

    def __dir__() -> list[str]:
        return sorted({*globals(), "DataParallel", "parallel"})


__all__ = ["Buffer", "DataParallel", "Parameter", "UninitializedBuffer", "UninitializedParameter",  # noqa: PLE0604
           "attention", "functional", "init", "parallel", "utils", *_modules]  # fmt: skip
