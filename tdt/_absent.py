"""What the error says when tdt is asked for a name that it does not have."""

from __future__ import annotations

import difflib

import tdt

# Names that PyTorch took out, and what does their work now.
REMOVED = {
    "Variable": "Tensor",
    "eig": "linalg.eig",
    "gels": "linalg.lstsq",
    "ifft": "fft.ifft",
    "irfft": "fft.irfft",
    "lstsq": "linalg.lstsq",
    "matrix_rank": "linalg.matrix_rank",
    "potrf": "linalg.cholesky",
    "rfft": "fft.rfft",
    "solve": "linalg.solve",
    "symeig": "linalg.eigh",
}

# Parts of PyTorch that tdt leaves out for good.
NOT_OFFERED = {
    "fx": "tdt does not trace Python into graphs to rewrite; walk a result's graph through grad_fn",
    "hub": "tdt fetches no models; load a file with load_state_dict",
    "jit": "tdt does not compile Python; call the function as it is",
    "library": "tdt has no operator library; write an operation as an autograd.Function",
    "nested": "tdt has no nested tensors; pad them, or keep a list",
    "package": "tdt does not package code with models; save the state_dict",
    "quantization": "tdt does not quantise models",
}


def explain(name: str) -> str:
    """The sentence for a missing name: its successor, why it is not offered, or the names closest to it."""
    if name in REMOVED:
        return f"tdt.{name} was removed, as in PyTorch; use tdt.{REMOVED[name]}"
    if name in NOT_OFFERED:
        return f"tdt.{name} is not offered: {NOT_OFFERED[name]}"
    close = difflib.get_close_matches(name, (known for known in dir(tdt) if known[0] != "_"), n=1)
    hint = f"; did you mean '{close[0]}'?" if close else ""
    return f"module 'tdt' has no attribute '{name}'{hint}"
