"""Settings of PyTorch's compiler: programs may set and read them; they have no effect."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

suppress_errors = False
verbose = False
cache_size_limit = recompile_limit = 8
accumulated_cache_size_limit = accumulated_recompile_limit = 256
dynamic_shapes = True
assume_static_by_default = True
automatic_dynamic_shapes = True
capture_scalar_outputs = False
capture_dynamic_output_shape_ops = False
allow_unspec_int_on_nn_module = False
inline_inbuilt_nn_modules = True
optimize_ddp = True
disable = True


@contextlib.contextmanager
def patch(changes: dict[str, Any] | str | None = None, value: Any = None, **more: Any) -> Iterator[None]:
    """Override settings in a block: `patch(name=value)`, `patch({"name": value})` or `patch("name", value)`."""
    overrides = {changes: value} if isinstance(changes, str) else {**(changes or {}), **more}
    settings = vars(sys.modules[__name__])
    before = {name: settings[name] for name in overrides if name in settings}
    settings.update(overrides)
    try:
        yield
    finally:
        for name in overrides:
            del settings[name]
        settings.update(before)
