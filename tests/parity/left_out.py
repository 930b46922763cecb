"""Entries of PyTorch's op database that tdt does not implement, with the reason; `docs/ops.md` ends with this list."""

from __future__ import annotations

from fnmatch import fnmatchcase

# Names, `*` for any ending. A test fails if tdt lacks an entry that is not listed here.
LEFT_OUT: dict[str, str] = {
    "jiterator_*": "compiles CUDA source given as text",
    "torch._scaled_mm*": "matrix products of 8-bit floats; tdt stores and converts these dtypes without arithmetic",
    "torch.ops.aten.*": "entry points of PyTorch's kernels; the public functions are softmax and scaled_dot_product_attention",
    "slice": "an entry point of PyTorch's kernels; the public form is indexing",
    "_native_batch_norm_legit": "internal to PyTorch; the public function is batch_norm",
    "_batch_norm_with_update": "internal to PyTorch; the public function is batch_norm",
    "_softmax_backward_data": "internal to PyTorch: a backward kernel",
    "max_pool2d_with_indices_backward": "internal to PyTorch: a backward kernel",
    "native_dropout_backward": "internal to PyTorch: a backward kernel",
    "_chunk_cat": "internal to PyTorch: sharded training",
    "_unsafe_masked_index*": "internal to PyTorch: its compiler; the public form is indexing",
    "_upsample_bilinear2d_aa": "internal to PyTorch; the public function is interpolate(antialias=True)",
    "chalf": "tdt has no complex32",
}


def reason(name: str) -> str | None:
    """The reason why tdt does not implement `name` of the op database; None if it does."""
    return next((why for pattern, why in LEFT_OUT.items() if fnmatchcase(name, pattern)), None)
