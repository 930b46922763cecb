"""A failing call as code that runs in either library: `show(torch)`, `show(tdt)`."""

from __future__ import annotations

from typing import Any

import torch


def call_code(function: str, args: tuple, kwargs: dict[str, Any]) -> str:
    """Source of `def show(torch)` that makes the same call; its tensors have the sample's strides."""
    lines: list[str] = []
    names: dict[int, str] = {}
    words = [_code(a, lines, names) for a in args] + [f"{k}={_code(v, lines, names)}" for k, v in kwargs.items()]
    if "{" in function:  # a method: "{}.add_"
        call = f"{function.format(words[0])}({', '.join(words[1:])})"
    else:
        call = f"{function}({', '.join(words)})"
    body = "".join(f"    {line}\n" for line in lines)
    return f"def show(torch):\n{body}    return {call}\n"


def _code(value: Any, lines: list[str], names: dict[int, str]) -> str:
    if isinstance(value, torch.Tensor):
        if id(value) not in names:
            names[id(value)] = "abcdefghijklmnopqrstuvwxyz"[len(names)] if len(names) < 26 else f"x{len(names)}"
            lines.append(f"{names[id(value)]} = {tensor_code(value)}")
        return names[id(value)]
    if isinstance(value, list | tuple):
        inner = ", ".join(_code(v, lines, names) for v in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if len(value) == 1 else ''})"
    if isinstance(value, float) and value != value or value in (float("inf"), float("-inf")):
        return f"float('{value}')"
    if isinstance(value, torch.device):
        return repr(str(value))
    return getattr(value, "__name__", None) or repr(value)


def tensor_code(t: torch.Tensor) -> str:
    """An expression that makes `t`, with its strides and `requires_grad`."""
    if t.layout is not torch.strided:
        return f"... a tensor of layout {t.layout}"
    d = t.detach().resolve_conj().resolve_neg()
    if d.is_contiguous():
        text = f"torch.tensor({_numbers(d.tolist())}, dtype={d.dtype})"
        if d.numel() == 0 and d.dim() > 1:
            text = f"torch.empty({tuple(d.shape)}, dtype={d.dtype})"
    else:
        flat = torch.empty(0, dtype=d.dtype).set_(d.untyped_storage())  # type: ignore[call-overload]
        text = f"torch.tensor({_numbers(flat.tolist())}, dtype={d.dtype})"
        text += f".as_strided({tuple(d.shape)}, {d.stride()}, {d.storage_offset()})"
    return text + (".requires_grad_()" if t.requires_grad else "")


def _numbers(value: Any) -> str:
    return repr(value).replace("nan", "float('nan')").replace("inf", "float('inf')")
