"""Every op by name, filled by `@op`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tdt.autograd._op import Op

OPS: dict[str, Op] = {}
