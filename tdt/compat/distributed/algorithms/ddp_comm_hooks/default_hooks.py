"""Communication hooks that send gradients uncompressed or in half precision; not supported."""

from __future__ import annotations

from tdt.compat._refusal import refused
from tdt.compat.distributed._reasons import SENT

allreduce_hook = refused("allreduce_hook", SENT)
bf16_compress_hook = refused("bf16_compress_hook", SENT)
bf16_compress_wrapper = refused("bf16_compress_wrapper", SENT)
fp16_compress_hook = refused("fp16_compress_hook", SENT)
fp16_compress_wrapper = refused("fp16_compress_wrapper", SENT)
