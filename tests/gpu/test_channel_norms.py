"""Group norm on a GPU, and batch norm of half precision: values of float64, bits in each memory format, launches."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tdt
from tdt._kernels import capture_gpu, norm_last_gpu
from tdt.nn import functional as F
from tests.gpu.test_kernels import EPS, held_to_float64, launched, many_values, numbers

pytestmark = pytest.mark.usefixtures("all_threads")
FORMATS = {False: tdt.contiguous_format, True: tdt.channels_last}
HALVES = [tdt.float16, tdt.bfloat16]
# Shapes and groups: several places and channels a slot, more channels than slots, one channel, one place.
GROUPS = [((2, 6, 5, 7), 3), ((3, 8), 2), ((2, 10, 15, 15), 2), ((1, 1030, 2), 1), ((2, 5, 3), 5), ((40, 4, 2, 3), 2)]


def bits(x: tdt.Tensor) -> np.ndarray:
    return x.detach().cpu().view(tdt.int16 if x.itemsize == 2 else tdt.int32).numpy()


def both_ways(
    norm: Callable[..., tdt.Tensor], x: tdt.Tensor, slope: tdt.Tensor, *weights: tdt.Tensor, last: bool
) -> list[tdt.Tensor]:
    """The result and all gradients, in a memory format."""
    leaves = [
        x.contiguous(memory_format=FORMATS[last]).clone() if x.ndim == 4 else x.clone(),
        *(w.clone() for w in weights),
    ]
    for leaf in leaves:
        leaf.requires_grad_()
    out = norm(*leaves)
    out.backward(slope.contiguous(memory_format=FORMATS[last]) if x.ndim == 4 else slope)
    return [out.detach(), *(leaf.grad for leaf in leaves)]


def held_to_rounded(
    norm: Callable[..., tdt.Tensor], x: np.ndarray, *weights: np.ndarray, dtype: tdt.dtype, last: bool
) -> None:
    """Fails unless results of half precision are those of float64 rounded, and gradients of float32 weights near them."""
    low, slope = tdt.tensor(x).to(dtype), tdt.tensor(np.cos(x)).to(dtype)
    exact = both_ways(norm, low.double(), slope.double(), *(tdt.tensor(w) for w in weights), last=last)
    there = [tdt.tensor(w).float().cuda() for w in weights]
    found = both_ways(norm, low.cuda(), slope.cuda(), *there, last=last)
    assert [t.dtype for t in found] == [dtype] * 2 + [tdt.float32] * len(weights)
    assert all(a.stride() == b.stride() for a, b in zip(found, exact, strict=True))
    for k, (got, want) in enumerate(zip(found, exact, strict=True)):
        within = tdt.finfo(dtype).eps if k < 2 else 200 * EPS
        most = max(1.0, want.abs().max().item())
        np.testing.assert_allclose(
            got.cpu().double().numpy(), want.numpy(), rtol=within, atol=within * most / (16 if k < 2 else 1)
        )


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("shape", "groups"), GROUPS)
def test_group_norm_and_its_gradients_take_one_launch_each(shape: tuple, groups: int, last: bool, counted):
    if last and len(shape) != 4:
        return
    x, w, b = numbers(*shape) * 2 + 1, numbers(shape[1]), numbers(shape[1])

    def norm(x, w=None, b=None):
        return F.group_norm(x.contiguous(memory_format=FORMATS[last]) if last else x, groups, w, b)

    held_to_float64(norm, x, w, b, within=100 * EPS)
    held_to_float64(norm, x, within=100 * EPS)
    for dtype in HALVES if x.size < 1000 else HALVES[1:]:
        held_to_rounded(norm, x, w, b, dtype=dtype, last=last)
    for dtype in (tdt.float32, tdt.bfloat16) if x.size < 1000 else (tdt.bfloat16,):
        here = tdt.tensor(x).to(dtype).cuda()
        here = (here.contiguous(memory_format=FORMATS[last]) if last else here).requires_grad_()
        weight = tdt.tensor(w).to(tdt.float32 if dtype in HALVES else dtype).cuda().requires_grad_()
        for _ in range(3):  # decided on, noted, repeated
            out = []
            assert launched(counted, lambda: out.append(F.group_norm(here, groups, weight, weight))) == ["group_norm"]  # noqa: B023
            g = out[0].detach()
            assert launched(counted, lambda: tdt.autograd.grad(out[0], [here], g)) == ["group_norm_vjp"]  # noqa: B023
        assert out[0].stride() == here.stride()


def test_instance_norm_takes_one_launch_each_way(counted):
    x = numbers(3, 5, 6, 7) + 2
    held_to_float64(lambda x: F.instance_norm(x), x, within=100 * EPS)
    here = tdt.tensor(x).float().cuda()
    assert launched(counted, lambda: F.instance_norm(here)) == ["group_norm"]


@pytest.mark.parametrize("dtype", [tdt.float32, *HALVES])
def test_group_norm_has_the_same_bits_in_each_memory_format(dtype: tdt.dtype, monkeypatch):
    for shape, groups in GROUPS[0], GROUPS[2], GROUPS[5]:
        x, slope = (tdt.tensor(numbers(*shape)).to(dtype).cuda() for _ in range(2))
        w, b = (tdt.tensor(numbers(shape[1])).float().cuda() for _ in range(2))

        def norm(x, w, b, groups=groups):
            return F.group_norm(x, groups, w, b)

        whole = both_ways(norm, x, slope, w, b, last=False)
        monkeypatch.setattr(capture_gpu, "TICKETS", 1)
        for again in (both_ways(norm, x, slope, w, b, last=last) for last in (False, True)):
            assert all(np.array_equal(bits(a), bits(b)) for a, b in zip(whole, again, strict=True))
        monkeypatch.undo()


def test_the_mean_of_a_group_may_be_far_from_zero():
    x = tdt.tensor(numbers(2, 6, 20, 30) * 2 + 300).float()
    _, mean, rstd = tdt.native_group_norm(x.cuda(), None, None, 2, 6, 600, 3, 1e-5)
    groups = x.double().reshape(2, 3, -1)
    np.testing.assert_allclose(mean.cpu().double().numpy(), groups.mean(2).numpy(), rtol=4 * EPS)
    expected = 1 / (groups.var(2, correction=0) + 1e-5).sqrt()
    np.testing.assert_allclose(rstd.cpu().double().numpy(), expected.numpy(), rtol=40 * EPS)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("last", [False, True])
def test_batch_norm_of_half_precision_is_not_converted(dtype: tdt.dtype, last: bool, counted, monkeypatch):
    monkeypatch.setattr(norm_last_gpu, "FEWEST", 5)
    long = [many_values() - 299] if dtype is tdt.bfloat16 else []
    for x in (numbers(4, 5, 6, 7) * 2 + 1, *long):
        w, b = numbers(5), numbers(5)
        held_to_rounded(
            lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), x, w, b, dtype=dtype, last=last
        )
        names = ["batch_norm"]
        if x.size > 1000:
            names = [f"batch_{name}{'_last' * last}" for name in ("statistics", "normalised")]
        here = tdt.tensor(x).to(dtype).cuda().contiguous(memory_format=FORMATS[last]).requires_grad_()
        layer, expected = tdt.nn.BatchNorm2d(5).cuda(), tdt.nn.BatchNorm2d(5).double()
        for casts in (True, False) if x.size > 1000 else (True, True, True, False, False, False):
            with counted() as calls, tdt.autocast("cuda", dtype=dtype, enabled=casts):
                out = layer(here)
            assert [name for _, name, _ in calls] == names
            expected(here.detach().cpu().double())
        assert out.dtype is dtype
        assert out.stride() == here.stride()
        for found, right in zip(layer.buffers(), expected.buffers(), strict=True):
            np.testing.assert_allclose(
                found.cpu().double().numpy(), right.double().numpy(), rtol=40 * EPS, atol=40 * EPS
            )
        names = (
            ["batch_norm_vjp"]
            if len(names) == 1
            else [f"batch_norm_{name}{'_last' * last}" for name in ("sums", "slopes")]
        )
        g = out.detach()
        assert launched(counted, lambda: tdt.autograd.grad(out, [here], g)) == names  # noqa: B023


def test_batch_norm_of_half_precision_has_the_same_bits_in_each_memory_format(monkeypatch):
    monkeypatch.setattr(norm_last_gpu, "FEWEST", 5)
    x, slope, w = (tdt.tensor(a).bfloat16().cuda() for a in (many_values(), np.cos(many_values()), numbers(5)))

    def norm(x, w):
        return F.batch_norm(x, None, None, w, w, training=True)

    found = [both_ways(norm, x, slope, w.float(), last=last) for last in (False, True)]
    assert all(np.array_equal(bits(a), bits(b)) for a, b in zip(*found, strict=True))


def test_second_derivatives_of_norms_of_half_precision():
    for norm in (lambda x, w: F.group_norm(x, 2, w), lambda x, w: F.batch_norm(x, None, None, w, training=True)):
        results = []
        x, w = tdt.tensor(numbers(3, 4, 3, 2)).bfloat16(), tdt.tensor(numbers(4)).bfloat16()
        for device, dtype in (("cuda", tdt.bfloat16), ("cpu", tdt.float64)):
            leaves = [
                x.to(device, dtype).requires_grad_(),
                w.to(device, tdt.float32 if device == "cuda" else dtype).requires_grad_(),
            ]
            (grad,) = tdt.autograd.grad(norm(*leaves).sin().sum(), [leaves[0]], create_graph=True)
            results.append([t.cpu().double() for t in tdt.autograd.grad(grad.cos().sum(), leaves)])
        for found, exact in zip(*results, strict=True):
            assert (found - exact).abs().max().item() <= 0.05 * max(1.0, exact.abs().max().item())
