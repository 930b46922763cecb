"""Attention is PyTorch's, with every kind of mask, and never holds all weights of long sequences."""

import tracemalloc

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch
from tests.nn._compare import agree, agree_error, numbers

torch = require_torch()

TOO_FEW = np.tri(4, 5, -1, dtype=bool)  # the first query sees nothing
SHAPES = [((2, 3, 4, 8), (2, 3, 5, 8), (2, 3, 5, 8)), ((3, 4, 8), (3, 5, 8), (3, 5, 2)), ((4, 8), (5, 8), (5, 8)),
          ((2, 3, 4, 8), (1, 3, 5, 8), (5, 8)), ((1, 4, 1), (2, 5, 1), (1, 5, 3))]  # fmt: skip


def attend(lib, *tensors, **how):
    return lib.nn.functional.scaled_dot_product_attention(*tensors, **how)


@pytest.mark.parametrize("how", [{}, {"is_causal": True}, {"scale": 0.3}, {"scale": -1.0}], ids=str)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_attention_is_pytorchs(shapes, how):
    for dtype in ("float32", "float64"):
        q, k, v = (numbers(*shape, dtype=dtype, seed=i) for i, shape in enumerate(shapes))
        agree(lambda lib, *t: attend(lib, *t, **how), q, k, v)


@pytest.mark.parametrize("shapes", SHAPES[:4], ids=str)
def test_masks_of_bools_and_of_numbers_are_pytorchs(shapes):
    q, k, v = (numbers(*shape, seed=i) for i, shape in enumerate(shapes))
    for mask in (TOO_FEW, TOO_FEW[:1], TOO_FEW[1:2], np.tri(4, 5, dtype=bool)):
        agree(lambda lib, *t: attend(lib, *t[:3], attn_mask=t[3]), q, k, v, mask)
    # A float mask has a gradient of its own, summed over what it was broadcast to.
    agree(lambda lib, *t: attend(lib, *t[:3], attn_mask=t[3]), q, k, v, numbers(4, 5))
    agree(lambda lib, *t: attend(lib, *t[:3], attn_mask=t[3]), q, k, v, np.where(TOO_FEW, 0, -np.inf).astype("float32"))


def test_a_causal_mask_joins_another_one_as_in_pytorch():
    q, k, v = (numbers(2, 3, n, 8, seed=n) for n in (4, 5, 5))
    agree(lambda lib, *t: attend(lib, *t, attn_mask=lib.tensor(TOO_FEW.tolist()), is_causal=True), q, k, v)
    agree_error(lambda lib: attend(lib, *[lib.ones(4, 5)] * 3, attn_mask=lib.ones(4, 4), is_causal=True))


def test_shared_heads_are_pytorchs():
    q, k, v = numbers(2, 6, 4, 8), numbers(2, 3, 5, 8), numbers(2, 2, 5, 8)
    agree(lambda lib, *t: attend(lib, *t, enable_gqa=True), q, k, v)
    agree_error(lambda lib: attend(lib, lib.ones(5, 4, 8), lib.ones(3, 4, 8), lib.ones(3, 4, 8), enable_gqa=True),
                "Number of heads in key and value must divide the number of heads in")  # fmt: skip


@pytest.mark.parametrize("p", [0.25, 0.5, 1.0])
def test_dropped_weights_are_pytorchs_for_a_seed(p):
    def run(lib, q, k, v):
        lib.manual_seed(5)
        return attend(lib, q, k, v, dropout_p=p, is_causal=True), lib.rand(3)

    agree(run, numbers(2, 3, 7, 4), numbers(2, 3, 7, 4, seed=1), numbers(2, 3, 7, 4, seed=2))


@pytest.mark.parametrize("size", [(0, 5), (4, 0), (1, 1)])
def test_empty_and_single_sequences_are_pytorchs(size):
    agree(lambda lib, *t: attend(lib, *t), *(numbers(2, 3, n, 4, seed=n) for n in (size[0], size[1], size[1])))


def test_the_result_has_pytorchs_strides():
    def run(lib, x):
        q, k, v = (t.view(2, 5, 3, 4).transpose(1, 2) for t in x.split(12, 2))
        y = attend(lib, q, k, v, is_causal=True)
        strides.append(
            [y.stride(), attend(lib, q, k, v, dropout_p=0.5).stride(), attend(lib, q[0], k[0], v[0]).stride()]
        )
        return y.transpose(1, 2).view(2, 5, 12)

    strides: list = []
    agree(run, numbers(2, 5, 36))
    assert strides[0] == strides[1]


def test_nan_and_infinity_stay_in_their_rows():
    q, k, v = (numbers(1, 2, 4, 8, seed=i) for i in range(3))
    plain = attend(tdt, *map(tdt.from_numpy, (q, k, v))).numpy()
    for bad in (np.nan, np.inf):
        broken = q.copy()
        broken[0, 0, 1, 2] = bad
        found = attend(tdt, tdt.from_numpy(broken), tdt.from_numpy(k), tdt.from_numpy(v)).numpy()
        assert np.isnan(found[0, 0, 1]).all()
        found[0, 0, 1] = plain[0, 0, 1]
        np.testing.assert_array_equal(found, plain)


@pytest.mark.parametrize("kernels", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_long_sequences_never_hold_all_their_weights(kernels, causal):
    length, width = 4096, 16
    rng = np.random.default_rng(0)
    q, k, v = (tdt.from_numpy(rng.standard_normal((1, 1, length, width), np.float32)) for _ in range(3))
    for t in (q, k, v):
        t.requires_grad_()
    with tdt.backends.kernels(kernels):
        attend(tdt, q, k, v, is_causal=causal).sum().backward()  # what is loaded once is not counted
        tracemalloc.start()
        attend(tdt, q, k, v, is_causal=causal).sum().backward()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < length * length * 4 / 8, f"{peak >> 20} MiB, where all weights are {length * length * 4 >> 20}"


@pytest.mark.parametrize("run", [
    lambda lib: attend(lib, lib.ones(2, 2), lib.ones(2, 2).double(), lib.ones(2, 2)),
    lambda lib: attend(lib, lib.ones(2), lib.ones(2, 2), lib.ones(2, 2)),
    lambda lib: attend(lib, lib.ones(2, 2), lib.ones(2, 2), lib.ones(2, 2), attn_mask=lib.ones(2, 2).double()),
    lambda lib: attend(lib, lib.ones(2, 2), lib.ones(2, 2), lib.ones(2, 2), dropout_p=1.5),
])  # fmt: skip
def test_what_pytorch_refuses_is_refused_with_its_message(run):
    agree_error(run)


def test_sizes_that_do_not_fit_are_named():
    for shapes in (((4, 8), (5, 7), (5, 8)), ((4, 8), (5, 8), (6, 8))):
        agree_error(lambda lib, shapes=shapes: attend(lib, *(lib.ones(*s) for s in shapes)),
                    "scaled_dot_product_attention: query and key must have the same last size")  # fmt: skip
    with pytest.raises(RuntimeError, match="size of tensor a .4. must match the size of tensor b .3."):
        attend(tdt, *[tdt.ones(4, 4)] * 3, attn_mask=tdt.ones(3, 4))
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        attend(tdt, *[tdt.ones(4, 4)] * 3, attn_mask=tdt.ones(2, 4, 4))


def test_backends_have_pytorchs_names_and_change_nothing():
    ours, theirs = tdt.nn.attention, torch.nn.attention
    named = {b.name: int(b) for b in ours.SDPBackend}
    assert named == {name: int(b) for name, b in theirs.SDPBackend.__members__.items()}
    q = tdt.from_numpy(numbers(1, 2, 3, 4))
    with ours.sdpa_kernel([ours.SDPBackend.MATH, ours.SDPBackend.FLASH_ATTENTION], set_priority=True):
        inside = attend(tdt, q, q, q)
    assert (inside == attend(tdt, q, q, q)).all()
    agree_error(
        lambda lib: lib.nn.attention.sdpa_kernel("MATH").__enter__(), "Backend must be an instance of SDPBackend"
    )


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    "mask",
    [None, TOO_FEW, np.tri(4, 5, dtype=bool)[:, :1], np.tri(4, 5, dtype="float32")],
    ids=["", "few", "one key", "numbers"],
)
def test_later_calls_of_a_shape_have_the_values_of_the_first(kind, turned, mask):
    results = []
    for _ in range(4):
        for recorded in (False, True):
            tensors = []
            for seed, places in enumerate((4, 5, 5)):
                x = tdt.from_numpy(numbers(2, places, 3, 8, seed=seed).astype("float32")).to(getattr(tdt, kind))
                x = x.transpose(1, 2) if turned else x.transpose(1, 2).contiguous()
                tensors.append(x.requires_grad_(recorded))
            own = (
                None if mask is None else tdt.from_numpy(mask).to(tensors[0].dtype if mask.dtype != bool else tdt.bool)
            )
            y = attend(tdt, *tensors, attn_mask=own)
            if recorded:
                (y * y).sum().backward()
                results.append([t.grad.float().numpy() for t in tensors])
            results.append([y.detach().float().numpy()])
    gradients, values = results[1::3], results[0::3] + results[2::3]
    assert all((a == b).all() for each in values[1:] for a, b in zip(values[0], each, strict=True))
    assert all((a == b).all() for each in gradients[1:] for a, b in zip(gradients[0], each, strict=True))
    expected = attend(torch, *[torch.from_numpy(t.detach().float().numpy().copy()) for t in tensors],
                      attn_mask=None if mask is None else torch.from_numpy(mask))  # fmt: skip
    np.testing.assert_allclose(values[0][0], expected.numpy(), atol=1e-5 if kind == "float32" else 2e-2)
