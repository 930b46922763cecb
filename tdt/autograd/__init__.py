"""Automatic differentiation: `backward`, `grad`, `Function`, grad modes, gradient checks.

Rules are in `tdt/_ops` beside their ops; `_op` records, `_engine` walks.
"""

from tdt import _interchange
from tdt.autograd import _variable
from tdt.autograd import function as function
from tdt.autograd._backward import backward as backward
from tdt.autograd._backward import grad as grad
from tdt.autograd._mode import enable_grad as enable_grad
from tdt.autograd._mode import inference_mode as inference_mode
from tdt.autograd._mode import no_grad as no_grad
from tdt.autograd._mode import set_grad_enabled as set_grad_enabled
from tdt.autograd.function import Function as Function
from tdt.autograd.gradcheck import gradcheck as gradcheck
from tdt.autograd.gradcheck import gradgradcheck as gradgradcheck

assert _interchange, _variable  # they bind Tensor's methods
