"""Rules of ops for a batch, for `tdt._batching`: each computes (B, *shape) from operands of which some are (B, *shape), too.

A rule gets the op, its operands, B and all attributes; it returns the result, a tuple of several, or None where it does not
apply.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tdt._core.calls import is_empty
from tdt._core.ranges import arange
from tdt._core.tensor import Tensor
from tdt._ops.shape.views import ALL_OF
from tdt.autograd._op_table import OPS


class Operand(NamedTuple):
    """An operand of an op that is computed for the batch.

    Attributes:
        value: a tensor of the whole batch where it is `mapped`, else what the function gave.
        shape: that of one entry; None for what is no tensor.
    """

    value: Any
    mapped: bool
    shape: tuple[int, ...] | None

    @property
    def rank(self) -> int:
        """The number of dimensions of one entry, 0 for a number."""
        return len(self.shape or ())


Rule = Callable[[Any, list[Operand], int, dict[str, Any]], Any]
RULES: dict[str, Rule] = {}
DIMENSIONS = frozenset(["dim", "dims", "dim1", "dim2"])  # attributes that are dimensions


def rule_of(op: Any) -> Rule | None:
    """The rule of an op, None without one."""
    rule = RULES.get(op.name)
    if rule is None and (op.formula or op.elementwise) and DIMENSIONS.isdisjoint(op.attributes):
        return _elementwise
    return rule


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, rule))
        return rule

    return register


def _aligned(x: Operand, rank: int, size: int) -> Any:
    """An operand with `rank` dimensions behind that of the batch, if it has one, so that operands broadcast as entries do."""
    if not x.mapped or x.rank == rank:
        return x.value
    return x.value.reshape(size, *(1,) * (rank - x.rank), *x.shape)  # type: ignore[misc]


def _expanded(x: Operand, size: int) -> Tensor:
    """An operand for all entries."""
    return x.value if x.mapped else x.value.expand(size, *x.shape)  # type: ignore[misc]


def _only_first(inputs: list[Operand]) -> bool:
    return inputs[0].mapped and not any(x.mapped for x in inputs[1:])


@_rule("masked_fill", "copysign", "signbit", "isnan", "isinf", "isfinite", "isposinf", "isneginf", "isreal", "ceil", "floor",
       "trunc", "deg2rad", "rad2deg", "log_ndtr", "ndtri", "polygamma", "convert", "conj_physical", "cross")  # fmt: skip
def _elementwise(op: Any, inputs: list[Operand], size: int, attributes: dict) -> Any:
    tensors = [x for x in inputs if x.shape is not None]
    if len({x.value.dtype for x in tensors}) > 1 and any(not x.rank for x in tensors):
        return None  # the types of 0-d tensors give way to others
    rank = max(x.rank for x in tensors)
    if op.name == "masked_fill":  # whose mask may be larger
        inputs = [Operand(_expanded(inputs[0], size), True, inputs[0].shape), *inputs[1:]]
    return op(*[_aligned(x, rank, size) for x in inputs], **attributes)


@_rule("clone")
def _clone(op: Any, inputs: list[Operand], size: int, attributes: dict) -> Any:
    return op(inputs[0].value)


# Over several dimensions, or all for None.
_FOLDS = ("all", "amax", "amin", "any", "count_nonzero", "logsumexp", "mean", "nanmean", "nansum", "std", "sum", "var",
          "vector_norm")  # fmt: skip


@_rule(*_FOLDS)
def _fold(op: Any, inputs: list[Operand], size: int, attributes: dict) -> Any:
    (x,), dim = inputs, attributes["dim"]
    if not x.rank:
        return op(x.value.reshape(size, 1), **{**attributes, "dim": (1,), "keepdim": False})
    if is_empty(dim):
        return None
    return op(x.value, **{**attributes, "dim": tuple(range(1, x.rank + 1)) if dim is None else _behind(dim)})


def _behind(dim: Any) -> Any:
    """Dimensions of an entry as those of the batch."""
    if dim.__class__ is int:
        return dim + 1 if dim >= 0 else dim
    return tuple([d + 1 if d >= 0 else d for d in dim])


@_rule("argmax", "argmin", "cummax", "cummin", "cumprod", "cumsum", "diagonal", "flip", "glu", "kthvalue", "log_softmax",
       "logcumsumexp", "max_dim", "median_dim", "min_dim", "mode", "nanmedian_dim", "prod", "roll", "softmax", "sort", "split",
       "squeeze", "topk", "unbind", "unfold", "unsqueeze", "fft_c2c", "fft_r2c", "fft_c2r")  # fmt: skip
def _along(op: Any, inputs: list[Operand], size: int, attributes: dict) -> Any:
    x = inputs[0]
    if len(inputs) > 1 or (not x.rank and op.name != "unsqueeze"):
        return None
    how = {
        name: _behind(value) if name in DIMENSIONS and value is not None else value
        for name, value in attributes.items()
    }
    if any(how[name] is None for name in DIMENSIONS & how.keys()):
        return (
            op(x.value.reshape(size, -1), **{**how, "dim": 1})
            if how.get("dim", 0) is None and not how["keepdim"]
            else None
        )
    return op(x.value, **how)


@_rule("cosine_similarity")
def _along_both(op: Any, inputs: list[Operand], size: int, attributes: dict) -> Any:
    return op(*[_expanded(x, size) for x in inputs], **{**attributes, "dim": attributes["dim"] + 1})


@_rule("permute")
def _permute(op: Any, inputs: list[Operand], size: int, attributes: dict) -> Any:
    return op(inputs[0].value, dims=(0, *[d % inputs[0].rank + 1 for d in attributes["dims"]]))


@_rule("view", "reshape")
def _reshape(op: Any, inputs: list[Operand], size: int, attributes: dict) -> Any:
    return inputs[0].value.reshape(size, *attributes["shape"])


@_rule("expand")
def _expand(op: Any, inputs: list[Operand], size: int, attributes: dict) -> Any:
    shape = attributes["shape"]
    return op(_aligned(inputs[0], len(shape), size), shape=(size, *shape))


@_rule("repeat")
def _repeat(op: Any, inputs: list[Operand], size: int, attributes: dict) -> Any:
    times = attributes["times"]
    return op(_aligned(inputs[0], len(times), size), times=(1, *times))


@_rule("slice")
def _slice(op: Any, inputs: list[Operand], size: int, attributes: dict) -> Any:
    return op(inputs[0].value, spec=(ALL_OF, *attributes["spec"]))


@_rule("pad_constant")
def _pad(op: Any, inputs: list[Operand], size: int, attributes: dict) -> Any:
    ends = {name: (0, *attributes[name]) for name in ("before", "after")}
    return op(inputs[0].value, **{**attributes, **ends}) if inputs[0].rank == len(attributes["before"]) else None


@_rule("cat", "stack")
def _join(op: Any, inputs: list[Operand], size: int, attributes: dict) -> Any:
    if len({x.value.dtype for x in inputs}) > 1 or len({x.rank for x in inputs}) > 1:
        return None
    return op(*[_expanded(x, size) for x in inputs], dim=_behind(attributes["dim"]))


@_rule("tril", "triu", "cholesky", "det", "inv", "slogdet", "matrix_exp", "eigh", "eigvalsh", "svd", "svdvals", "qr")
def _of_matrices(op: Any, inputs: list[Operand], size: int, attributes: dict) -> Any:
    return op(inputs[0].value, **attributes) if len(inputs) == 1 and inputs[0].rank >= 2 else None


@_rule("gather", "scatter", "scatter_add", "scatter_reduce")
def _at_places(op: Any, inputs: list[Operand], size: int, attributes: dict) -> Any:
    if not all(x.rank for x in inputs if x.shape is not None):
        return None
    values = [x.value if x.shape is None else _expanded(x, size) for x in inputs]
    return op(*values, **{**attributes, "dim": _behind(attributes["dim"])})


@_rule("index_select")
def _index_select(op: Any, inputs: list[Operand], size: int, attributes: dict) -> Any:
    if not (_only_first(inputs) and inputs[0].rank):
        return None
    return op(inputs[0].value, inputs[1].value, dim=_behind(attributes["dim"]))


@_rule("matmul")
def _matmul(op: Any, inputs: list[Operand], size: int, attributes: dict) -> Any:
    x, y = inputs
    return _product(op, x, y, size)


def _product(op: Any, x: Operand, y: Operand, size: int) -> Tensor:
    """x @ y of every entry."""
    if not y.mapped and y.rank <= 2:
        return op(x.value, y.value)
    a, b = (v.value for v in (x, y))
    assert x.shape is not None and y.shape is not None
    a_shape = (1, *x.shape) if x.rank == 1 else x.shape
    b_shape = (*y.shape, 1) if y.rank == 1 else y.shape
    rank = max(len(a_shape), len(b_shape))
    a, b = (
        v.reshape(*(size,) * which.mapped, *(1,) * ((rank - len(shape)) * which.mapped), *shape)
        for v, shape, which in ((a, a_shape, x), (b, b_shape, y))
    )
    out = op(a, b)
    if x.rank == 1:
        out = out.squeeze(-2)
    return out.squeeze(-1) if y.rank == 1 else out


@_rule("linear")
def _linear(op: Any, inputs: list[Operand], size: int, attributes: dict) -> Any:
    x, w, *bias = inputs
    if _only_first(inputs):
        return op(*[each.value for each in inputs]) if x.rank else None
    if w.rank != 2:
        return None
    assert w.shape is not None
    turned = Operand(w.value.transpose(-1, -2), w.mapped, (w.shape[1], w.shape[0]))
    out = _product(OPS["matmul"], x, turned, size)
    b = bias[0] if bias else None
    return out if b is None or b.shape is None else out + _aligned(b, x.rank, size)


@_rule("addmm")
def _addmm(op: Any, inputs: list[Operand], size: int, attributes: dict) -> Any:
    x, a, b = inputs
    beta, alpha = attributes["beta"], attributes["alpha"]
    product = _product(OPS["matmul"], a, b, size)
    product = product if alpha == 1 else product * alpha
    if not beta:
        return product
    start = _aligned(x, 2, size)
    return product + (start if beta == 1 else start * beta)


@_rule("index")
def _index(op: Any, inputs: list[Operand], size: int, attributes: dict) -> Any:
    (x, *places), dims = inputs, attributes["dims"]
    if dims != tuple(range(dims[0], dims[0] + len(dims))) or not all(each.rank for each in places):
        return None
    if x.mapped and not any(each.mapped for each in places):
        return op(x.value, *[each.value for each in places], dims=_behind(dims))
    if dims[0]:
        return None
    rank = max(each.rank for each in places)
    values = [_aligned(each, rank, size) for each in places]
    if not x.mapped:
        return op(x.value, *values, dims=dims)
    entries = arange(size).reshape(size, *(1,) * rank)
    return op(x.value, entries, *values, dims=(0, *_behind(dims)))


@_rule("layer_norm")
def _layer_norm(op: Any, inputs: list[Operand], size: int, attributes: dict) -> Any:
    return op(*[x.value for x in inputs], **attributes) if _only_first(inputs) else None


@_rule("embedding")
def _embedding(op: Any, inputs: list[Operand], size: int, attributes: dict) -> Any:
    w, indices = inputs
    return None if w.mapped else op(w.value, indices.value, **attributes)


@_rule("conv")
def _conv(op: Any, inputs: list[Operand], size: int, attributes: dict) -> Any:
    if _only_first(inputs):
        return _of_samples(op, inputs, size, attributes)
    x, w, b = inputs
    assert x.shape is not None
    samples, weights = _expanded(x, size).transpose(0, 1), _expanded(w, size)  # (N, B, C, *), (B, O, C, *)
    out = op(
        samples.reshape(x.shape[0], size * x.shape[1], *x.shape[2:]),
        weights.reshape(-1, *weights.shape[2:]),
        None if b.shape is None else _expanded(b, size).reshape(-1),
        **{**attributes, "groups": size * attributes["groups"]},
    )
    return out.reshape(x.shape[0], size, -1, *out.shape[2:]).transpose(0, 1)


@_rule("conv_input_grad", "avg_pool", "max_pool", "max_pool_with_indices", "adaptive_max", "group_norm",
       "batch_norm_eval", "im2col", "col2im")  # fmt: skip
def _of_samples(op: Any, inputs: list[Operand], size: int, attributes: dict) -> Any:
    """An op of samples (N, C, *), which do not depend on each other: those of all entries are one batch."""
    return _merged(op, inputs[:1], inputs[1:], size, attributes) if _only_first(inputs) else None


@_rule("attention")
def _attention(op: Any, inputs: list[Operand], size: int, attributes: dict) -> Any:
    ranks = {x.rank for x in inputs[:3]}
    if any(x.shape is not None for x in inputs[3:]) or len(ranks) > 1:
        return None
    if ranks != {4}:
        return op(*[_expanded(x, size) for x in inputs[:3]], **attributes)
    return _merged(op, inputs[:3], inputs[3:], size, attributes)


def _merged(op: Any, samples: Sequence[Operand], rest: Sequence[Operand], size: int, attributes: dict) -> Any:
    """An op with the first dimension of `samples` joined to that of the batch."""
    values = [_expanded(x, size) for x in samples]
    found = op(*[v.reshape(-1, *v.shape[2:]) for v in values], *[x.value for x in rest], **attributes)
    outs = found if found.__class__ is tuple else (found,)
    return tuple([out.reshape(size, -1, *out.shape[1:]) for out in outs])


@_rule("mse_loss", "huber_loss", "absolute_loss", "soft_margin_loss", "logits_loss", "poisson_loss", "divergence",
       "divergence_of_logs")  # fmt: skip
def _pair_loss(op: Any, inputs: list[Operand], size: int, attributes: dict) -> Any:
    losses = _elementwise(op, inputs, size, {**attributes, "reduction": "none"})
    return losses if losses is None else _reduced(losses, attributes["reduction"])


def _reduced(losses: Tensor, reduction: str) -> Tensor:
    """The losses of every entry, reduced."""
    if reduction == "none":
        return losses
    rows = losses.reshape(len(losses), -1)
    return rows.sum(1) if reduction == "sum" else rows.mean(1)


@_rule("probability_loss")
def _probability_loss(op: Any, inputs: list[Operand], size: int, attributes: dict) -> Any:
    losses = op(*[_expanded(x, size) for x in inputs], dim=attributes["dim"] + 1, reduction="none")
    return _reduced(losses, attributes["reduction"])


@_rule("cross_entropy", "nll_loss")
def _class_loss(op: Any, inputs: list[Operand], size: int, attributes: dict) -> Any:
    x, target, weight = inputs
    if weight.shape is not None or x.rank > 2 or attributes.get("smoothing"):
        return None
    rows, classes = (_expanded(v, size) for v in (x, target))
    flat = rows.reshape(-1, rows.shape[-1]), classes.reshape(-1)
    losses = op(*flat, None, **{**attributes, "reduction": "none"}).reshape(classes.shape)
    if attributes["reduction"] != "mean":
        return _reduced(losses, attributes["reduction"])
    counted = (classes != attributes["ignore_index"]).reshape(size, -1).sum(1)
    return losses.reshape(size, -1).sum(1) / counted.to(losses.dtype)
