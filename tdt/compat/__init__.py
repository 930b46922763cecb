"""Stand-ins for the parts of PyTorch that tdt does not have, so that programs which import them run.

A module of this package replaces PyTorch's module of that name: `torch.jit` is `tdt.compat.jit`, `torch.utils._pytree`
is `tdt.compat.utils._pytree`. tdt's own public modules take precedence, so no module here hides one. Functions that tdt
does not support raise NotImplementedError with the reason when they are called (`_refusal.py`). Functions and classes of
`torch` itself are defined in `_names.py`; `_find.py` looks names up.
"""
