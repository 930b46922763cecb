"""`torch.nested`, importable: nested tensors are refused; pad sequences, or keep a list of tensors."""

from __future__ import annotations

from tdt.compat._refusal import refused

__all__ = [
    "as_nested_tensor",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]

REASON = "tdt has no nested tensors; pad them by nn.utils.rnn.pad_sequence, or keep a list"
as_nested_tensor = refused("nested.as_nested_tensor", REASON)
masked_select = refused("nested.masked_select", REASON)
narrow = refused("nested.narrow", REASON)
nested_tensor = refused("nested.nested_tensor", REASON)
nested_tensor_from_jagged = refused("nested.nested_tensor_from_jagged", REASON)
to_padded_tensor = refused("nested.to_padded_tensor", REASON)
