"""`torch._jit_internal`: decorators for the TorchScript compiler, which libraries import; here they have no effect."""

from tdt.compat._refusal import unchanged
from tdt.compat.jit import export, ignore, interface, is_scripting, unused  # noqa: F401

_copy_to_script_wrapper = unchanged
