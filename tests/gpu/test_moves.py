"""Tensors moved between devices: layouts, several GPUs, memory, streams, generators."""

from __future__ import annotations

import cupy
import pytest

import tdt
from tdt import nn

LAYOUTS = {
    "channels-last": lambda: tdt.randn(2, 3, 4, 5).contiguous(memory_format=tdt.channels_last),
    "channels-last 3d": lambda: tdt.randn(2, 3, 4, 5, 2).contiguous(memory_format=tdt.channels_last_3d),
    "transposed": lambda: tdt.randn(3, 4).t(),
    "permuted": lambda: tdt.randn(2, 3, 4).permute(1, 2, 0),
    "C order": lambda: tdt.randn(3, 4),
    "0-d": lambda: tdt.tensor(2.5),
    "empty": lambda: tdt.randn(0, 3).t(),
    "bfloat16": lambda: tdt.randn(3, 4).bfloat16().t(),
}


@pytest.mark.parametrize("what", LAYOUTS)
def test_a_dense_tensor_keeps_its_strides_both_ways(what: str):
    x = LAYOUTS[what]()
    there = x.cuda()
    back = there.cpu()
    assert there.is_cuda and not back.is_cuda
    if x.numel():
        assert there.stride() == x.stride() == back.stride()
    assert tdt.equal(back, x)


def test_a_copy_of_what_is_not_dense_has_the_order_of_its_strides():
    for x in (tdt.randn(3, 4).t()[:, :2], tdt.randn(4, 1).expand(4, 3), tdt.randn(6)[::2]):
        moved = x.cuda()
        assert moved.stride() == x.clone().stride()
        assert tdt.equal(moved.cpu(), x) and tdt.equal(moved[1:].cpu(), x[1:])


def test_a_gradient_comes_back_over_both_moves():
    x = tdt.randn(3, 4, requires_grad=True)
    (x.cuda() * 3).cpu().sum().backward()
    assert x.grad is not None and not x.grad.is_cuda and tdt.equal(x.grad, tdt.full((3, 4), 3.0))


@pytest.mark.parametrize("repeats", [[2, 0, 3], [1], [0, 0, 0], [0, 2, 0]])
def test_entries_are_repeated_by_a_tensor_of_counts(repeats: list[int]):
    x, results = tdt.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), []
    for device in ("cpu", "cuda"):
        leaf, times = x.detach().to(device).requires_grad_(), tdt.tensor(repeats, device=device)
        out = leaf.repeat_interleave(times, 0)
        out.square().sum().backward()
        results.append([out.detach().cpu(), leaf.grad.cpu(), tdt.repeat_interleave(times).cpu()])
    assert all(map(tdt.equal, *results))
    empty = tdt.zeros(0, 2, device="cuda").repeat_interleave(tdt.tensor([3], device="cuda"), 0)
    assert empty.shape == (0, 2)


def test_operands_of_the_host_are_refused_but_numbers():
    x = tdt.ones(3, device="cuda")
    assert (x + tdt.tensor(2.0)).is_cuda
    with pytest.raises(RuntimeError, match="cuda:0.*cpu|cpu.*cuda:0"):
        x + tdt.ones(3)


def test_a_seed_gives_the_same_numbers_and_a_state_goes_on():
    def draws():
        return [tdt.rand(5, device="cuda"), tdt.randn(5, device="cuda"), tdt.randint(9, (5,), device="cuda"),
                tdt.randperm(6, device="cuda"), tdt.bernoulli(tdt.full((9,), 0.5, device="cuda")),
                nn.functional.dropout(tdt.ones(9, device="cuda"))]  # fmt: skip

    tdt.manual_seed(5)
    first, state = draws(), tdt.cuda.get_rng_state()
    second = draws()
    tdt.cuda.set_rng_state(state)
    for one, other in zip(second, draws(), strict=True):
        assert tdt.equal(one, other)
    tdt.manual_seed(5)
    for one, other in zip(first, draws(), strict=True):
        assert tdt.equal(one, other)


def test_streams_and_events_order_work():
    stream, x = tdt.cuda.Stream(), tdt.ones(4, device="cuda")
    stream.wait_stream(tdt.cuda.current_stream())
    with tdt.cuda.stream(stream):
        assert tdt.cuda.current_stream() == stream
        y = x * 3
        event = stream.record_event()
    assert tdt.cuda.current_stream() == tdt.cuda.default_stream() != stream
    event.synchronize()
    assert event.query() and y.tolist() == [3, 3, 3, 3]


def test_memory_that_another_stream_uses_is_free_when_its_work_is_done():
    side, size = tdt.cuda.Stream(), 1 << 20
    x = tdt.zeros(size, device="cuda")
    with tdt.cuda.stream(side):
        later = tdt.ones(3, device="cuda") + 1  # is not computed yet
    for view in (x, x[1:]):
        view.record_stream(side)
    before = tdt.cuda.memory_allocated()
    del x, view
    assert tdt.cuda.memory_allocated() == before
    side.synchronize()
    tdt.zeros(1, device="cuda")
    assert tdt.cuda.memory_allocated() <= before - 4 * size and later.tolist() == [2, 2, 2]
    with pytest.raises(NotImplementedError, match="only a GPU has streams"):
        tdt.zeros(1).record_stream(side)


def test_memory_in_use_and_its_peak_are_counted():
    tdt.cuda.reset_peak_memory_stats()
    before = tdt.cuda.memory_allocated()
    x = tdt.zeros(1 << 20, device="cuda")
    assert tdt.cuda.memory_allocated() - before == x.nbytes
    del x
    assert tdt.cuda.memory_allocated() == before and tdt.cuda.max_memory_allocated() >= before + (4 << 20)
    assert "in use" in tdt.cuda.memory_summary()


def test_where_memory_runs_out_the_error_reports_what_holds_it(monkeypatch):
    held = tdt.zeros(1 << 18, device="cuda")
    monkeypatch.setenv("CUPY_STANDIN_MEMORY", str(tdt.cuda.memory_allocated() + 1000))
    with pytest.raises(
        tdt.cuda.OutOfMemoryError, match=r"Tried to allocate 4.00 MiB. GPU 0 has .* in use by tensors.*smaller batch"
    ):
        tdt.zeros(1 << 20, device="cuda")
    with pytest.raises(tdt.OutOfMemoryError):
        held * 2
    with pytest.raises(RuntimeError) as failed:
        held.exp()
    assert isinstance(failed.value.__cause__, cupy.cuda.memory.OutOfMemoryError)
    assert held[:9].sum().item() == 0  # the process goes on


def test_memory_that_is_free_total_and_cached_adds_up(monkeypatch):
    capacity = tdt.cuda.memory_reserved() + (64 << 20)  # other tests' tensors and work spaces may still be there
    monkeypatch.setenv("CUPY_STANDIN_MEMORY", str(capacity))
    x = tdt.zeros(1 << 20, device="cuda")
    free, total = tdt.cuda.mem_get_info()
    assert total == tdt.cuda.get_device_properties().total_memory == capacity
    assert total - free == tdt.cuda.memory_reserved() >= tdt.cuda.memory_allocated() >= x.nbytes
    del x
    tdt.cuda.empty_cache()
    assert tdt.cuda.memory_reserved() == tdt.cuda.memory_allocated()
    assert tdt.cuda.max_memory_reserved() >= 4 << 20
