"""`torch.nn.attention.flex_attention`: importable, for programs that support it among others; raises when it is called."""

from __future__ import annotations

from tdt.compat._refusal import refused, refused_class

__all__ = ["AuxOutput", "AuxRequest", "BlockMask", "FlexKernelOptions", "and_masks", "create_block_mask", "create_mask",
           "flex_attention", "noop_mask", "or_masks"]  # fmt: skip

_REASON = "tdt compiles no attention kernels from Python functions; use nn.functional.scaled_dot_product_attention"
_DEFAULT_SPARSE_BLOCK_SIZE = 128

AuxOutput = refused_class("AuxOutput", _REASON)
AuxRequest = refused_class("AuxRequest", _REASON)
BlockMask = refused_class("BlockMask", _REASON)
FlexKernelOptions = refused_class("FlexKernelOptions", _REASON)
and_masks = refused("and_masks", _REASON)
create_block_mask = refused("create_block_mask", _REASON)
create_mask = refused("create_mask", _REASON)
flex_attention = refused("flex_attention", _REASON)
noop_mask = refused("noop_mask", _REASON)
or_masks = refused("or_masks", _REASON)
