"""PyTorch's names of graph nodes and saved values: `grad_fn.name()`, `grad_fn._saved_self`."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, TypeVar, cast

from tdt import _backend
from tdt._core.errors import freed, overwritten
from tdt._core.tensor import Tensor, alias

F = TypeVar("F", bound=Callable[..., Any])


def ranks(node: Any) -> list[int]:
    """How many dimensions the operands of a node had, as far as it still knows: all of them, or what those it keeps had."""
    if node.shapes is not None:
        return [len(shape) for shape in node.shapes]
    kept = [saved[0].ndim for saved in node.saved or () if _backend.is_array(saved[0])]
    return kept or [2]


def _matmul(node: Any) -> str:
    found = ranks(node)
    left, right = (found[0], found[-1]) if len(found) > 1 else (found[0], found[0])
    names = {(1, 1): "DotBackward0", (2, 1): "MvBackward0", (2, 2): "MmBackward0", (3, 3): "BmmBackward0",
             (1, 2): "SqueezeBackward4"}  # fmt: skip
    return names.get((left, right), "UnsafeViewBackward0")


def _linear(node: Any) -> str:
    rank, biased = ranks(node)[0], node.backward_plan.numbers & 4 == 0 and len(node.edges) > 2
    if rank == 2:
        return "AddmmBackward0" if biased else "MmBackward0"
    return "ViewBackward0" if biased or rank == 1 else "UnsafeViewBackward0"


def _slice(node: Any) -> str:
    """The last step in which PyTorch takes an index apart."""
    for part in reversed(node.attributes["spec"]):
        if isinstance(part, int):
            return "SelectBackward0"
        if part is None:
            return "UnsqueezeBackward0"
        if isinstance(part, tuple) and part != (None, None, None):
            return "SliceBackward0"
    return "AliasBackward0"


def _nll(node: Any) -> str:
    return "NllLossBackward0" if ranks(node)[0] <= 2 else "NllLoss2DBackward0"


def _pad_border(node: Any) -> str:
    kind = {"reflect": "Reflection", "replicate": "Replication"}.get(node.attributes["mode"])
    return f"{kind}Pad{len(node.attributes['before'])}DBackward0" if kind else "PadCircularBackward0"


def _over(name: str) -> Callable[[Any], str]:
    """Variant 0 over all dimensions, 1 over some."""
    return lambda node: f"{name}Backward{0 if node.attributes.get('dim') is None else 1}"


def _by_number(name: str, operand: int, number: int = 0) -> Callable[[Any], str]:
    """One variant where an operand is a Python number, the other where it is a tensor."""
    return lambda node: f"{name}Backward{number if node.backward_plan.numbers >> operand & 1 else 1 - number}"


def _windows(name: str) -> Callable[[Any], str]:
    return lambda node: name.format(len(node.attributes["kernel"]))


NAMES: dict[str, str | Callable[[Any], str]] = {
    "attention": "ScaledDotProductFlashAttentionForCpuBackward0",
    "avg_pool": _windows("AvgPool{}DBackward0"),
    "batch_norm": "NativeBatchNormBackward0",
    "channel_affine": "NativeBatchNormBackward0",
    "cholesky": "LinalgCholeskyExBackward0",
    "clamp": lambda node: f"ClampBackward{0 if node.backward_plan.numbers & 6 == 6 else 1}",
    "conv": "ConvolutionBackward0",
    "conv_input_grad": "ConvolutionBackward0",
    "convert": "ToCopyBackward0",
    "copy_slices": "torch::autograd::CopySlices",
    "copysign": _by_number("Copysign", 1, number=1),
    "cross_entropy": _nll,
    "det": "LinalgDetBackward0",
    "div_floor": "DivBackward2",
    "div_trunc": "DivBackward2",
    "dropout": "MulBackward0",
    "eigh": "LinalgEighBackward0",
    "fft_c2c": "FftC2CBackward0",
    "fft_c2r": "FftC2RBackward0",
    "fft_r2c": "FftR2CBackward0",
    "fmod": _by_number("Fmod", 1),
    "group_norm": "NativeGroupNormBackward0",
    "index_fill": _by_number("IndexFill", 2),
    "inv": "LinalgInvExBackward0",
    "layer_norm": "NativeLayerNormBackward0",
    "lerp": _by_number("Lerp", 2),
    "linear": _linear,
    "masked_fill": _by_number("MaskedFill", 2),
    "matmul": _matmul,
    "max_dim": "MaxBackward0",
    "max_pool": _windows("MaxPool{}DWithIndicesBackward0"),
    "max_pool_with_indices": _windows("MaxPool{}DWithIndicesBackward0"),
    "mean": _over("Mean"),
    "median_dim": "MedianBackward1",
    "min_dim": "MinBackward0",
    "nanmedian_dim": "NanmedianBackward1",
    "nll_loss": _nll,
    "pad_border": _pad_border,
    "pad_constant": "ConstantPadNdBackward0",
    "pow": _by_number("Pow", 1),
    "prelu": "PreluKernelBackward0",
    "prod": _over("Prod"),
    "qr": "LinalgQrBackward0",
    "remainder": _by_number("Remainder", 1),
    "reshape": "ViewBackward0",
    "scatter": _by_number("Scatter", 2, number=1),
    "slice": _slice,
    "slogdet": "LinalgSlogdetBackward0",
    "solve": "LinalgSolveExBackward0",
    "squeeze": lambda node: f"SqueezeBackward{1 if len(node.attributes['dims']) == 1 else 2}",
    "square": "PowBackward0",
    "sum": _over("Sum"),
    "svd": "LinalgSvdBackward0",
    "svdvals": "LinalgSvdBackward0",
    "vector_norm": "LinalgVectorNormBackward0",
}


def name_of(node: Any) -> str:
    """The name of a node: what its function said, its op's in PyTorch, or one made of the op's name in tdt."""
    op = node.backward_plan.op.name
    found = getattr(node, "label", None) or NAMES.get(op)  # the slot may be empty
    if found is None:
        return _spelt(op) + "Backward0"
    return found if isinstance(found, str) else found(node)


def _spelt(name: str) -> str:
    """`log1p` as `Log1P`, `masked_fill` as `MaskedFill`."""
    return re.sub(r"\d[a-z]", lambda found: found[0].upper(), "".join(part.capitalize() for part in name.split("_")))


def shown_as(name: str) -> Callable[[F], F]:
    """Decorate a function of several ops that is one in PyTorch: its results' nodes show that one's `name`."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def labelled(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            for t in result if isinstance(result, tuple) else (result,):
                if isinstance(t, Tensor) and t._edge is not None and not any(t is x for x in args):
                    label(t, name)
            return result

        return cast("F", labelled)

    return decorate


def label(t: Tensor, name: str) -> Tensor:
    """`t`, a fresh result, whose node shows `name`."""
    if t._edge is not None:
        t._edge[0].label = name
    return t


def saved_attribute(node: Any, name: str) -> Any:
    """`_saved_<parameter>` of a node: an operand or output that it kept, or a setting; AttributeError for anything else."""
    wanted, back = name.removeprefix("_saved_"), node.backward_plan
    if wanted in node.attributes:
        return node.attributes[wanted]
    values = (*back.names, *back.op.outputs)
    asked = {"self": 0, "other": 1, "exponent": 1, "result": len(back.names)}.get(wanted)
    places = [k for k, i in enumerate(back.keep) if i == asked or values[i] == wanted]
    if not places:
        ruled = {name for rule in back.op.rules.values() for name in rule.params}
        if asked is not None and asked < len(values) and values[asked] in ruled:
            return None  # only needed for a gradient that nobody wants
        raise AttributeError(f"'{node.name()}' object has no attribute '{name}'")
    if node.saved is None:
        raise freed()
    array, storage, version = list(node.saved)[places[0]]
    if storage is not None and storage.version != version:
        raise overwritten(array, storage, version, node)
    if not _backend.is_array(array):
        return array
    at = back.keep[places[0]]
    count = len(node.edges)
    edge = node.edges[at] if at < count else (node, at - count)
    return edge[0] if edge is not None and getattr(edge[0], "_a", None) is array else alias(array, edge, storage)
