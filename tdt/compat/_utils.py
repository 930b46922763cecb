"""`torch._utils`: the functions that `pickle` calls for tensors which PyTorch pickled."""

from __future__ import annotations

from tdt import Tensor  # noqa: F401  (loads the core: a pickle imports this module alone, and its tensors need their methods)
from tdt.serialization import _rebuild

_rebuild_tensor = _rebuild_tensor_v2 = _rebuild._rebuild_tensor_v2
_rebuild_tensor_v3 = _rebuild._rebuild_tensor_v3
_rebuild_parameter = _rebuild._rebuild_parameter
_rebuild_parameter_with_state = _rebuild._rebuild_parameter_with_state
_rebuild_sparse_tensor = _rebuild._rebuild_sparse_tensor
_rebuild_meta_tensor_no_storage = _rebuild._rebuild_meta_tensor_no_storage
