"""Each op that tdt.onnx writes: the graph in onnxruntime gives what PyTorch gives, for a batch of 1 and of 7."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tdt
from tdt import nn
from tdt.autograd._op_table import OPS
from tdt.onnx import export
from tests.helpers import require, require_torch

BATCHES = (1, 7)


def numbers(*shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    """Numbers of float32, whose first dimension is the batch."""
    return np.random.RandomState(sum(shape)).uniform(low, high, shape).astype(np.float32)


def positive(*shape: int) -> np.ndarray:
    return numbers(*shape, low=0.1, high=3.0)


def whole(*shape: int, below: int = 4) -> np.ndarray:
    return np.random.RandomState(sum(shape)).randint(0, below, shape)


def truth(*shape: int) -> np.ndarray:
    return whole(*shape, below=2) == 1


X = numbers(2, 3, 4)
IMAGE = numbers(2, 3, 8, 8)

# name → (function of the library and tensors, the tensors); the first dimension of each is the batch.
CASES: dict[str, tuple[Any, ...]] = {
    # one operand
    **{
        name: (lambda t, f, x, name=name: getattr(t, name)(x), X)
        for name in "abs atan asinh ceil cos cosh erf erfc exp exp2 expm1 floor frac neg reciprocal relu round sgn sigmoid sign "
        "sin sinc sinh square tan tanh trunc isnan isinf isfinite logical_not deg2rad rad2deg".split()
    },
    **{
        name: (lambda t, f, x, name=name: getattr(t, name)(x), positive(2, 5))
        for name in "log log2 log10 log1p sqrt rsqrt".split()
    },
    **{
        name: (lambda t, f, x, name=name: getattr(t, name)(x), numbers(2, 5, low=-0.9, high=0.9))
        for name in "asin acos atanh".split()
    },
    "acosh": (lambda t, f, x: t.acosh(x), positive(2, 5) + 1),
    "logit": (lambda t, f, x: t.logit(x, 1e-3), numbers(2, 5, low=0.01, high=0.99)),
    "round decimals": (lambda t, f, x: t.round(x, decimals=1), X),
    "floor of integers": (lambda t, f, x: t.floor(x), whole(2, 5)),
    **{
        name: (lambda t, f, x, name=name: getattr(f, name)(x), X * 4)
        for name in "celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu6 selu silu "
        "softplus softshrink softsign tanhshrink".split()
    },
    "celu alpha": (lambda t, f, x: f.celu(x, 2.0), X),
    "gelu tanh": (lambda t, f, x: f.gelu(x, approximate="tanh"), X),
    "threshold": (lambda t, f, x: f.threshold(x, 0.5, 9.0), X),
    "prelu": (lambda t, f, x: f.prelu(x, t.tensor([0.25])), X),
    "glu": (lambda t, f, x: f.glu(x, -1), X),
    "bitwise_not": (lambda t, f, x: t.bitwise_not(x), whole(2, 5)),
    "not": (lambda t, f, x: ~x, truth(2, 5)),
    "convert": (lambda t, f, x: (x.to(t.int32), x.to(t.float64), x.to(t.bool)), X),
    # two operands
    **{
        name: (lambda t, f, x, y, name=name: getattr(t, name)(x, y), X, positive(2, 1, 4))
        for name in "add sub mul div maximum minimum eq ne lt le gt ge hypot fmod remainder floor_divide logical_and "
        "logical_or logical_xor fmax fmin logaddexp".split()
    },
    "pow": (lambda t, f, x, y: t.pow(x, y), positive(2, 5), X[:, 0, :1]),
    "heaviside": (lambda t, f, x, y: t.heaviside(x, y), np.sign(X), X),
    "spherical_bessel_j0": (lambda t, f, x: t.special.spherical_bessel_j0(x), X * 4),
    "nan_to_num": (lambda t, f, x: t.nan_to_num(t.log(x) / 0, 1.0, 2.0, -3.0), X),
    "angle": (lambda t, f, x: x.angle(), X),
    "logaddexp2": (lambda t, f, x, y: t.logaddexp2(x, y), X, X * 2),
    "xlogy": (lambda t, f, x, y: t.special.xlogy(x, y), X, positive(2, 3, 4)),
    "xlog1py": (lambda t, f, x, y: t.special.xlog1py(x, y), X, positive(2, 3, 4)),
    "bitwise": (lambda t, f, x, y: (x & y, x | y, x ^ y), whole(2, 5), whole(2, 5, below=7)),
    "bools": (lambda t, f, x, y: (x & y, x | y, x ^ y, x * y, x + y), truth(2, 5), truth(2, 5)[:, ::-1].copy()),
    "integers": (lambda t, f, x, y: (x // 3, x % 3, t.fmod(x - 5, 3), x + 2, x * y, x / 2), whole(2, 5, below=9), whole(2, 5)),
    "trunc division": (lambda t, f, x: (t.div(x, 0.7, rounding_mode="trunc"), t.div(x, 0.7, rounding_mode="floor")), X),
    "numbers": (lambda t, f, x: (2 - x, 1 / (x + 3), 2 * x + 1, x**2, x**3, 2.0**x, -x), X),
    "alpha": (lambda t, f, x, y: (t.add(x, y, alpha=2), t.add(x, y, alpha=0.3), t.sub(x, y, alpha=0.5)), X, X * X),
    "promotion": (
        lambda t, f, x, n: (x + n, n / 2, x * (n > 1), n.mean(1, dtype=t.float32), n.sum(1, dtype=t.float32)), X, whole(2, 3, 4),
    ),
    "where": (lambda t, f, c, x: (t.where(c, x, 0.0), t.where(c, x, -x), x.masked_fill(c, -1.0)), truth(2, 3, 4), X),
    "clamp": (lambda t, f, x: (x.clamp(-1, 1), x.clamp(min=0.5), x.clamp(max=t.tensor(0.5))), X),
    "lerp": (lambda t, f, x, y: (t.lerp(x, y, 0.3), t.addcmul(x, x, y, value=2.0), t.addcdiv(x, x, y + 3)), X, X * X),
    # in place
    "in place": (lambda t, f, x: t.relu_(x * 1).add_(1).mul_(2), X),
    "fill": (lambda t, f, x: (x * 1).fill_(3.0) + (x * 1).zero_() + (x * 1).copy_(x[:, :1] * 2), X),
    # shape
    "reshape": (lambda t, f, x: (x.view(-1, 4), x.reshape(x.shape[0], -1), x.flatten(1), x.reshape(-1)), X),
    "permute": (lambda t, f, x: (x.transpose(0, 2), x.permute(2, 0, 1), x.mT), X),
    "squeeze": (lambda t, f, x: (x[:, :1].squeeze(1), x.unsqueeze(0), x.unsqueeze(-1).squeeze(-1)), X),
    "slice": (lambda t, f, x: (x[:, 1], x[:, -1], x[:, :, 1:3], x[..., ::2], x[:, None, 0, 1:], x[:, -2:], x[-1], x[...]), X),
    "flip": (
        lambda t, f, x: (x.flip(1), x.flip([0, 2]), t.rot90(x, 1, [1, 2]), t.rot90(x, 2, [0, 1]), t.rot90(x, -1, [1, 2])), X,
    ),
    "cross": (lambda t, f, x: (t.linalg.cross(x[:, :3], x[:1, :3] + 1, dim=1), t.cross(x[..., :3], x[..., 1:4], -1)), X),
    "roll": (lambda t, f, x: (x.roll(1, 1), x.roll((1, -2), (1, 2)), x.roll(2)), X),
    "cat": (lambda t, f, x: (t.cat([x, x * 2], 1), t.stack([x, -x], 1), t.cat([x, x], 0)), X),
    "split": (lambda t, f, x: (*x.split([1, 3], 2), *x.chunk(2, 2), *x.unbind(1)), X),
    "expand": (lambda t, f, x: (x[:, :1].expand(-1, 5, -1), x.repeat(1, 2, 1), t.broadcast_to(x[:, :1, :1], x.shape)), X),
    "repeat": (lambda t, f, x: (x.repeat(2, 1, 2, 1), x[:, :1, :1].repeat(1, x.shape[0], 2)), X),
    "triangles": (lambda t, f, x: (x.tril(), x.triu(1), x.diagonal(0, 1, 2), x.diagonal(1, -2, -1)), X),
    "clone": (lambda t, f, x: x.clone() + x.contiguous() + x.detach(), X),
    "pad": (lambda t, f, x: (f.pad(x, (1, 2), value=3.0), f.pad(x, (-1, 1, 1, 0))), X),
    "pad borders": (
        lambda t, f, x: [f.pad(x, (1, 2, 2, 1), mode=mode) for mode in ("reflect", "replicate", "circular")],
        IMAGE,
    ),
    "unfold": (lambda t, f, x: x.unfold(2, 2, 1), X),
    "repeat_interleave": (lambda t, f, x: (x.repeat_interleave(2, 0), x.repeat_interleave(3, -1), x.repeat_interleave(2)), X),
    "gradients": (lambda t, f, x: [OPS[name](x, x) if t is tdt else getattr(t.ops.aten, name)(x, x)
                                   for name in ("tanh_backward", "sigmoid_backward")], X),
    "pixel shuffle": (lambda t, f, x: (f.pixel_shuffle(x.repeat(1, 4, 1, 1), 2),
                                    f.pixel_unshuffle(x, 2), f.channel_shuffle(x, 3)), IMAGE),
    # indices
    "embedding": (lambda t, f, n: f.embedding(n, t.arange(12.0).reshape(4, 3)), whole(2, 5)),
    "one_hot": (lambda t, f, n: f.one_hot(n, 4), whole(2, 5)),
    "gather": (lambda t, f, x, n: (x.gather(2, n), x.take_along_dim(n, 2)), X, whole(2, 3, 2)),
    "take": (lambda t, f, x, n: t.take(x, n), X, whole(2, 2)),
    "index_select": (lambda t, f, x: (x.index_select(2, t.tensor([2, 0])), x[:, t.tensor([1, 1])]), X),
    "index": (
        lambda t, f, x, n: (x[:, t.tensor([0, 1]), t.tensor([1, 2])], x[:, :, n[0]], x[:, t.tensor([0]), :, None]),
        X, whole(2, 2),
    ),
    "index apart": (lambda t, f, x: (x[:, t.tensor([0, 2]), :, t.tensor([1, 3])],), IMAGE),
    "index rows": (lambda t, f, x, n: x[t.arange(x.shape[0]), n], X, whole(2, below=3)),
    "index_put": (lambda t, f, x, n: (x * 1).index_put((t.arange(x.shape[0]), n), t.tensor(5.0)), X, whole(2, below=3)),
    "scatter": (lambda t, f, x, n: (x.scatter(2, n, 5.0), x.scatter(2, n, x * 2), x.scatter_add(2, n, x)), X, whole(2, 3, 1)),
    # reductions
    **{
        name: (lambda t, f, x, name=name: (getattr(t, name)(x, 1), getattr(t, name)(x, -1, keepdim=True)), X)
        for name in "sum mean prod amax amin logsumexp all any argmax argmin var std nansum nanmean".split()
    },
    "over all but the batch": (lambda t, f, x: (x.sum((1, 2)), x.mean((1, 2), keepdim=True), x.amax((1, 2)), x.var((1, 2))), X),
    "over the batch": (lambda t, f, x: (x.sum(), x.mean(0), x.max(), x.argmax(), x.std(0, correction=0), x.var()), X),
    "sum of bools": (lambda t, f, x: ((x > 0).sum(1), (x > 0).any(1), t.count_nonzero(x > 0, 1)), X),
    "max_dim": (lambda t, f, x: (*x.max(1), *x.min(2, keepdim=True)), X),
    "order": (lambda t, f, x: (*x.sort(1), *x.sort(2, descending=True), *x.topk(2, 2), x.argsort(1)), X),
    "cumsum": (lambda t, f, x: (x.cumsum(1), (x > 0).cumsum(2)), X),
    "norms": (lambda t, f, x: [x.norm(p, 1) for p in (0, 1, 2, 3, math.inf, -math.inf)], X),
    "normalize": (lambda t, f, x: (f.normalize(x, dim=1), f.cosine_similarity(x, x * x, 1)), X),
    "cdist": (lambda t, f, x: (t.cdist(x, x[:, :2]), t.cdist(x, x * 2, p=1)), X),
    "softmax": (lambda t, f, x: (x.softmax(1), x.log_softmax(-1), f.softmin(x, 2)), X * 9),
    # products
    "matmul": (
        lambda t, f, x: (x @ x.mT, x @ t.ones(4), t.einsum("bij,bkj->bik", x, x), t.bmm(x, x.mT), t.outer(x[0, 0], x[0, 1])), X,
    ),
    "addmm": (lambda t, f, x: t.addmm(t.ones(3), x[:, 0], t.ones(4, 3), beta=0.5, alpha=2), X),
    "linear": (lambda t, f, x: (f.linear(x, t.ones(5, 4), t.arange(5.0)), f.linear(x[:, 0], t.ones(5, 4))), X),
    # layers
    "conv": (
        lambda t, f, x: (f.conv2d(x, t.ones(6, 1, 3, 3), t.arange(6.0), stride=2, padding=1, groups=3),
                      f.conv2d(x, t.ones(2, 3, 2, 3), dilation=2, padding="same"),
                      f.conv1d(x[:, :, 0], t.ones(2, 3, 3))), IMAGE),
    "conv transposed": (
        lambda t, f, x: (f.conv_transpose2d(x, t.ones(3, 2, 3, 3), t.ones(2), stride=2, padding=1, output_padding=1),
                      f.conv_transpose1d(x[:, :, 0], t.ones(3, 1, 3), groups=3, dilation=2)), IMAGE),
    "max pools": (
        lambda t, f, x: (f.max_pool2d(x, 3, 2, 1), f.max_pool2d(x, 3, 2, ceil_mode=True),
                      f.max_pool2d(x, 2, 1, dilation=2), f.max_pool1d(x[:, :, 0], 2),
            f.max_pool2d(x, 2, return_indices=True)[0]), IMAGE),
    "average pools": (
        lambda t, f, x: (f.avg_pool2d(x, 3, 2, 1), f.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
                      f.avg_pool2d(x, 3, 2, ceil_mode=True), f.avg_pool2d(x, 2, divisor_override=3),
                      f.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False)), IMAGE),
    "adaptive pools": (
        lambda t, f, x: (f.adaptive_avg_pool2d(x, 1), f.adaptive_avg_pool2d(x, (3, 5)),
                      f.adaptive_max_pool2d(x, 2), f.adaptive_max_pool2d(x, (3, 5))), IMAGE),
    "lp pool": (lambda t, f, x: f.lp_pool2d(x, 2, 2), IMAGE),
    "norm layers": (
        lambda t, f, x: (f.layer_norm(x, (8, 8)), f.layer_norm(x, (8,), t.arange(8.0), t.ones(8)),
                      f.rms_norm(x, (8,), t.arange(8.0)), f.group_norm(x.repeat(1, 2, 1, 1), 3),
                      f.group_norm(x[:, :, 0, 0], 1, t.arange(3.0), t.ones(3)), f.instance_norm(x),
                      f.local_response_norm(x, 2)), IMAGE),
    "batch norm": (
        lambda t, f, x: (f.batch_norm(x, t.arange(3.0), t.ones(3) * 2, t.ones(3), t.arange(3.0)),
                      f.batch_norm(x[:, :, 0, 0], t.arange(3.0), t.ones(3) * 2)), IMAGE),
    "batch norm of the batch": (lambda t, f, x: f.batch_norm(x, None, None, t.arange(3.0), t.ones(3), training=True), IMAGE),
    "attention": (
        lambda t, f, x: (f.scaled_dot_product_attention(x, x, x), f.scaled_dot_product_attention(x, x, x, is_causal=True),
                      f.scaled_dot_product_attention(x, x, x, t.eye(8)),
                      f.scaled_dot_product_attention(x, x, x, t.eye(8) > 0)), IMAGE),
    "interpolate": (
        lambda t, f, x: [f.interpolate(x, size=(5, 13), mode=mode)
                            for mode in ("nearest", "bilinear", "bicubic", "area", "nearest-exact")]
        + [f.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True),
           f.interpolate(x, scale_factor=0.5, mode="bilinear", antialias=True),
           f.interpolate(x[:, :, 0], scale_factor=2, mode="linear")], IMAGE),
    "grid_sample": (
        lambda t, f, x: f.grid_sample(
            x, f.affine_grid(t.eye(2, 3).repeat(x.shape[0], 1, 1) * 0.7, x.shape, align_corners=False), align_corners=False
        ),
        IMAGE,
    ),
    "fold": (
        lambda t, f, x: (f.unfold(x, 3, padding=1, stride=2), f.fold(f.unfold(x, 2, stride=2), 8, 2, stride=2)), IMAGE),
    "losses": (
        lambda t, f, x, y: (f.mse_loss(x, y), f.l1_loss(x, y), f.smooth_l1_loss(x, y), f.huber_loss(x, y, delta=2.0),
                         f.cross_entropy(x, y),
                         f.binary_cross_entropy_with_logits(x, y.sigmoid(), reduction="none"), f.poisson_nll_loss(x, y),
                         f.binary_cross_entropy_with_logits(x, y.sigmoid()),
                         f.binary_cross_entropy_with_logits(x, y.sigmoid(), y.sigmoid()),
                         f.soft_margin_loss(x, y, reduction="sum"), f.multilabel_soft_margin_loss(x, y.sigmoid()),
                         f.kl_div(x, y.sigmoid(), reduction="sum"), f.kl_div(x, y, reduction="sum", log_target=True),
                         f.binary_cross_entropy(x.sigmoid(), y.sigmoid(), reduction="none")), X, X * X),
}  # fmt: skip


class Function(nn.Module):
    """A function of the library and tensors as a module of tdt."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: Any) -> Any:
        return self.function(tdt, nn.functional, *tensors)


def exported(module: nn.Module, arrays: tuple[np.ndarray, ...], **how: Any) -> Any:
    """The message of a module, exported with a dynamic batch."""
    names = [f"x{i}" for i in range(len(arrays))]
    dynamic = {name: {0: "batch"} for name in names}
    return export(module, tuple(map(tdt.tensor, arrays)), input_names=names, dynamic_axes=dynamic, **how).model_proto


def run(model: Any, arrays: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    ort = require("onnxruntime")
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {f"x{i}": array for i, array in enumerate(arrays)})


def flat(value: Any) -> list[Any]:
    return [leaf for item in value for leaf in flat(item)] if isinstance(value, (tuple, list)) else [value]


def agree(found: list[np.ndarray], expected: list[Any]) -> None:
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        theirs = np.asarray(theirs)
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5 * max(1.0, float(np.abs(theirs).max(initial=0))))


@pytest.mark.parametrize("name", CASES)
def test_onnxruntime_gives_what_pytorch_gives(name: str):
    require("onnxruntime")
    torch: ModuleType = require_torch()
    function, *arrays = CASES[name]
    model = exported(Function(function), tuple(arrays))
    for batch in BATCHES:
        inputs = tuple(np.take(array, np.arange(batch) % len(array), 0) for array in arrays)
        with np.errstate(all="ignore"):
            expected = flat(function(torch, torch.nn.functional, *[torch.tensor(array) for array in inputs]))
        agree(run(model, inputs), [t.detach().numpy() for t in expected])


def test_every_op_that_is_written_is_compared(monkeypatch: pytest.MonkeyPatch):
    require("onnx")
    from tdt.onnx import _convert
    from tdt.onnx._forms import FORMS

    written = set()
    names = _convert.Converter._write
    monkeypatch.setattr(
        _convert.Converter,
        "_write",
        lambda self, number: (written.add(self.first.calls[number].op.name), names(self, number)),
    )
    for function, *arrays in CASES.values():
        exported(Function(function), tuple(arrays))
    composed = set() if tdt._kernels.enabled() else {"grid_sampler_2d"}
    assert set(FORMS) - written - composed == {"lstm_sequence", "gru_sequence", "rnn_sequence"}  # in test_export.py
    formulas = {name for name, op in OPS.items() if _convert.formula_of(op)}
    assert formulas - written == NO_FORM


# Elementwise ops whose functions ONNX lacks; it shifts unsigned integers only.
NO_FORM = set(
    "airy_ai atan2 bessel_j0 bessel_j1 bessel_y0 bessel_y1 bitwise_left_shift bitwise_right_shift copysign digamma entr "
    "erfcx erfinv i0 i0e i1 i1e lgamma log_ndtr "
    "modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 modified_bessel_k1 ndtr scaled_modified_bessel_k0 "
    "scaled_modified_bessel_k1".split()
)
