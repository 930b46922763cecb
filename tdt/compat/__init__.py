"""Stand-ins for the parts of PyTorch that tdt does not have, so that programs which import them run.

A module of this package has the place of PyTorch's: `torch.jit` is `tdt.compat.jit`, `torch.utils._pytree` is
`tdt.compat.utils._pytree`. tdt's own public module of a name comes first, so nothing here hides one. What such a module
cannot do it refuses when it is called, with the reason (`_refusal.py`). Functions and classes of `torch` itself stand in
`_names.py`; `_find.py` looks a name up.
"""
