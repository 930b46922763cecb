"""Operations whose host time `gpu_host` measures: by tdt, by CuPy's public functions, and CuPy's gradients.

To be imported where CuPy can be.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

import tdt
from tdt import _backend
from tdt.nn import functional as F

cp: Any = _backend.gpu()
special: Any = import_module("cupyx.scipy.special")
windows: Any = import_module("cupy.lib.stride_tricks").sliding_window_view
N = 64


class Case(NamedTuple):
    """An operation on `v`, whose attributes are tensors, or the same as CuPy's arrays.

    Attributes:
        tdt, cupy: compute it; None where CuPy has nothing of the kind.
        grad: what the chain rule makes of `v.g`, the gradient of the (first) result, as CuPy's functions do; None likewise.
    """

    tdt: Callable[[Any], Any]
    cupy: Callable[[Any], Any] | None = None
    grad: Callable[[Any], Any] | None = None


def inputs() -> dict[str, tdt.Tensor]:
    """Tensors on the GPU, by name."""
    floats = {
        "x": (N, N), "y": (N, N), "z": (N, N), "u": (N,), "v": (N,), "w": (32, N), "c": (32,), "a": (4, 16, 16),
        "b": (4, 16, 16), "im": (4, 8, 12, 12), "k": (8, 8, 3, 3), "s": (8,), "t": (8,), "q": (2, 4, 16, 8),
        "kk": (2, 4, 16, 8), "vv": (2, 4, 16, 8),
    }  # fmt: skip
    found = {name: tdt.randn(*shape) for name, shape in floats.items()}
    found |= {"mean": tdt.zeros(8), "var": tdt.ones(8), "cond": found["x"] > 0}
    found |= {"labels": tdt.randint(0, N, (N,)), "rows": tdt.randint(0, N, (8,)), "picks": tdt.randint(0, N, (N, N))}
    return {name: each.to("cuda") for name, each in found.items()}


def _zeros(like: Any, index: Any, g: Any) -> Any:
    out = cp.zeros_like(like)
    out[index] = g
    return out


def _softmax_grad(out: Any, g: Any) -> Any:
    return out * (g - (g * out).sum(-1, keepdims=True))


def _sorted(x: Any) -> tuple[Any, Any]:
    order = cp.argsort(x, axis=1)
    return cp.take_along_axis(x, order, 1), order


def _largest(x: Any, k: int) -> tuple[Any, Any]:
    order = cp.argsort(-x, axis=1)[:, :k]
    return cp.take_along_axis(x, order, 1), order


def _normalized(x: Any, dims: Any, eps: float = 1e-5) -> Any:
    return (x - x.mean(dims, keepdims=True)) / cp.sqrt(x.var(dims, keepdims=True) + eps)


def _scores(v: Any) -> Any:
    return cp.matmul(v.q, v.kk.transpose(0, 1, 3, 2)) * (8**-0.5)


def _causal(v: Any) -> Any:
    return cp.where(cp.tri(16, dtype=bool), _scores(v), np.float32(-np.inf))


def _log_softmax(x: Any) -> Any:
    return special.log_softmax(x, -1)


def _picked(x: Any, labels: Any) -> Any:
    return x[cp.arange(N), labels]


def _rest(x: Any, y: Any) -> Any:
    d = cp.abs(x - y)
    return cp.where(d < 1, 0.5 * d * d, d - 0.5).mean()


def _logits(x: Any, y: Any) -> Any:
    return (cp.maximum(x, 0) - x * y + cp.log1p(cp.exp(-cp.abs(x)))).mean()


def _divergence(x: Any, y: Any) -> Any:
    return (special.xlogy(y, y) - y * x).sum() / N


def _cosine(x: Any, y: Any) -> Any:
    return (x * y).sum(1) / cp.maximum(cp.linalg.norm(x, axis=1) * cp.linalg.norm(y, axis=1), 1e-8)


ELEMENTWISE = {
    "add": Case(lambda v: v.x + v.y, lambda v: v.x + v.y, lambda v: (v.g, v.g)),
    "sub": Case(lambda v: v.x - v.y, lambda v: v.x - v.y, lambda v: (v.g, -v.g)),
    "mul": Case(lambda v: v.x * v.y, lambda v: v.x * v.y, lambda v: (v.g * v.y, v.g * v.x)),
    "mul number": Case(lambda v: v.x * 2.0, lambda v: v.x * 2.0, lambda v: v.g * 2.0),
    "rsub": Case(lambda v: 1.0 - v.x, lambda v: 1.0 - v.x, lambda v: -v.g),
    "div": Case(lambda v: v.x / v.y, lambda v: v.x / v.y, lambda v: (v.g / v.y, -v.g * v.x / (v.y * v.y))),
    "add row": Case(lambda v: v.x + v.u, lambda v: v.x + v.u, lambda v: (v.g, v.g.sum(0))),
    "pow": Case(lambda v: v.x**2, lambda v: v.x**2, lambda v: v.g * (2 * v.x)),
    "neg": Case(lambda v: -v.x, lambda v: -v.x, lambda v: -v.g),
    "abs": Case(lambda v: v.x.abs(), lambda v: cp.abs(v.x), lambda v: v.g * cp.sign(v.x)),
    "exp": Case(lambda v: v.x.exp(), lambda v: cp.exp(v.x), lambda v: v.g * v.out),
    "log": Case(lambda v: v.x.log(), lambda v: cp.log(v.x), lambda v: v.g / v.x),
    "sqrt": Case(lambda v: v.x.sqrt(), lambda v: cp.sqrt(v.x), lambda v: v.g / (2 * v.out)),
    "tanh": Case(lambda v: tdt.tanh(v.x), lambda v: cp.tanh(v.x), lambda v: v.g * (1 - v.out * v.out)),
    "sigmoid": Case(lambda v: v.x.sigmoid(), lambda v: special.expit(v.x), lambda v: v.g * (v.out * (1 - v.out))),
    "relu": Case(lambda v: F.relu(v.x), lambda v: cp.maximum(v.x, 0), lambda v: v.g * (v.out > 0)),
    "leaky_relu": Case(
        lambda v: F.leaky_relu(v.x, 0.1), lambda v: cp.where(v.x > 0, v.x, v.x * 0.1), lambda v: cp.where(v.x > 0, v.g, v.g * 0.1)
    ),
    "gelu": Case(lambda v: F.gelu(v.x), lambda v: v.x * 0.5 * (1 + special.erf(v.x * 0.5**0.5))),
    "silu": Case(lambda v: F.silu(v.x), lambda v: v.x * special.expit(v.x)),
    "clamp": Case(
        lambda v: v.x.clamp(-1.0, 1.0), lambda v: cp.clip(v.x, -1, 1), lambda v: v.g * ((v.x >= -1) & (v.x <= 1))
    ),
    "where": Case(
        lambda v: tdt.where(v.cond, v.x, v.y),
        lambda v: cp.where(v.cond, v.x, v.y),
        lambda v: (cp.where(v.cond, v.g, 0), cp.where(v.cond, 0, v.g)),
    ),
    "masked_fill": Case(
        lambda v: v.x.masked_fill(v.cond, 0.0), lambda v: cp.where(v.cond, np.float32(0), v.x), lambda v: cp.where(v.cond, 0, v.g)
    ),
    "gt": Case(lambda v: v.x > 0, lambda v: v.x > 0),
    "eq": Case(lambda v: v.x == v.y, lambda v: v.x == v.y),
    "maximum": Case(
        lambda v: tdt.maximum(v.x, v.y), lambda v: cp.maximum(v.x, v.y), lambda v: (v.g * (v.x > v.y), v.g * (v.x < v.y))
    ),
    "lerp": Case(
        lambda v: tdt.lerp(v.x, v.y, 0.5), lambda v: v.x + 0.5 * (v.y - v.x), lambda v: (v.g * 0.5, v.g * 0.5)
    ),
    "addcmul": Case(
        lambda v: tdt.addcmul(v.x, v.y, v.z), lambda v: v.x + v.y * v.z, lambda v: (v.g, v.g * v.z, v.g * v.y)
    ),
    "dropout": Case(
        lambda v: F.dropout(v.x, 0.1), lambda v: v.x * (cp.random.random_sample(v.x.shape) >= 0.1) * np.float32(1 / 0.9)
    ),
    "glu": Case(lambda v: F.glu(v.x), lambda v: v.x[:, :32] * special.expit(v.x[:, 32:])),
}  # fmt: skip

REDUCTIONS = {
    "sum": Case(lambda v: v.x.sum(), lambda v: v.x.sum(), lambda v: cp.broadcast_to(v.g, v.x.shape)),
    "sum dim": Case(lambda v: v.x.sum(1), lambda v: v.x.sum(1), lambda v: cp.broadcast_to(v.g[:, None], v.x.shape)),
    "mean": Case(lambda v: v.x.mean(), lambda v: v.x.mean(), lambda v: cp.broadcast_to(v.g / N**2, v.x.shape)),
    "mean dim": Case(
        lambda v: v.x.mean(-1, keepdim=True), lambda v: v.x.mean(-1, keepdims=True), lambda v: cp.broadcast_to(v.g / N, v.x.shape)
    ),
    "max": Case(lambda v: v.x.max(), lambda v: v.x.max()),
    "amax": Case(lambda v: v.x.amax(1), lambda v: v.x.max(1)),
    "max dim": Case(lambda v: v.x.max(1), lambda v: (v.x.max(1), v.x.argmax(1))),
    "argmax": Case(lambda v: v.x.argmax(1), lambda v: v.x.argmax(1)),
    "var": Case(lambda v: v.x.var(1), lambda v: v.x.var(1, ddof=1)),
    "std": Case(lambda v: v.x.std(), lambda v: v.x.std(ddof=1)),
    "norm": Case(lambda v: v.x.norm(), lambda v: cp.linalg.norm(v.x), lambda v: v.g * v.x / v.out),
    "vector_norm": Case(
        lambda v: tdt.linalg.vector_norm(v.x, dim=1),
        lambda v: cp.linalg.norm(v.x, axis=1),
        lambda v: (v.g / v.out)[:, None] * v.x,
    ),
    "prod": Case(lambda v: v.x.prod(), lambda v: v.x.prod()),
    "cumsum": Case(lambda v: v.x.cumsum(1), lambda v: cp.cumsum(v.x, axis=1), lambda v: cp.cumsum(v.g[:, ::-1], axis=1)[:, ::-1]),
    "logsumexp": Case(lambda v: v.x.logsumexp(1), lambda v: special.logsumexp(v.x, axis=1)),
    "softmax": Case(lambda v: v.x.softmax(-1), lambda v: special.softmax(v.x, -1), lambda v: _softmax_grad(v.out, v.g)),
    "log_softmax": Case(
        lambda v: F.log_softmax(v.x, -1), lambda v: _log_softmax(v.x), lambda v: v.g - cp.exp(v.out) * v.g.sum(-1, keepdims=True)
    ),
    "topk": Case(lambda v: v.x.topk(5), lambda v: _largest(v.x, 5)),
    "sort": Case(lambda v: v.x.sort(), lambda v: _sorted(v.x)),
    "argsort": Case(lambda v: v.x.argsort(), lambda v: cp.argsort(v.x)),
    "all": Case(lambda v: v.cond.all(), lambda v: v.cond.all()),
    "any": Case(lambda v: v.cond.any(1), lambda v: v.cond.any(1)),
}  # fmt: skip

PRODUCTS = {
    "matmul": Case(lambda v: v.x @ v.y, lambda v: v.x @ v.y, lambda v: (v.g @ v.y.T, v.x.T @ v.g)),
    "matmul t": Case(lambda v: v.x @ v.y.t(), lambda v: v.x @ v.y.T, lambda v: (v.g @ v.y, v.g.T @ v.x)),
    "bmm": Case(
        lambda v: tdt.bmm(v.a, v.b),
        lambda v: cp.matmul(v.a, v.b),
        lambda v: (cp.matmul(v.g, v.b.transpose(0, 2, 1)), cp.matmul(v.a.transpose(0, 2, 1), v.g)),
    ),
    "mv": Case(lambda v: v.x @ v.u, lambda v: v.x @ v.u, lambda v: (cp.outer(v.g, v.u), v.x.T @ v.g)),
    "dot": Case(lambda v: tdt.dot(v.u, v.v), lambda v: cp.dot(v.u, v.v), lambda v: (v.g * v.v, v.g * v.u)),
    "outer": Case(lambda v: tdt.outer(v.u, v.v), lambda v: cp.outer(v.u, v.v), lambda v: (v.g @ v.v, v.g.T @ v.u)),
    "addmm": Case(
        lambda v: tdt.addmm(v.u, v.x, v.y), lambda v: v.u + v.x @ v.y, lambda v: (v.g.sum(0), v.g @ v.y.T, v.x.T @ v.g)
    ),
    "baddbmm": Case(
        lambda v: tdt.baddbmm(v.a, v.a, v.b),
        lambda v: v.a + cp.matmul(v.a, v.b),
        lambda v: (v.g, cp.matmul(v.g, v.b.transpose(0, 2, 1)), cp.matmul(v.a.transpose(0, 2, 1), v.g)),
    ),
    "einsum": Case(lambda v: tdt.einsum("bij,bjk->bik", v.a, v.b), lambda v: cp.einsum("bij,bjk->bik", v.a, v.b)),
    "linear": Case(
        lambda v: F.linear(v.x, v.w, v.c), lambda v: v.x @ v.w.T + v.c, lambda v: (v.g @ v.w, v.g.T @ v.x, v.g.sum(0))
    ),
    "linear 3d": Case(lambda v: F.linear(v.a, v.b[0]), lambda v: v.a @ v.b[0].T),
}  # fmt: skip

NETWORKS = {
    "conv2d": Case(lambda v: F.conv2d(v.im, v.k, v.s, 1, 1)),
    "max_pool2d": Case(lambda v: F.max_pool2d(v.im, 2), lambda v: v.im.reshape(4, 8, 6, 2, 6, 2).max((3, 5))),
    "avg_pool2d": Case(lambda v: F.avg_pool2d(v.im, 2), lambda v: v.im.reshape(4, 8, 6, 2, 6, 2).mean((3, 5))),
    "adaptive_avg_pool2d": Case(lambda v: F.adaptive_avg_pool2d(v.im, 1), lambda v: v.im.mean((2, 3), keepdims=True)),
    "batch_norm": Case(
        lambda v: F.batch_norm(v.im, v.mean, v.var, v.s, v.t, True),
        lambda v: _normalized(v.im, (0, 2, 3)) * v.s[:, None, None] + v.t[:, None, None],
    ),
    "layer_norm": Case(lambda v: F.layer_norm(v.x, (N,), v.u, v.v), lambda v: _normalized(v.x, -1) * v.u + v.v),
    "group_norm": Case(
        lambda v: F.group_norm(v.im, 2, v.s, v.t),
        lambda v: _normalized(v.im.reshape(4, 2, -1), -1).reshape(v.im.shape) * v.s[:, None, None] + v.t[:, None, None],
    ),
    "rms_norm": Case(
        lambda v: F.rms_norm(v.x, (N,), v.u), lambda v: v.x / cp.sqrt((v.x * v.x).mean(-1, keepdims=True) + 1e-7) * v.u
    ),
    "attention": Case(
        lambda v: F.scaled_dot_product_attention(v.q, v.kk, v.vv),
        lambda v: cp.matmul(special.softmax(_scores(v), -1), v.vv),
    ),
    "attention causal": Case(
        lambda v: F.scaled_dot_product_attention(v.q, v.kk, v.vv, is_causal=True),
        lambda v: cp.matmul(special.softmax(_causal(v), -1), v.vv),
    ),
    "cross_entropy": Case(
        lambda v: F.cross_entropy(v.x, v.labels), lambda v: -_picked(_log_softmax(v.x), v.labels).mean()
    ),
    "nll_loss": Case(lambda v: F.nll_loss(v.x, v.labels), lambda v: -_picked(v.x, v.labels).mean()),
    "mse_loss": Case(lambda v: F.mse_loss(v.x, v.y), lambda v: cp.square(v.x - v.y).mean()),
    "l1_loss": Case(lambda v: F.l1_loss(v.x, v.y), lambda v: cp.abs(v.x - v.y).mean()),
    "smooth_l1_loss": Case(lambda v: F.smooth_l1_loss(v.x, v.y), lambda v: _rest(v.x, v.y)),
    "huber_loss": Case(lambda v: F.huber_loss(v.x, v.y), lambda v: _rest(v.x, v.y)),
    "bce_with_logits": Case(lambda v: F.binary_cross_entropy_with_logits(v.x, v.y), lambda v: _logits(v.x, v.y)),
    "kl_div": Case(lambda v: F.kl_div(v.x, v.y, reduction="batchmean"), lambda v: _divergence(v.x, v.y)),
    "cosine_similarity": Case(lambda v: F.cosine_similarity(v.x, v.y), lambda v: _cosine(v.x, v.y)),
    "normalize": Case(
        lambda v: F.normalize(v.x), lambda v: v.x / cp.maximum(cp.linalg.norm(v.x, axis=1, keepdims=True), 1e-12)
    ),
    "interpolate": Case(lambda v: F.interpolate(v.im, scale_factor=2), lambda v: v.im.repeat(2, 2).repeat(2, 3)),
    "unfold": Case(
        lambda v: F.unfold(v.im, 3), lambda v: windows(v.im, (3, 3), (2, 3)).transpose(0, 1, 4, 5, 2, 3).reshape(4, 72, 100)
    ),
}  # fmt: skip

SHAPES = {
    "view": Case(lambda v: v.x.view(-1), lambda v: v.x.reshape(-1), lambda v: v.g.reshape(N, N)),
    "reshape": Case(lambda v: v.x.reshape(4096), lambda v: v.x.reshape(4096), lambda v: v.g.reshape(N, N)),
    "transpose": Case(lambda v: v.x.transpose(0, 1), lambda v: v.x.T, lambda v: v.g.T),
    "permute": Case(
        lambda v: v.im.permute(0, 2, 3, 1), lambda v: v.im.transpose(0, 2, 3, 1), lambda v: v.g.transpose(0, 3, 1, 2)
    ),
    "unsqueeze": Case(lambda v: v.x.unsqueeze(0), lambda v: cp.expand_dims(v.x, 0), lambda v: v.g.reshape(N, N)),
    "squeeze": Case(lambda v: v.a[:1].squeeze(0), lambda v: cp.squeeze(v.a[:1], 0)),
    "expand": Case(lambda v: v.u.expand(N, N), lambda v: cp.broadcast_to(v.u, (N, N)), lambda v: v.g.sum(0)),
    "flatten": Case(lambda v: v.im.flatten(1), lambda v: v.im.reshape(4, -1), lambda v: v.g.reshape(v.im.shape)),
    "slice": Case(lambda v: v.x[1:5], lambda v: v.x[1:5], lambda v: _zeros(v.x, slice(1, 5), v.g)),
    "slice 2d": Case(lambda v: v.x[:, 2:8], lambda v: v.x[:, 2:8], lambda v: _zeros(v.x, np.s_[:, 2:8], v.g)),
    "select": Case(lambda v: v.x[3], lambda v: v.x[3], lambda v: _zeros(v.x, 3, v.g)),
    "narrow": Case(lambda v: v.x.narrow(0, 1, 5), lambda v: v.x[1:6], lambda v: _zeros(v.x, slice(1, 6), v.g)),
    "chunk": Case(lambda v: v.x.chunk(3, 1), lambda v: cp.split(v.x, (22, 44), 1)),
    "split": Case(lambda v: v.x.split(16), lambda v: cp.split(v.x, 4)),
    "unbind": Case(lambda v: v.a.unbind(0), lambda v: [*v.a]),
    "index rows": Case(lambda v: v.x[v.rows], lambda v: v.x[v.rows]),
    "index_select": Case(lambda v: v.x.index_select(0, v.rows), lambda v: cp.take(v.x, v.rows, 0)),
    "gather": Case(lambda v: v.x.gather(1, v.picks), lambda v: cp.take_along_axis(v.x, v.picks, 1)),
    "embedding": Case(lambda v: F.embedding(v.rows, v.x), lambda v: v.x[v.rows]),
    "one_hot": Case(lambda v: F.one_hot(v.labels, N), lambda v: cp.eye(N, dtype=np.int64)[v.labels]),
    "cat": Case(lambda v: tdt.cat([v.x, v.y]), lambda v: cp.concatenate([v.x, v.y]), lambda v: (v.g[:N], v.g[N:])),
    "stack": Case(lambda v: tdt.stack([v.x, v.y]), lambda v: cp.stack([v.x, v.y]), lambda v: (v.g[0], v.g[1])),
    "contiguous": Case(lambda v: v.x.t().contiguous(), lambda v: cp.ascontiguousarray(v.x.T), lambda v: v.g.T),
    "clone": Case(lambda v: v.x.clone(), lambda v: v.x.copy(), lambda v: v.g),
    "to bfloat16": Case(lambda v: v.x.to(tdt.bfloat16), lambda v: v.x.astype(tdt.bfloat16.np), lambda v: v.g.astype(v.x.dtype)),
    "float": Case(lambda v: v.x.float(), lambda v: v.x.astype(np.float32, copy=False)),
    "detach": Case(lambda v: v.x.detach(), lambda v: v.x.view()),
    "pad": Case(lambda v: F.pad(v.x, (1, 1)), lambda v: cp.pad(v.x, ((0, 0), (1, 1))), lambda v: v.g[:, 1:-1]),
    "roll": Case(lambda v: v.x.roll(1, 0), lambda v: cp.roll(v.x, 1, 0), lambda v: cp.roll(v.g, -1, 0)),
    "flip": Case(lambda v: v.x.flip(0), lambda v: cp.flip(v.x, 0).copy(), lambda v: cp.flip(v.g, 0)),
    "repeat": Case(lambda v: v.x.repeat(2, 1), lambda v: cp.tile(v.x, (2, 1)), lambda v: v.g.reshape(2, N, N).sum(0)),
    "tril": Case(lambda v: v.x.tril(), lambda v: cp.tril(v.x), lambda v: cp.tril(v.g)),
    "triu": Case(lambda v: v.x.triu(), lambda v: cp.triu(v.x), lambda v: cp.triu(v.g)),
}  # fmt: skip

CREATED = {
    "empty": Case(lambda v: tdt.empty(N, N, device="cuda"), lambda v: cp.empty((N, N), np.float32)),
    "zeros": Case(lambda v: tdt.zeros(N, N, device="cuda"), lambda v: cp.zeros((N, N), np.float32)),
    "zeros_like": Case(lambda v: tdt.zeros_like(v.x), lambda v: cp.zeros_like(v.x)),
    "ones": Case(lambda v: tdt.ones(N, N, device="cuda"), lambda v: cp.ones((N, N), np.float32)),
    "full": Case(lambda v: tdt.full((N, N), 1.5, device="cuda"), lambda v: cp.full((N, N), 1.5, np.float32)),
    "arange": Case(lambda v: tdt.arange(N, device="cuda"), lambda v: cp.arange(N)),
    "rand": Case(
        lambda v: tdt.rand(N, N, device="cuda"), lambda v: cp.random.random_sample((N, N)).astype(np.float32)
    ),
    "randn": Case(
        lambda v: tdt.randn(N, N, device="cuda"), lambda v: cp.random.standard_normal((N, N), dtype=np.float32)
    ),
    "randint": Case(lambda v: tdt.randint(0, 9, (N, N), device="cuda"), lambda v: cp.random.randint(0, 9, (N, N))),
    "add_": Case(lambda v: v.z.add_(v.y), lambda v: cp.add(v.z, v.y, out=v.z)),
    "mul_": Case(lambda v: v.z.mul_(2.0), lambda v: cp.multiply(v.z, 2.0, out=v.z)),
    "copy_": Case(lambda v: v.z.copy_(v.y), lambda v: cp.copyto(v.z, v.y)),
    "zero_": Case(lambda v: v.z.zero_(), lambda v: v.z.fill(0)),
    "fill_": Case(lambda v: v.z.fill_(1.0), lambda v: v.z.fill(1.0)),
    "addcdiv_": Case(
        lambda v: v.z.addcdiv_(v.y, v.x, value=0.1), lambda v: cp.add(v.z, 0.1 * v.y / v.x, out=v.z)
    ),
    "masked_fill_": Case(lambda v: v.z.masked_fill_(v.cond, 0.0), lambda v: cp.copyto(v.z, 0, where=v.cond)),
    "set item": Case(lambda v: v.z.__setitem__(slice(1, 5), v.y[1:5]), lambda v: v.z.__setitem__(slice(1, 5), v.y[1:5])),
}  # fmt: skip

CASES = ELEMENTWISE | REDUCTIONS | PRODUCTS | NETWORKS | SHAPES | CREATED
