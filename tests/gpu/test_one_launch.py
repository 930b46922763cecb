"""Ops that sort, move, select, reduce, resample or draw in one launch on a GPU: values, layouts, errors and bits of the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tdt
from tdt import _random
from tdt._kernels import _gpu_conditions, scan_gpu
from tdt._random._philox import Philox
from tdt._random.continuous import _normal_blocks
from tdt.nn import functional as F
from tests.gpu.test_kernels import numbers

pytestmark = pytest.mark.usefixtures("all_threads")

DTYPES = [tdt.float32, tdt.float64, tdt.bfloat16, tdt.int64, tdt.int32, tdt.int8, tdt.uint8, tdt.bool]
SHAPES = [((7,), 0), ((5, 33), 1), ((70, 5), 0), ((2, 41, 3), 1), ((2, 1), 1)]


def with_ties(shape: tuple, dtype: tdt.dtype) -> tdt.Tensor:
    return tdt.tensor(np.round(numbers(*shape) * 3)).abs().to(dtype) if dtype in (tdt.uint8, tdt.bool) else tdt.tensor(
        np.round(numbers(*shape) * 3)
    ).to(dtype)  # fmt: skip


def same(found: Any, right: Any) -> None:
    """Fails unless tensors have the CPU's values, dtypes, shapes and strides."""
    for got, want in zip(*[[*each] if isinstance(each, tuple) else [each] for each in (found, right)], strict=True):
        assert (got.dtype, got.shape, got.stride()) == (want.dtype, want.shape, want.stride())
        np.testing.assert_array_equal(got.detach().cpu().double().numpy(), want.detach().double().numpy())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_sorting(shape: tuple, dim: int, dtype: tdt.dtype):
    x = with_ties(shape, dtype)
    for here in (x, x.mT.contiguous().mT) if x.ndim > 1 else (x,):
        there = here.cuda()
        for descending in (False, True):
            same(there.sort(dim, descending), here.sort(dim, descending))
            assert tdt.equal(there.argsort(dim, descending).cpu(), here.argsort(dim, descending))
        if dtype is not tdt.bool:
            assert not there.topk(0, dim).values.numel()
            for k in {1, max(1, shape[dim] // 2)}:
                same(there.topk(k, dim, k != 1), here.topk(k, dim, k != 1))


@pytest.mark.parametrize("dtype", [tdt.float32, tdt.int64], ids=str)
def test_expanded_tensors_are_sorted_into_the_memory_order_of_the_cpus(dtype: tdt.dtype):
    x = with_ties((2, 5, 4), dtype)
    for view in (
        lambda x: x[:1].expand(3, 5, 4), lambda x: x[:, :1].expand(2, 5, 4), lambda x: x[:1].expand(3, 5, 4).transpose(0, 2),
    ):  # fmt: skip
        for dim in range(3):
            here, there = view(x), view(x.cuda())
            same(there.sort(dim), here.sort(dim))
            same(there.argsort(dim), here.argsort(dim))


def test_sorting_takes_one_launch_and_keeps_nan_infinities_and_zeros_of_either_sign():
    inf, nan = np.inf, np.nan
    x = tdt.tensor(
        [[0.0, nan, -0.0, -inf, 0.0, inf, nan, 1e-42, -1.0], [inf, inf, -inf, nan, 5.0, -0.0, 0.0, nan, 2.0]]
    )
    for descending in (False, True):
        for _ in range(3):  # decided on, noted, repeated
            assert launched_by(lambda: x.cuda().sort(1, descending)) == ["sort_rows"]  # noqa: B023
        found, right = x.cuda().sort(1, descending), x.sort(1, descending)
        assert tdt.equal(found.indices.cpu(), right.indices)
        np.testing.assert_array_equal(found.values.cpu().numpy().view(np.int32), right.values.numpy().view(np.int32))
    assert launched_by(lambda: x.cuda().topk(2)) == ["sort_rows"]
    for length in (3000, _gpu_conditions.MOST_SORTED + 1):  # the longest rows are CuPy's
        long = with_ties((1, length), tdt.float32)
        same(long.cuda().sort(), long.sort())


def launched_by(call: Callable[[], object]) -> list[str]:
    from cupy import _array

    _array.watched = found = []
    try:
        call()
    finally:
        _array.watched = None
    return [name for kind, name, _ in found if kind == "launches"]


MOVED: dict[str, tuple[Callable[[tdt.Tensor], tdt.Tensor], list[str]]] = {
    "flip": (lambda x: x.flip(0, -1), ["copy_view"]),
    "roll": (lambda x: x.roll(2, 1), ["join"]),
    "roll twice": (lambda x: x.roll((1, 5), (0, 1)), ["join", "join"]),
    "roll all": (lambda x: x.roll(3), ["join"]),
    "repeat": (lambda x: x.repeat(2, 1, 3), ["copy_view"]),
    "repeat_interleave": (lambda x: x.repeat_interleave(3, 1), ["copy_view"]),
    "tril": (lambda x: x.tril(1), ["triangle"]),
    "triu": (lambda x: x.triu(-2), ["triangle"]),
    "gather": (lambda x: x.gather(1, tdt.tensor([[[0, 3, 2], [1, 1, 0]]], device=x.device)), ["gather"]),
    "unfold": (lambda x: F.unfold(x[None], (2, 3), stride=(1, 2)), ["copy_view"]),
    "unfold with a border": (lambda x: F.unfold(x[None], 3, dilation=2, padding=2), ["place", "copy_view"]),
    "interpolate": (lambda x: F.interpolate(x[None], scale_factor=2), ["resample", "resample"]),
    "interpolate to less": (lambda x: F.interpolate(x[None], (2, 3), mode="bilinear"), ["resample", "resample"]),
    "interpolate with antialiasing": (lambda x: F.interpolate(x[None], (2, 3), mode="bicubic", antialias=True),
                                      ["resample", "resample"]),
    "glu": (lambda x: F.glu(x, -1), ["elementwise_glu"]),
    "prod": (lambda x: x.prod(1), ["fold_product"]),
    "logsumexp": (lambda x: x.logsumexp((0, 2)), ["fold_logsumexp"]),
    "any": (lambda x: (x > 1).any(1), ["elementwise_gt", "fold_extreme"]),
    "all": (lambda x: (x < 1).all(), ["elementwise_lt", "fold_extreme"]),
    "norm": (lambda x: x.norm(), ["fold_sum"]),
    "vector_norm": (lambda x: tdt.linalg.vector_norm(x, 1, -1), ["fold_sum"]),
    "huber_loss": (lambda x: F.huber_loss(x, x.detach().flip(1) * 2, delta=0.7), []),
    "smooth_l1_loss": (lambda x: F.smooth_l1_loss(x, x.detach() * 0.5, reduction="sum", beta=0.3), []),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVED)
def test_moves_and_reductions(name: str):
    function, names = MOVED[name]
    for k in range(5):  # decided on, noted, repeated
        x, slopes = tdt.tensor(numbers(3, 7, 6) + k).float(), None
        results = []
        for device in ("cpu", "cuda"):
            leaf = x.to(device, copy=True).requires_grad_()
            out = function(leaf)
            if out.requires_grad:
                slopes = tdt.tensor(numbers(*out.shape)).float() if slopes is None else slopes
                out.backward(slopes.to(device))
            results.append([t.detach().cpu() for t in (out, leaf.grad) if t is not None])
        for found, right in zip(*results[::-1], strict=True):
            assert (found.dtype, found.shape, found.stride()) == (right.dtype, right.shape, right.stride())
            np.testing.assert_allclose(found.double().numpy(), right.double().numpy(), rtol=2e-5, atol=2e-5)
    there = x.cuda()
    if names:
        assert [
            each for each in launched_by(lambda: function(there)) if each != "fill"
        ] == names  # of the indices' check


def at(*index: Any, like: tdt.Tensor) -> tdt.Tensor:
    return tdt.tensor(index, device=like.device)


GRADIENTS: dict[str, tuple[Callable[[tdt.Tensor], tdt.Tensor], str]] = {
    "split": (lambda x: x.split((2, 1, 4), 1)[1], "join"),
    "split into one": (lambda x: x.split(7, 1)[0], "join"),
    "chunk": (lambda x: x.chunk(3, 2)[2], "join"),
    "unbind": (lambda x: x.unbind(2)[4], "join"),
    "all of unbind": (lambda x: tdt.stack(x.unbind(0)[::-1]), "join"),
    "gather": (lambda x: x.gather(1, at([[6, 0], [6, 6], [1, 0]], like=x)), "add_gathered"),
    "gather by int32": (lambda x: x.gather(2, at([[5, 0, 5]], like=x).int()), "add_gathered"),
    "index_select": (lambda x: x.index_select(1, at(6, 0, 6, 3, like=x)), "add_gathered"),
    "index_select of the last": (lambda x: x.index_select(-1, at(2, 2, like=x).int()), "add_gathered"),
    "index_select of rows": (lambda x: x.index_select(0, at(2, 0, 2, 2, like=x)), "embedding_grad"),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_parts_take_one_launch_and_have_the_cpus_bits(name: str):
    function, kernel = GRADIENTS[name]
    for dtype in (tdt.float32, tdt.float64):
        for k in range(4):  # decided on, noted, repeated
            x, results = (tdt.tensor(numbers(3, 7, 6)) + k).to(dtype), []
            slopes = tdt.tensor(numbers(*function(x).shape)).to(dtype)
            for device in ("cpu", "cuda"):
                leaf = x.to(device, copy=True).requires_grad_()
                out, slope = function(leaf), slopes.to(device)
                launches = launched_by(lambda: results.append(tdt.autograd.grad(out, leaf, slope)[0]))  # noqa: B023
            assert launches == [kernel]
            assert results[0].stride() == results[1].stride() and tdt.equal(results[0], results[1].cpu())


def test_gradients_of_gathered_halves_are_rounded_once():
    for dtype in (tdt.float16, tdt.bfloat16):
        places, slopes = tdt.zeros(2, 9, dtype=tdt.int64), tdt.tensor(numbers(2, 9)).to(dtype)
        leaf = tdt.zeros(2, 3, dtype=dtype, device="cuda", requires_grad=True)
        leaf.gather(1, places.cuda()).backward(slopes.cuda())
        assert tdt.equal(leaf.grad.cpu()[:, 0], slopes.float().sum(1).to(dtype)) and not leaf.grad[:, 1:].any()


def test_moves_of_other_types_and_of_parts():
    for dtype in (tdt.int64, tdt.bool, tdt.float16, tdt.uint8):
        for here in (
            with_ties((3, 4, 6), tdt.float32).to(dtype),
            with_ties((6, 4, 8), tdt.float32).to(dtype)[::2, :, 1:7],
        ):
            for name in ("flip", "roll", "repeat", "repeat_interleave", "tril", "triu", "gather"):
                same(MOVED[name][0](here.cuda()), MOVED[name][0](here))


def test_reductions_of_infinities_and_nan():
    inf, nan = np.inf, np.nan
    x = tdt.tensor([[1.0, inf, 2.0], [-inf, -inf, -inf], [1.0, nan, inf], [-inf, 1.0, 2.0], [800.0, 801.0, -900.0]])
    for function in (lambda x: x.logsumexp(1), lambda x: x.logsumexp((0, 1)), lambda x: x.prod(1)):
        np.testing.assert_allclose(function(x.cuda()).cpu().numpy(), function(x).numpy(), rtol=1e-6)
    long = tdt.tensor(numbers(3, 9000)).float()  # several blocks share a row
    np.testing.assert_allclose(long.cuda().logsumexp(1).cpu().numpy(), long.double().logsumexp(1).numpy(), rtol=1e-6)


def test_indices_out_of_range_are_reported_at_the_next_read():
    x = tdt.ones(2, 3, device="cuda")
    for _ in range(4):
        for bad in (3, -1):
            with pytest.raises(IndexError, match=f"index {bad} is out of bounds for dimension 1 with size 3"):
                x.gather(1, tdt.tensor([[0, bad]], device="cuda")).sum().item()
        with pytest.raises(IndexError, match="an index is 3, but the dimension has size 3"):
            x.index_select(1, tdt.tensor([0, 3], device="cuda")).sum().item()
        with pytest.raises(IndexError, match=r"smaller than num_classes \(4\), but one is 5"):
            F.one_hot(tdt.tensor([1, 5], device="cuda"), 4).sum().item()
        assert x.sum().item() == 6


def test_a_long_stride_of_a_dimension_of_size_1_fits_a_kernels_numbers():
    """That of a row of a tensor of more than 2^31 elements, for which 32 bits suffice otherwise."""
    x = tdt.tensor(numbers(10)).float()
    there, here = x.cuda().as_strided((1, 10), (1 << 33, 1)), x[None]
    for function in (
        lambda x: x.sort(1), lambda x: x.topk(3), lambda x: x.cumsum(1), tdt.tril, lambda x: tdt.cat([x, x]),
        lambda x: x.gather(1, tdt.tensor([[3, 1]], device=x.device)), lambda x: F.pad(x, (1, 2)), lambda x: x.fill_(2.0),
    ):  # fmt: skip
        found, right = function(there), function(here)
        for got, want in zip(*[each if isinstance(each, tuple) else [each] for each in (found, right)], strict=True):
            assert got.tolist() == want.tolist()
    image = x.cuda().as_strided((1, 1, 2, 4), (1 << 33, 1 << 33, 4, 1))
    assert F.max_pool2d(image, 2).tolist() == F.max_pool2d(x[:8].reshape(1, 1, 2, 4), 2).tolist()


def test_classes_of_one_hot_are_checked_whatever_their_dimensions():
    classes = tdt.tensor([2, 7], device="cuda").reshape(2, *(1,) * 8)
    with pytest.raises(IndexError, match=r"smaller than num_classes \(4\), but one is 7"):
        F.one_hot(classes, 4).sum().item()
    same(F.one_hot(classes, 8), F.one_hot(classes.cpu(), 8))


def test_an_axis_that_one_stream_has_resampled_is_resampled_by_others():
    x = tdt.tensor(numbers(1, 2, 5, 6)).float()
    right, there = F.interpolate(x, (7, 19), mode="bilinear"), x.cuda()
    with tdt.cuda.stream(tdt.cuda.Stream()):
        first = F.interpolate(there, (7, 19), mode="bilinear")
    with tdt.cuda.stream(tdt.cuda.Stream()):  # which waits for nothing of the other one
        assert tdt.equal(F.interpolate(there, (7, 19), mode="bilinear").cpu(), right)
    tdt.cuda.synchronize()
    assert tdt.equal(first.cpu(), right)


def test_one_hot_and_take_along_dim_read_nothing(counted):
    classes, x = tdt.tensor([[0, 3], [2, 2]]), tdt.tensor(numbers(3, 4)).float()
    places = tdt.tensor([[0, -1, 3], [-4, 2, 2], [1, 1, -2]])
    there = [t.cuda() for t in (classes, x, places)]
    with counted() as found:
        hot, taken = F.one_hot(there[0], 5), tdt.take_along_dim(there[1], there[2], 1)
        flat = tdt.take_along_dim(there[1], there[2] * 3)
    assert not [each for each in found if each[0] in ("syncs", "uploads")]
    same(hot, F.one_hot(classes, 5))
    same(taken, tdt.take_along_dim(x, places, 1))
    same(flat, tdt.take_along_dim(x, places * 3))
    leaves = [t.detach().requires_grad_() for t in (x, there[1])]
    for leaf, at in zip(leaves, (places, there[2]), strict=True):
        tdt.take_along_dim(leaf, at, 1).square().sum().backward()
    np.testing.assert_allclose(leaves[1].grad.cpu().numpy(), leaves[0].grad.numpy(), rtol=1e-6)


def portable() -> _random.Generator:
    """A generator of the GPU's numbers, computed by NumPy."""
    generator = _random.Generator()
    generator.engine = Philox(5, np)
    return generator


def test_random_numbers_are_those_of_the_portable_code():
    for count in (1, 5, 16, 100):
        for kind in (np.float32, np.float64):
            dtype = {np.float32: tdt.float32, np.float64: tdt.float64}[kind]
            tdt.manual_seed(5)
            right = portable()
            found = [tdt.rand(count, device="cuda", dtype=dtype) for _ in range(2)]
            found.append(tdt.empty(count, device="cuda", dtype=dtype).uniform_(-3.0, 0.1))
            expected = [_random.uniform(right, (count,), kind) for _ in range(2)]
            expected.append(_random.uniform(right, (count,), kind, -3.0, 0.1))
            for got, want in zip(found, expected, strict=True):
                np.testing.assert_array_equal(got.cpu().numpy(), want)
            normal = (
                tdt.randn(count, device="cuda", dtype=dtype),
                tdt.empty(count, device="cuda", dtype=dtype).normal_(2, 3),
            )
            padded = -(-count // 16) * 16
            for got, (mean, std) in zip(normal, ((0.0, 1.0), (2.0, 3.0)), strict=True):
                want = _normal_blocks(right, padded, np.dtype(kind), mean, std)[:count]
                np.testing.assert_allclose(
                    got.cpu().numpy(), want, rtol=2e-6 if kind is np.float32 else 1e-14, atol=1e-6
                )
        found = [tdt.randint(-3, 9, (count,), device="cuda"), tdt.randint(0, 1 << 40, (count,), device="cuda")]
        for got, ends in zip(found, ((-3, 9), (0, 1 << 40)), strict=True):
            np.testing.assert_array_equal(got.cpu().numpy(), _random.integers(right, (count,), np.int64, *ends))


def test_random_tensors_take_one_launch():
    for create, name in ((tdt.rand, "uniform"), (tdt.randn, "normal")):
        assert launched_by(lambda: create(3, 4, device="cuda")) == [name]  # noqa: B023
    assert launched_by(lambda: tdt.randint(0, 5, (3, 4), device="cuda")) == ["integers"]
    assert tdt.rand(2, 3, device="cuda").shape == (2, 3) and tdt.randn(0, device="cuda").shape == (0,)


def test_writes_of_numbers_take_one_launch():
    results = []
    for device in ("cpu", "cuda"):
        found = []
        x, mask = tdt.tensor(np.arange(24.0)).float().reshape(4, 6).to(device), (tdt.arange(6) % 2 == 0).to(device)
        for k in range(5):  # decided on, noted, repeated
            for dtype in (tdt.float32, tdt.int64, tdt.bool, tdt.float16, tdt.bfloat16):
                y = x.to(dtype, copy=True)
                y[1:3, ::2].fill_(k)
                y.t()[0].zero_()
                y[3:] = k + 1
                y.masked_fill_(mask.expand(4, 6), -k - 1)
                y[:, 1:].masked_fill_(mask[1:], 3)
                y[0:2] = y[2:4].clone()
                found += [y.cpu().double(), y._version]
        found.append(tdt.full((2, 3), 7.5, device=device).cpu())
        found += [
            tdt.empty(2, 0, device=device).shape,
            tdt.zeros(3, device=device).cpu(),
            tdt.zeros((), device=device).cpu(),
        ]
        results.append(found)
    for here, there in zip(*results, strict=True):
        assert tdt.equal(here, there) if isinstance(here, tdt.Tensor) else here == there
    x, mask = tdt.ones(4, 6, device="cuda"), tdt.ones(4, 6, dtype=tdt.bool, device="cuda")
    for _ in range(3):
        assert launched_by(lambda: x.fill_(2.0)) == ["fill"]
        assert launched_by(lambda: x.masked_fill_(mask, 2.0)) == ["elementwise_masked_fill"]


KEYS = [
    slice(1, 3),
    2,
    -1,
    (slice(None), 1),
    (slice(0, 4, 2), slice(1, None)),
    (..., 0),
    (),
    slice(5, 2),
    (None, 1),
    slice(None),
]


def test_writes_of_tensors_to_parts():
    results: list[list] = []
    for device in ("cpu", "cuda"):
        found: list = []
        results.append(found)
        for dtype in (tdt.float32, tdt.int64, tdt.bool, tdt.bfloat16):
            x = (tdt.arange(24, device=device) % 5).reshape(4, 6).to(dtype)
            for key in KEYS:
                value = x[key].clone().flip(0) if x[key].ndim else x[key].clone()
                x[key] = value
                x.t()[1:3] = x.t()[3:5].clone()
                x[key] = value.double()
                x[key] = value[..., :1]
                found += [x.cpu().clone(), x._version]
            x[0:2] = x[2:4]  # of the same memory
            found.append(x.cpu().clone())
        x = tdt.ones(4, 3, device=device)
        for write in (
            lambda: x.__setitem__(slice(0, 2), tdt.ones(3, 3, device=device)),  # noqa: B023
            lambda: x.__setitem__(7, x[0].clone()),  # noqa: B023
            lambda: x[:, :1].expand(4, 3).__setitem__(0, tdt.zeros(3, device=device)),  # noqa: B023
            lambda: tdt.ones(4, 3, device=device, requires_grad=True).__setitem__(0, x[0]),  # noqa: B023
        ):
            with pytest.raises((RuntimeError, IndexError)) as error:
                write()
            found.append(str(error.value))
        leaf = tdt.ones(4, 3, device=device, requires_grad=True)
        out, saved = leaf * 2, leaf.exp()
        out[1:3] = leaf[:2] * 3
        out.sum().backward()
        found.append(leaf.grad.cpu())
        with tdt.no_grad():
            saved[0] = x[0]
        with pytest.raises(RuntimeError, match="modified by an inplace"):
            saved.sum().backward()
        with tdt.inference_mode():
            x[0] = x[1] * 2
        found.append(x.cpu().clone())
    for here, there in zip(*results, strict=True):
        assert tdt.equal(here, there) if isinstance(here, tdt.Tensor) else here == there


def test_new_tensors_are_filled_anew_by_repeated_launches():
    for k in range(5):
        for dtype, value in (
            (tdt.float32, 1.5),
            (tdt.int64, 3),
            (tdt.bool, True),
            (tdt.float16, -0.0),
            (tdt.float32, 0.0),
        ):
            found = tdt.full((2, 3), value, dtype=dtype, device="cuda")
            right = tdt.full((2, 3), value, dtype=dtype)
            assert found.dtype is dtype and found.cpu().numpy().tobytes() == right.numpy().tobytes()
            assert tdt.equal(tdt.ones(2, 3, dtype=dtype, device="cuda").cpu(), tdt.ones(2, 3, dtype=dtype))
            found.fill_(0)
        assert tdt.full((2, 0), 1.0, device="cuda").shape == (2, 0)
    assert launched_by(lambda: tdt.ones(2, 3, device="cuda")) == ["fill"]


def test_parts_of_a_tensor_know_their_base_and_lie_where_they_should():
    for _ in range(4):
        x = tdt.arange(24.0, device="cuda").reshape(2, 3, 4).transpose(0, 2)
        parts = [*x.split(3, 0), *x.chunk(2, 1), *x.unbind(2), *x[:0].split(1, 1), *x.unbind(0)]
        y = x.cpu()
        right = [*y.split(3, 0), *y.chunk(2, 1), *y.unbind(2), *y[:0].split(1, 1), *y.unbind(0)]
        same(tuple(parts), tuple(right))
        assert all(each._base is x._base for each in parts)
        parts[1].add_(1)
        assert tdt.equal(x.cpu()[3:], y[3:] + 1)


@pytest.mark.parametrize(
    ("shape", "dim"), [((7,), 0), ((5, 33), 1), ((33, 5), 0), ((2, 41, 3), 1), ((1, 3000), 1), ((2, 20000), 1)]
)
def test_running_sums_and_products(shape: tuple, dim: int):
    for dtype in (tdt.float32, tdt.float64, tdt.int64, tdt.int32, tdt.bfloat16):
        x = (tdt.tensor(numbers(*shape)) * (2 if dtype in (tdt.int64, tdt.int32) else 0.7)).to(dtype)
        for here in (x, x.mT.contiguous().mT) if x.ndim > 1 else (x,):
            there = here.cuda()
            for function in (tdt.cumsum, tdt.cumprod):
                got, want = function(there, dim).cpu(), function(here, dim)
                assert (got.dtype, got.stride()) == (want.dtype, want.stride())
                # Sums in double precision have its rounding errors; others are rounded once.
                within = tdt.finfo(dtype).eps * (100 if dtype is tdt.float64 else 8) if dtype.is_floating_point else 0
                np.testing.assert_allclose(got.double().numpy(), want.double().numpy(), rtol=within, atol=within * 20)
    there = x.float().cuda().requires_grad_()
    launches = ["scan_rows"] * (2 if shape[dim] > scan_gpu.PART else 1)
    assert launched_by(lambda: there.cumsum(dim)) == launches
    out, slopes = there.cumsum(dim), tdt.ones(shape, device="cuda")
    assert launched_by(lambda: tdt.autograd.grad(out, there, slopes)) == launches


def test_sums_of_a_tensor_and_a_product():
    cases = {
        "addmm": [(4, 3), (4, 5), (5, 3)],
        "baddbmm": [(2, 4, 3), (2, 4, 5), (2, 5, 3)],
        "addmv": [(4,), (4, 5), (5,)],
    }
    for name, sizes in cases.items():
        for start in (sizes[0], sizes[0][-1:]):
            for beta, alpha in ((1, 1), (0.5, 2.0), (0, 1), (0, 3.0), (1, -1)):
                for k in range(4):
                    values = [tdt.tensor(numbers(*size) + k).float() for size in (start, *sizes[1:])]
                    results = []
                    for device in ("cpu", "cuda"):
                        leaves = [v.to(device, copy=True).requires_grad_() for v in values]
                        out = getattr(tdt, name)(*leaves, beta=beta, alpha=alpha)
                        out.square().sum().backward()
                        results.append([out.detach().cpu(), *(leaf.grad.cpu() for leaf in leaves)])
                    for here, there in zip(*results, strict=True):
                        assert (here.shape, here.stride()) == (there.shape, there.stride())
                        np.testing.assert_allclose(there.numpy(), here.numpy(), rtol=1e-4, atol=1e-4)
