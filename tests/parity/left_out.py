"""What of PyTorch's op database tdt leaves out for good, and why; `docs/ops.md` ends with this list. Needs no PyTorch."""

from __future__ import annotations

from fnmatch import fnmatchcase

# Names, `*` for any ending. A test fails where another one is missing.
LEFT_OUT: dict[str, str] = {
    "jiterator_*": "compiles CUDA source given as text",
    "torch._scaled_mm*": "products of 8-bit floats, which tdt stores and converts but does not compute with",
    "torch.ops.aten.*": "entry points of PyTorch's kernels; the public functions are softmax and scaled_dot_product_attention",
    "slice": "an entry point of PyTorch's kernels; the public form is indexing",
    "_native_batch_norm_legit": "PyTorch's own; the public function is batch_norm",
    "_batch_norm_with_update": "PyTorch's own; the public function is batch_norm",
    "_softmax_backward_data": "PyTorch's own rule of a gradient",
    "max_pool2d_with_indices_backward": "PyTorch's own rule of a gradient",
    "native_dropout_backward": "PyTorch's own rule of a gradient",
    "_chunk_cat": "PyTorch's own, of sharded training",
    "_unsafe_masked_index*": "PyTorch's own, of its compiler; the public form is indexing",
    "_upsample_bilinear2d_aa": "PyTorch's own; the public function is interpolate(antialias=True)",
    "chalf": "there is no complex32",
}


def reason(name: str) -> str | None:
    """Why `name` of the op database is left out; None where it is not."""
    return next((why for pattern, why in LEFT_OUT.items() if fnmatchcase(name, pattern)), None)
