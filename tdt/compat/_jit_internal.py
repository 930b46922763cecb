"""`torch._jit_internal`, the marks for a compiler that libraries import: they change nothing."""

from tdt.compat._refusal import unchanged
from tdt.compat.jit import export, ignore, interface, is_scripting, unused  # noqa: F401

_copy_to_script_wrapper = unchanged
