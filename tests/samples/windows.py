"""Samples of what moves pixels: the shuffles, windows as columns and back."""

import numpy as np

from tests.samples._sample import by_torch, call, samples, x, z

IMAGES_LAST = x(2, 4, 6, 8).transpose(0, 3, 1, 2)
UP = {"split": (2, 2, 2, 2, 4, 6), "order": (0, 1, 4, 2, 5, 3), "joined": (2, 2, 8, 12)}

samples(
    "rearrange",
    lambda a, split, order, joined: a.reshape(split).transpose(order).reshape(joined),
    call(x(2, 8, 4, 6), **UP),
    call(IMAGES_LAST, **UP),
    call(z(3, 4), split=(3, 2, 2), order=(2, 0, 1), joined=(2, 6)),
    call(np.arange(4), split=(2, 2), order=(1, 0), joined=(4,)),
    call(x(0, 4, 2), split=(0, 2, 2, 2), order=(0, 2, 1, 3), joined=(0, 4, 2)),
)
WINDOW = {"kernel": (2, 3), "stride": (2, 1), "padding": (1, 0), "dilation": (1, 2)}
PLAIN = {"kernel": (2, 2), "stride": (1, 1), "padding": (0, 0), "dilation": (1, 1)}


def unfold(torch, a, kernel, stride, padding, dilation):
    return torch.nn.functional.unfold(a, kernel, dilation, padding, stride)


def fold(torch, a, size, kernel, stride, padding, dilation):
    return torch.nn.functional.fold(a, size, kernel, dilation, padding, stride)


samples(
    "im2col",
    by_torch(unfold),
    call(x(2, 3, 5, 7), **WINDOW),
    call(z(1, 2, 3, 3), **PLAIN),
    call(x(1, 2, 3, 3), kernel=(1, 1), stride=(1, 1), padding=(0, 0), dilation=(1, 1)),
    call(x(0, 3, 5, 7), **WINDOW),
)
samples(
    "col2im",
    by_torch(fold),
    call(x(2, 18, 9), size=(5, 7), **WINDOW),
    call(z(1, 8, 4), size=(3, 3), **PLAIN),
    call(x(0, 18, 9), size=(5, 7), **WINDOW),
)

BORDERS = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def pad_border(a, before, after, mode):
    return np.pad(a, list(zip(before, after, strict=True)), BORDERS[mode])


def pad_border_grad(a, size, before, after, mode):
    """Every cell of the result takes what the cells of `a` that repeat it hold."""
    places = pad_border(np.arange(np.prod(size)).reshape(size), before, after, mode)
    result = np.zeros(size, a.dtype)
    np.add.at(result.reshape(-1), places, a)
    return result


samples(
    "pad_border",
    pad_border,
    *(call(x(2, 3, 4, 5), before=(0, 0, 1, 2), after=(0, 0, 3, 1), mode=mode) for mode in BORDERS),
    call(IMAGES_LAST, before=(0, 0, 2, 0), after=(0, 0, 0, 2), mode="reflect"),
    call(z(2, 3), before=(0, 2), after=(0, 2), mode="reflect"),
    call(np.arange(6).reshape(1, 2, 3), before=(0, 0, 4), after=(0, 0, 5), mode="replicate"),
)
samples(
    "pad_border_grad",
    pad_border_grad,
    *(call(x(2, 8, 8), size=(2, 4, 5), before=(0, 1, 2), after=(0, 3, 1), mode=mode) for mode in BORDERS),
    call(
        x(2, 10, 12, 8).transpose(0, 3, 1, 2),
        size=(2, 8, 6, 8),
        before=(0, 0, 2, 2),
        after=(0, 0, 2, 2),
        mode="reflect",
    ),
    call(z(2, 7), size=(2, 3), before=(0, 2), after=(0, 2), mode="circular"),
)
