"""`torch.jit.annotations`: types of annotations, which are Python's."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: UP035  (PyTorch offers these here)

__all__ = ["Any", "Dict", "List", "Optional", "Tuple", "Union"]
