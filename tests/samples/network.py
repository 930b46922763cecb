"""Samples of the layers' ops: convolution, pooling, normalisation, linear, embedding, losses, dropout."""

import numpy as np
import scipy.special as sp

from tests.oracles import windows
from tests.samples._sample import bools, by_torch, call, distinct, ints, samples, x, z

PLAIN = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1}
MIXED = {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2), "groups": 2}
CHANNELS_LAST = x(2, 5, 6, 4).transpose(0, 3, 1, 2)

samples(
    "conv",
    windows.conv,
    call(x(2, 3, 5, 4), x(4, 3, 3, 2), x(4), **PLAIN),
    call(x(2, 4, 5, 6), x(6, 2, 3, 2), None, **MIXED),
    call(x(2, 2, 7), x(3, 2, 3), x(3), stride=(2,), padding=(1,), dilation=(2,), groups=1),
    call(CHANNELS_LAST, x(4, 2, 3, 2), x(4), **MIXED),
    call(z(1, 2, 4, 4), z(2, 2, 2, 2), z(2), **PLAIN),
    call(x(1, 1, 3, 4, 3), x(2, 1, 2, 2, 2), x(2), stride=(1, 2, 1), padding=(0, 1, 0), dilation=(1, 1, 1), groups=1),
    call(x(0, 3, 5, 4), x(4, 3, 3, 2), x(4), **PLAIN),
)
samples(
    "conv_input_grad",
    windows.conv_input_grad,
    call(x(2, 4, 3, 3), x(4, 3, 3, 2), None, size=(5, 4), **PLAIN),
    call(x(2, 6, 3, 8), x(6, 2, 3, 2), x(4), size=(5, 6), **MIXED),
    call(z(1, 2, 3, 3), z(2, 2, 2, 2), z(2), size=(4, 4), **PLAIN),
)
samples(
    "conv_weight_grad",
    windows.conv_weight_grad,
    call(x(2, 4, 3, 3), x(2, 3, 5, 4), kernel=(3, 2), **PLAIN),
    call(x(2, 6, 3, 8), x(2, 4, 5, 6), kernel=(3, 2), **MIXED),
    call(z(1, 2, 2, 2), z(1, 2, 4, 3), kernel=(3, 2), **PLAIN),
)

POOL = {"kernel": (2, 2), "stride": (2, 2), "padding": (0, 0), "dilation": (1, 1), "ceil_mode": False}
DILATED = {"kernel": (3, 2), "stride": (2, 1), "padding": (1, 1), "dilation": (1, 2), "ceil_mode": True}
PLANE = distinct(2, 3, 5, 6)
samples(
    "max_pool",
    lambda a, **how: windows.max_pool(a, **how)[0],
    call(PLANE, **POOL),
    call(PLANE, **DILATED),
    call(np.ascontiguousarray(PLANE.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2), **DILATED),
)
samples("max_pool_with_indices", windows.max_pool, call(PLANE, **POOL), call(PLANE, **DILATED))
AVERAGE = {"kernel": (3, 2), "stride": (2, 1), "padding": (1, 1), "ceil_mode": True}
samples(
    "avg_pool",
    windows.avg_pool,
    call(PLANE, include_pad=True, divisor=None, **AVERAGE),
    call(PLANE, include_pad=False, divisor=None, **AVERAGE),
    call(PLANE, include_pad=True, divisor=5, **AVERAGE),
)
samples(
    "avg_pool_grad", windows.avg_pool_grad, call(x(2, 3, 3, 7), size=(5, 6), include_pad=False, divisor=None, **AVERAGE)
)
CELLS = (
    np.array([[0, 1], [1, 2], [3, 4]])[None, None],
    np.random.default_rng(0).integers(0, 6, (2, 3, 4, 3)),
)
samples("max_of_cells", windows.max_of_cells, call(PLANE, *CELLS), call(PLANE[..., 0], CELLS[0]))
samples("adaptive_max", windows.adaptive_max, call(PLANE, windows=(3, 4)), call(PLANE[..., 0], windows=(3,)))
samples("pool_scatter", windows.scatter, call(x(2, 3, 2, 2), ints(2, 3, 2, 2, low=0, high=12), size=(3, 4)))
samples("pool_gather", windows.gather, call(x(2, 3, 3, 4), ints(2, 3, 2, 2, low=0, high=12)))


def standardised(a, axes, eps):
    mean, var = a.mean(axes), a.var(axes)
    keep = [1 if d in axes else n for d, n in enumerate(a.shape)]
    rstd = 1 / np.sqrt(var + eps)
    return (a - mean.reshape(keep)) * rstd.reshape(keep), mean, rstd


def batch_norm(a, w, b, eps):
    out, mean, rstd = standardised(a, (0, *range(2, a.ndim)), eps)
    shape = (-1, *(1,) * (a.ndim - 2))
    out = out if w is None else out * w.reshape(shape)
    var = a.var((0, *range(2, a.ndim)), ddof=1)
    return out if b is None else out + b.reshape(shape), mean, rstd, var


def batch_norm_eval(a, mean, var, w, b, eps):
    rows = (-1, *(1,) * (a.ndim - 2))
    out = (a - mean.reshape(rows)) / np.sqrt(var.reshape(rows) + eps)
    return out * (1 if w is None else w.reshape(rows)) + (0 if b is None else b.reshape(rows))


samples(
    "batch_norm_eval",
    batch_norm_eval,
    call(x(4, 3), x(3), x(3) ** 2, x(3), x(3, seed=1), constant=(1, 2), eps=1e-5),
    call(x(2, 3, 2, 2), x(3), x(3) ** 2, None, None, constant=(1, 2), eps=1e-3),
    call(CHANNELS_LAST, x(4), x(4) ** 2, x(4, seed=1), None, constant=(1, 2), eps=1e-5),
)
samples(
    "moving_average",
    lambda running, value, momentum: running * (1 - momentum) + value * momentum,
    call(x(3), x(3, seed=1), momentum=0.1),
)
samples(
    "batch_norm",
    batch_norm,
    call(x(4, 3), x(3), x(3, seed=1), eps=1e-5),
    call(x(2, 3, 2, 2), None, None, eps=1e-3),
    call(CHANNELS_LAST, x(4), x(4), eps=1e-5),
)


def group_norm(a, w, b, groups, eps):
    grouped = a.reshape(a.shape[0], groups, -1)
    out, mean, rstd = standardised(grouped, (2,), eps)
    shape = (-1, *(1,) * (a.ndim - 2))
    out = out.reshape(a.shape) * (1 if w is None else w.reshape(shape))
    return out + (0 if b is None else b.reshape(shape)), mean, rstd


samples(
    "group_norm",
    group_norm,
    call(x(2, 4), None, x(4, seed=1), groups=2, eps=1e-5),
    call(x(2, 4, 3), x(4, seed=1), None, groups=4, eps=1e-3),
    call(CHANNELS_LAST, x(4), x(4, seed=1), groups=2, eps=1e-5),
)


def layer_norm(a, w, b, dims, eps, centred=True):
    """Over the last `dims` dimensions; the statistics keep them with size 1."""
    axes = tuple(range(a.ndim - dims, a.ndim))
    if not centred:
        rstd = 1 / np.sqrt((a * a).mean(axes, keepdims=True) + eps)
        return a * rstd * (1 if w is None else w), np.zeros_like(rstd), rstd
    out = standardised(a, axes, eps)[0] * (1 if w is None else w) + (0 if b is None else b)
    return out, a.mean(axes, keepdims=True), 1 / np.sqrt(a.var(axes, keepdims=True) + eps)


samples(
    "layer_norm",
    layer_norm,
    call(x(3, 4), None, None, dims=1, eps=1e-5),
    call(x(2, 3, 4), x(3, 4, seed=1), None, dims=2, eps=1e-3),
    call(x(2, 3, 4), x(4, seed=1), x(4, seed=2), dims=1, eps=1e-3),
    call(x(5), x(5, seed=1), x(5, seed=2), dims=1, eps=1e-3),
    call(x(2, 3, 4), x(4, seed=1), None, dims=1, eps=1e-3, centred=False),
)
samples(
    "linear",
    lambda a, w, b: a @ w.T + (0 if b is None else b),
    call(x(4, 3), x(2, 3), x(2)),
    call(x(2, 4, 3), x(2, 3), None),
    call(x(3), x(2, 3), x(2)),
    call(z(4, 3), z(2, 3), z(2)),
    call(x(0, 3), x(2, 3), x(2)),
)


def attention(q, k, v, mask, keep, causal, scale, dropped):
    scores = scale * np.einsum("...le,...se->...ls", q, k) + (0 if mask is None else mask)
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    weights = np.exp(scores)
    weights /= np.maximum(weights.sum(-1, keepdims=True), 1e-300)
    return (weights if keep is None else weights * keep / (1 - dropped)) @ v


ATTENDED = np.array([[True, False, True], [False, False, False], [True, True, True]])
HEADS = x(2, 4, 2, 3).transpose(0, 2, 1, 3)
samples(
    "attention",
    attention,
    call(x(2, 3, 4), x(2, 5, 4), x(2, 5, 2), None, None, causal=False, scale=0.5, dropped=0.0),
    call(x(3, 4), x(3, 4), x(3, 2), x(3, 3), bools(3, 3), causal=True, scale=0.5, dropped=0.25),
    call(x(1, 3, 4), x(1, 3, 4), x(1, 3, 4), np.where(ATTENDED, 0, -np.inf)[None], None, causal=False, scale=-0.5, dropped=0.0,
         grad=False),
    call(HEADS, HEADS + 1, HEADS + 2, None, None, causal=True, scale=0.7, dropped=0.0),
    call(x(5, 3), x(2, 3), x(2, 3), x(5, 2), bools(5, 2), causal=True, scale=1.0, dropped=0.5),
    call(x(2, 3), x(0, 3), x(0, 4), None, None, causal=False, scale=1.0, dropped=0.0),
    call(x(2, 0, 3), x(2, 4, 3), x(2, 4, 1), None, None, causal=True, scale=1.0, dropped=0.0),
)  # fmt: skip

EMBEDDING = {"padding_idx": None, "by_frequency": False, "sparse": False}


def embedding_grad(y, indices, rows, padding_idx, by_frequency):
    grad = np.zeros((rows, *y.shape[indices.ndim :]), y.dtype)
    for where in np.ndindex(*indices.shape):
        row = indices[where]
        grad[row] += 0 if row == padding_idx else y[where] / ((indices == row).sum() if by_frequency else 1)
    return grad


samples(
    "embedding",
    lambda w, i, **how: w[i],
    call(x(5, 2), ints(2, 3, low=0, high=5), **EMBEDDING),
    call(x(5, 2), ints(4, low=0, high=3), **EMBEDDING | {"padding_idx": 1, "by_frequency": True}, grad=False),
)
samples(
    "embedding_grad",
    embedding_grad,
    call(x(2, 3, 4), ints(2, 3, low=0, high=4), rows=5, padding_idx=None, by_frequency=False),
    call(x(6, 2), ints(6, low=0, high=3), rows=3, padding_idx=1, by_frequency=True),
    call(z(2, 3), ints(2, low=0, high=4), rows=4, padding_idx=None, by_frequency=False),
)


samples(
    "equal_bags",
    lambda w, indices, mean, **how: w[indices].mean(1) if mean else w[indices].sum(1),
    call(x(5, 3), ints(2, 3, low=0, high=4), mean=True, by_frequency=False, sparse=False),
    call(x(4, 20), ints(3, 2, low=0, high=4), mean=False, by_frequency=False, sparse=False),
)


def nll(logp, target, weight, reduction, ignore_index):
    """-weight[t] · logp[t], element by element; the mean is weighted."""
    w = np.ones(logp.shape[1]) if weight is None else weight
    losses, weights = np.zeros(target.shape), np.zeros(target.shape)
    for where in np.ndindex(*target.shape):
        t = target[where]
        if t != ignore_index:
            weights[where] = w[t]
            losses[where] = -w[t] * logp[(where[0], t, *where[1:])]
    return {"none": losses, "sum": losses.sum(), "mean": losses.sum() / weights.sum()}[reduction]


def cross_entropy(a, target, weight, reduction, ignore_index):
    return nll(sp.log_softmax(a, axis=1), target, weight, reduction, ignore_index)


def probability_loss(a, t, dim, reduction):
    losses = -(sp.log_softmax(a, axis=dim) * t).sum(dim)
    return {"none": losses, "sum": losses.sum(), "mean": losses.mean()}[reduction]


samples(
    "probability_loss",
    probability_loss,
    call(x(4, 3), x(4, 3, seed=1), dim=1, reduction="mean"),
    call(x(3), x(3, seed=1), dim=0, reduction="sum"),
    call(x(2, 3, 2), x(2, 3, 2, seed=1), dim=1, reduction="none"),
)
for _name, _oracle in (("nll_loss", nll), ("cross_entropy", cross_entropy)):
    samples(
        _name,
        _oracle,
        call(x(4, 3), ints(4, low=0, high=3), None, reduction="mean", ignore_index=-100),
        call(x(4, 3), ints(4, low=0, high=3), x(3, low=0.5, high=2.0), reduction="mean", ignore_index=1, constant=(2,)),
        call(x(4, 3), ints(4, low=0, high=3), None, reduction="none", ignore_index=-100),
        call(x(2, 3, 2, 2), ints(2, 2, 2, low=0, high=3), None, reduction="sum", ignore_index=-100),
    )


def linear_cross_entropy(a, w, b, target, weight, ignore_index, chunk):
    return cross_entropy(a @ w.T + (0 if b is None else b), target, weight, "none", ignore_index)


samples(
    "linear_cross_entropy",
    linear_cross_entropy,
    call(x(5, 3), x(4, 3), x(4), ints(5, low=0, high=4), None, ignore_index=-100, chunk=2),
    call(x(5, 3), x(4, 3), None, ints(5, low=0, high=4), x(4, low=0.5, high=2.0), ignore_index=1, chunk=5, grad=False),
)


def multi_margin(a, target, weight, p, margin, reduction):
    rows = np.arange(len(a))
    excess = np.maximum(margin - a[rows, target][:, None] + a, 0) ** p
    excess[rows, target] = 0
    losses = excess.mean(1) * (1 if weight is None else weight[target])
    return losses if reduction == "none" else getattr(losses, reduction)()


samples(
    "multi_margin_loss",
    multi_margin,
    call(x(4, 3), ints(4, low=0, high=3), None, p=1, margin=1.0, reduction="mean"),
    call(x(4, 3), ints(4, low=0, high=3), x(3, low=0.5, high=2.0), p=2, margin=0.5, reduction="none", constant=(2,)),
    call(x(4, 3), ints(4, low=0, high=3), None, p=2, margin=1.0, reduction="sum"),
)

samples(
    "ctc_loss",
    by_torch(lambda torch, a, labels, frames, lengths, blank: torch.nn.functional.ctc_loss(
        a, labels, frames, lengths, blank, "none")),
    call(x(5, 2, 3), np.array([[1, 1], [2, 0]]), np.array([5, 4]), np.array([2, 1]), blank=0),
    call(x(4, 1, 3), np.array([[1, 0, 1]]), np.array([4]), np.array([3]), blank=2),
    constrain=lambda a: a.log_softmax(2),
)  # fmt: skip

samples(
    "grid_sampler_2d",
    by_torch(lambda torch, a, grid, mode, padding, align: torch.nn.functional.grid_sample(a, grid, mode, padding, align)),
    *(call(x(2, 3, 4, 5), x(2, 3, 2, 2, seed=1, low=-1.4, high=1.4), mode="bilinear", padding=padding, align=align)
      for padding in ("zeros", "border", "reflection") for align in (False, True)),
    call(x(2, 3, 4, 5), x(2, 3, 2, 2, seed=1, low=-1.4, high=1.4), mode="nearest", padding="zeros", align=False),
)  # fmt: skip

REDUCED = {"mean": np.mean, "sum": np.sum, "none": np.asarray}


def huber_loss(a, b, delta, reduction):
    d = np.abs(a - b)
    return REDUCED[reduction](np.where(d < delta, d * d / 2, delta * (d - delta / 2)))


samples(
    "mse_loss",
    lambda a, b, reduction: REDUCED[reduction]((a - b) ** 2),
    *(call(x(2, 3), x(2, 3, seed=1), reduction=r) for r in REDUCED),
)
samples(
    "huber_loss",
    huber_loss,
    *(call(x(2, 3), x(2, 3, seed=1), delta=1.25, reduction=r) for r in ("none", "mean", "sum")),
    elementwise=True,
)
PAIR_LOSSES = {
    "absolute_loss": lambda a, y: np.abs(a - y),
    "soft_margin_loss": lambda a, y: np.logaddexp(0, -y * a),
    "logits_loss": lambda a, y: -(y * sp.log_expit(a) + (1 - y) * sp.log_expit(-a)),
    "poisson_loss": lambda a, y: np.exp(a) - y * a,
    "divergence": lambda a, y: sp.xlogy(y, y) - y * a,
    "divergence_of_logs": lambda a, y: np.exp(y) * (y - a),
}
for name, losses in PAIR_LOSSES.items():
    samples(
        name,
        lambda a, y, reduction, losses=losses: REDUCED[reduction](losses(a, y)),
        *(call(x(2, 3), x(2, 3, seed=1, low=0.1), reduction=r) for r in REDUCED),
        call(x(2, 3), x(3, seed=1, low=0.1), reduction="mean"),
        elementwise=True,
    )
samples(
    "binary_cross_entropy_with_logits",
    lambda a, y: -(y * sp.log_expit(a) + (1 - y) * sp.log_expit(-a)),
    call(x(2, 3), x(2, 3, seed=1)),
    call(x(2, 3, low=-800.0, high=800.0), x(2, 3, seed=1, low=0.0, high=1.0), grad=False),
    elementwise=True,
)
samples(
    "binary_cross_entropy",
    lambda a, y: -(y * np.log(a) + (1 - y) * np.log1p(-a)),
    call(x(2, 3, low=0.1, high=0.9), x(2, 3, low=0.0, high=1.0, seed=1)),
    elementwise=True,
)

samples(
    "alpha_noise",
    None,
    call(x(3, 4), p=0.5, by_channel=False, generator=None),
    call(x(3, 4, 2), p=0.3, by_channel=True, generator=None),
    why_no_oracle="random: tests/nn compare alpha dropout with PyTorch's bit by bit",
)
samples(
    "dropout",
    None,
    call(x(3, 4), p=0.5, generator=None),
    call(x(3, 4), p=0.0, generator=None),
    call(x(3, 4, 2), p=0.3, generator=None),
    why_no_oracle="random: tests/nn compare its mask with PyTorch's bit by bit",
)


def over_steps(x, states, sizes, reverse, step):
    """Every h of a packed batch, and the last states: a sample's steps one by one."""
    lead, x = x.shape[:-1], x.reshape(-1, x.shape[-1])
    starts, outs = np.cumsum([0, *sizes]), np.empty((len(x), states[0].shape[1]))
    states = [s.copy() for s in states]
    for n in range(sizes[0]):
        rows = [start + n for start, size in zip(starts, sizes, strict=False) if n < size]
        for row in rows[::-1] if reverse else rows:
            for s, new in zip(states, step(x[row], *[s[n] for s in states]), strict=True):
                s[n] = new
            outs[row] = states[0][n]
    return (outs.reshape(*lead, -1), *states)


def lstm(a, h, c, w_ih, w_hh, b_ih, b_hh, w_hr, sizes, reverse):
    """Hochreiter and Schmidhuber, 1997, with the gates in the order input, forget, cell, output."""

    def step(x, h, c):
        i, f, g, o = np.split(w_ih @ x + w_hh @ h + (0 if b_ih is None else b_ih + b_hh), 4)
        c = sp.expit(f) * c + sp.expit(i) * np.tanh(g)
        y = sp.expit(o) * np.tanh(c)
        return y if w_hr is None else w_hr @ y, c

    return over_steps(a, (h, c), sizes, reverse, step)


def gru(a, h, w_ih, w_hh, b_ih, b_hh, sizes, reverse):
    """Cho et al., 2014, with the gates in the order reset, update, new."""

    def step(x, h):
        (r, z, n), (hr, hz, hn) = (
            np.split(w @ v + (0 if b is None else b), 3) for w, v, b in ((w_ih, x, b_ih), (w_hh, h, b_hh))
        )
        n = np.tanh(n + sp.expit(r + hr) * hn)
        z = sp.expit(z + hz)
        return ((1 - z) * n + z * h,)

    return over_steps(a, (h,), sizes, reverse, step)


def rnn(a, h, w_ih, w_hh, b_ih, b_hh, relu, sizes, reverse):
    """Elman, 1990."""

    def step(x, h):
        z = w_ih @ x + w_hh @ h + (0 if b_ih is None else b_ih) + (0 if b_hh is None else b_hh)
        return (np.maximum(z, 0) if relu else np.tanh(z),)

    return over_steps(a, (h,), sizes, reverse, step)


def recurrent(gates, states=1, **attributes):
    """Padded and packed, to and fro, with and without biases."""
    h, first, second = x(2, 2), x(gates * 2, 2), x(gates * 2, 2, seed=1)
    yield (x(3, 2, 2), h, *[x(2, 2, seed=1)] * (states - 1), first, second, x(gates * 2), x(gates * 2, seed=1)), {
        "sizes": (2, 2, 2), "reverse": False, **attributes}  # fmt: skip
    yield (x(3, 3), h, *[x(2, 2, seed=1)] * (states - 1), x(gates * 2, 3), second, None, None), {
        "sizes": (2, 1), "reverse": True, **attributes}  # fmt: skip


samples(
    "lstm_sequence",
    lstm,
    *(call(*operands, None, **attributes) for operands, attributes in recurrent(4, 2)),
    call(x(3, 2), x(2, 1), x(2, 2, seed=1), x(8, 2), x(8, 1), x(8), x(8, seed=1), x(1, 2), sizes=(2, 1), reverse=False),
)
samples("gru_sequence", gru, *(call(*operands, **attributes) for operands, attributes in recurrent(3)))
samples(
    "rnn_sequence",
    rnn,
    *(call(*operands, **attributes) for relu in (False, True) for operands, attributes in recurrent(1, relu=relu)),
)
