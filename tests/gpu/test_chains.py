"""Chains of elementwise kernels in CUDA graphs: one launch, the bits of the single kernels, nothing that is read too early."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import cupy
import pytest

import tdt
from tdt import nn
from tdt._backend.device import device
from tdt._compiled.captured import Captured
from tdt._kernels import chains_gpu, graph_gpu
from tdt._kernels.chains_gpu import UnknownWorkError
from tdt.autograd._op_table import OPS
from tdt.nn import functional as F
from tests.gpu.chains import CHAINS, LAUNCHES
from tests.on_gpu import _operand, sampled_ops
from tests.samples import TABLE

GPU = device("cuda", 0)


@pytest.fixture(autouse=True)
def nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in's graph tells of work that was captured, as CUDA's driver does."""
    monkeypatch.setattr(chains_gpu, "nodes_of", lambda stream: len(cupy.cuda.get_current_stream().captured))


def replayed(function: Callable[[], Any], chains: bool = True) -> Any:
    """The result of a function that is captured, and launched."""
    captured = Captured(lambda places: function(), [], 0, chains=chains)
    tdt.manual_seed(3)
    captured.graph.launch()
    tdt.cuda.synchronize()
    return captured.result


def bits(tensors: list[tdt.Tensor | None]) -> list[Any]:
    return [
        None if t is None else (t.shape, t.stride(), t.detach().cpu().contiguous().numpy().tobytes()) for t in tensors
    ]


def launches(function: Callable[[], Any], counted: Any, chains: bool = True) -> list[str]:
    """The names of what is launched in a graph of a function."""
    with counted() as found:
        Captured(lambda places: function(), [], 0, chains=chains)
    return [name.removeprefix("elementwise_") for kind, name, _ in found if kind == "launches"]


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_has_the_bits_of_its_single_kernels_and_few_launches(name: str, backward: bool, counted):
    step = CHAINS[name](backward)
    expected = bits(step())
    assert bits(replayed(step)) == bits(replayed(step, chains=False)) == expected
    assert backward or len(launches(step, counted)) == LAUNCHES[name][backward]  # else the stand-in copies gradients


def results(name: str, call: Any, inputs: list[Any]) -> list[tdt.Tensor | None]:
    """What an op gives of operands that other kernels compute just before, and the gradients of these."""
    operands = [x * 1 if isinstance(x, tdt.Tensor) and x.is_floating_point() and not x.is_sparse else x for x in inputs]
    out = OPS[name](*operands, **call.attributes)
    outs = [*out] if isinstance(out, tuple | list) else [out]
    ways = [t for t in outs if t.requires_grad and t.is_floating_point()]
    leaves = [t for t in inputs if isinstance(t, tdt.Tensor) and t.requires_grad]
    if not ways or not leaves:
        return outs
    return [*outs, *tdt.autograd.grad([t.sum() for t in ways], leaves, allow_unused=True)]


@pytest.mark.parametrize("name", [name for name in sampled_ops() if name != "to_device"])
def test_an_op_launches_the_kernels_that_wait_for_its_operands(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        graph_gpu, "prepare", tdt.cuda.synchronize
    )  # without collecting garbage, which takes most of the time
    of_formula = OPS[name].formula or OPS[name].lower is not None  # each call would have a kernel of its own to compile
    for call in TABLE[name].calls[: 1 if of_formula else None]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                inputs = [_operand(a, GPU, "float32", call.grad) for a in call.operands]
                expected = results(name, call, inputs)
            except Exception:  # noqa: BLE001, S112 - it takes no float32
                continue
            if any(t is not None and t.is_sparse for t in expected):
                continue
            step = functools.partial(results, name, call, inputs)
            try:
                found = bits(replayed(step))
            except UnknownWorkError:
                raise
            except Exception:  # noqa: BLE001, S112 - it is not captured
                continue
            if found != bits(expected):  # random numbers; eigenvectors, of which the stand-in captures nothing
                single = bits(replayed(step, chains=False))
                assert found == single or (single != bits(expected) and not OPS[name].random), name


def test_what_else_reads_a_result_finds_it_in_memory(counted):
    """Results that are returned, views of them, and what is read by other work; the rest is never stored."""
    x = tdt.randn(6, 5).cuda()

    def function() -> list[tdt.Tensor]:
        a = x * 2
        b = a.tanh() + x
        c = b[:, 1:3]
        return [c * 3, b.t(), (b + 1).sum(0), a + x[0]]

    expected = bits(function())
    assert bits(replayed(function)) == expected
    assert launches(function, counted) == ["chain", "mul", "add", "fold_sum", "add"]


def test_writes_in_place_count_for_what_follows_and_not_for_what_came_before():
    x = tdt.randn(6, 6).cuda()
    first = x.clone()

    def function() -> list[tdt.Tensor]:
        a = x * 2
        x.add_(a)
        b = x * a
        x[1:].mul_(2)  # as another array: launches what waits
        c = x + 1
        x.t().sub_(c)
        return [a, b, c, x + 0]

    expected = bits([*function(), x])
    x.copy_(first)
    captured = Captured(lambda places: function(), [], 0)
    captured.graph.launch()
    tdt.cuda.synchronize()
    assert bits([*captured.result, x]) == expected


def test_what_is_small_is_computed_again_where_it_is_read_and_stored_once(counted):
    rows, columns, table = tdt.randn(6, 1).cuda(), tdt.randn(7).cuda(), tdt.randn(4, 6, 7).cuda()

    def function() -> list[tdt.Tensor]:
        a, b = (rows + 1).rsqrt(), columns * 2
        return [a, table * a + b, b]

    expected = bits(function())
    assert bits(replayed(function)) == expected and launches(function, counted) == ["chain"]


@pytest.mark.parametrize("dtype", [tdt.float16, tdt.bfloat16])
def test_half_precision_is_rounded_between_the_kernels_of_a_chain(dtype: tdt.dtype, counted):
    x = tdt.randn(300).to(dtype).cuda()

    def function() -> list[tdt.Tensor]:
        return [((x * 1.1).exp() * x + x).tanh(), x > 0]

    expected = [t.cpu() for t in function()]
    found = [t.cpu() for t in replayed(function)]
    assert all(map(tdt.equal, found, expected)) and launches(function, counted) == ["chain"]


def test_arithmetic_has_float32s_subnormal_numbers_as_on_the_cpu():
    x, y = tdt.tensor([1e-39, 3e-42]), tdt.tensor([2e-39, 1e-45])
    for function in (
        lambda x, y: x + y,
        lambda x, y: x - y,
        lambda x, y: x * 0.5,
        lambda x, y: x > y,
        lambda x, y: x / 2,
    ):
        assert tdt.equal(function(x.cuda(), y.cuda()).cpu(), function(x, y))


def test_long_chains_are_several_launches(counted):
    x = tdt.randn(9).cuda()

    def function() -> list[tdt.Tensor]:
        y = x
        for k in range(100):
            y = y * (1 + k / 100) + x
        return [y]

    expected = bits(function())
    assert bits(replayed(function)) == expected and 1 < len(launches(function, counted)) < 20


def test_unknown_work_is_found_and_the_capture_repeated_without_chains():
    x = tdt.randn(6).cuda()

    def function(places: list[tdt.Tensor]) -> tdt.Tensor:
        y = places[0] * 2
        cupy.add(y._a, 1, out=y._a)  # by no op
        return y + 1

    with pytest.raises(UnknownWorkError):
        Captured(function, [x], 0)
    compiled = tdt.compile(lambda x: function([x]), fullgraph=True)
    for _ in range(6):
        found = compiled(x)
    assert tdt.equal(found.cpu(), function([x]).cpu())


def test_a_network_of_chains_trains_to_the_same_bits_compiled_and_not():
    results = []
    for compiles in (False, True):
        tdt.manual_seed(2)
        model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Dropout(0.2), nn.SiLU(), nn.Linear(8, 3)).cuda()
        update = tdt.optim.Adam(model.parameters(), lr=1e-2)

        def losses(x: tdt.Tensor, y: tdt.Tensor, model: nn.Module = model) -> tdt.Tensor:
            return (F.softplus(model(x)) * 2 - y).square().mean()

        call = tdt.compile(losses, fullgraph=True) if compiles else losses
        numbers, found = tdt.Generator().manual_seed(4), []
        for _ in range(10):
            x, y = tdt.randn(5, 6, generator=numbers).cuda(), tdt.randn(5, 3, generator=numbers).cuda()
            update.zero_grad()
            loss = call(x, y)
            loss.backward()
            update.step()
            found.append(loss.detach())
        results.append(bits([*found, *model.parameters()]))
    assert results[0] == results[1]
