"""What `scripts/gpu_check` checks of kernels and CUDA graphs: sizes of many blocks, held to float64 on the CPU."""

from __future__ import annotations

import glob
import itertools
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Container, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tdt
from tdt import _random, nn
from tdt._compiled.captured import Captured
from tdt._kernels import conv_gpu, cudnn_attention_gpu, cudnn_gpu
from tdt._random._philox import Philox
from tdt._random.continuous import _normal_blocks
from tdt.nn import functional as F
from tests.gpu.chains import CHAINS

ROOT = Path(__file__).resolve().parents[1]
# An error may be so many times that of the CPU's float32, and so large at least, relative to the largest magnitude.
TIMES, LEAST = 3.0, 2e-6
Case = Callable[[Callable[..., tdt.Tensor]], tuple[tdt.Tensor, ...]]


def _indices(*size: int, below: int) -> np.ndarray:
    return np.random.default_rng(7).integers(0, below, size)


def _product(new: Callable[..., tdt.Tensor]) -> tuple[tdt.Tensor, ...]:
    a, b, heads, keys = new(300, 700), new(700, 130), new(4, 33, 3, 40), new(4, 50, 3, 40)
    return (
        a @ b,
        a[:, ::2] @ b[::2],
        b.T @ a.T,
        a[:77, :40] @ heads[0, 0].T,
        heads.transpose(1, 2) @ keys.permute(0, 2, 3, 1),
    )


def _attention(new: Callable[..., tdt.Tensor]) -> tuple[tdt.Tensor, ...]:
    q, k, v = (new(2, 65, 4, 32).transpose(1, 2) for _ in range(3))
    return F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(q, k, v, is_causal=True)


def _losses(new: Callable[..., tdt.Tensor]) -> tuple[tdt.Tensor, ...]:
    scores = new(5000, 65)
    target = tdt.from_numpy(_indices(5000, below=65)).to(scores.device)
    return F.cross_entropy(scores, target), F.cross_entropy(scores, target, label_smoothing=0.1, reduction="sum")


def _lookup(new: Callable[..., tdt.Tensor]) -> tuple[tdt.Tensor, ...]:
    table = new(500, 48)
    return (F.embedding(tdt.from_numpy(_indices(64, 40, below=500)).to(table.device), table),)


def _lstm(new: Callable[..., tdt.Tensor]) -> tuple[tdt.Tensor, ...]:
    x, states = new(20, 150, 30), (new(1, 150, 48), new(1, 150, 48))
    weights = [new(192, 30) * 0.1, new(192, 48) * 0.1, new(192), new(192)]
    return tuple(tdt.lstm(x, states, weights, True, 1, 0.0, False, False, False))


def _gru(new: Callable[..., tdt.Tensor]) -> tuple[tdt.Tensor, ...]:
    weights = [new(144, 30) * 0.1, new(144, 48) * 0.1, new(144), new(144)]
    return tuple(tdt.gru(new(20, 150, 30), new(1, 150, 48), weights, True, 1, 0.0, False, False, False))


def _batch_norm(new: Callable[..., tdt.Tensor]) -> tuple[tdt.Tensor, ...]:
    x, w, b = new(16, 24, 33, 31), new(24), new(24)
    last = (x + 3).contiguous(memory_format=tdt.channels_last)
    found = [F.batch_norm(y, None, None, w, b, training=True) for y in (x + 3, last)]
    return found[0], found[1].permute(0, 2, 3, 1)  # whose gradient is channels-last as well


def _group_norm(new: Callable[..., tdt.Tensor]) -> tuple[tdt.Tensor, ...]:
    x, w, b = new(16, 24, 33, 31), new(24), new(24)
    last = x.contiguous(memory_format=tdt.channels_last)
    return F.group_norm(x, 3, w, b), F.group_norm(last, 3, w, b).permute(0, 2, 3, 1), F.group_norm(last, 24)


def _extremes(new: Callable[..., tdt.Tensor]) -> tuple[tdt.Tensor, ...]:
    rows, columns, long = new(3000, 700), new(700, 3000), new(2, 1 << 20)
    found = rows.max(1), columns.min(0), long.max(1)
    places = [
        x.gather(d, at.unsqueeze(d)) for x, d, (_, at) in zip((rows, columns, long), (1, 0, 1), found, strict=True)
    ]
    return *(values for values, _ in found), *places


def _moves(new: Callable[..., tdt.Tensor]) -> tuple[tdt.Tensor, ...]:
    x, images = new(300, 330), new(2, 6, 40, 36)
    places = tdt.from_numpy(_indices(300, 90, below=330)).to(x.device)
    return (
        x.flip(0), x.roll((3, -5), (0, 1)), x.repeat(2, 3), x.tril(-2), x.triu(9), x.gather(1, places), F.glu(x, 1),
        x.index_select(1, places[0]), x.split(100, 1)[2], x.unbind(0)[7],
        F.unfold(images, 3, padding=1), F.interpolate(images, scale_factor=2), F.interpolate(images, (55, 21), mode="bilinear"),
    )  # fmt: skip


def _running(new: Callable[..., tdt.Tensor]) -> tuple[tdt.Tensor, ...]:
    rows, columns, long = new(300, 5000), new(700, 60), new(2, 70_000)
    sums = rows.cumsum(1), columns.cumsum(0), long.cumsum(1)
    return *sums, (columns * 0.1 + 1).prod(1), rows.logsumexp(1), columns.logsumexp((0, 1))


SORTED = (tdt.int64, tdt.int32, tdt.int16, tdt.int8, tdt.uint8, tdt.bool, tdt.bfloat16, tdt.float16, tdt.float32)


def _ordered(new: Callable[..., tdt.Tensor]) -> tuple[tdt.Tensor, ...]:
    """Numbers of all types in order, with equal ones among them and NaN, and their places."""
    scale, whole = new(1), (new(60, 300).detach() * 3).round()
    found = []
    for dtype in SORTED:
        x = whole.abs().to(dtype) if dtype in (tdt.uint8, tdt.bool) else whole.to(dtype)
        if x.is_floating_point():
            x[::3, ::7] = math.nan
        for descending in (False, True):
            values, places = x.sort(1, descending)
            found += [values, places]
        found += [x.t().flip(0), x.roll(7, 1), x.tril(1)]
    return tuple(each.to(scale.dtype).nan_to_num(99.0) * scale for each in found)


def _long_strides(new: Callable[..., tdt.Tensor]) -> tuple[tdt.Tensor, ...]:
    """By kernels that count in 64 bits: that of a dimension of size 1 is a stride for which 32 bits do not suffice."""
    x = new(600).as_strided((1, 600), (1 << 33, 1))
    image = x.as_strided((1, 2, 10, 30), (1 << 33, 300, 30, 1))
    places = tdt.from_numpy(_indices(1, 90, below=600)).to(x.device)
    return (
        x.sort(1).values, x.topk(5).values, x.cumsum(1), x.tril(9), x.gather(1, places), tdt.cat([x, x * 2]), F.pad(x, (1, 2)),
        F.max_pool2d(image, 2), F.avg_pool2d(image, 3), F.unfold(image, 3),
    )  # fmt: skip


def _misplaced(new: Callable[..., tdt.Tensor]) -> tuple[tdt.Tensor, ...]:
    """What a read says after an index out of range, on a GPU as before the operation on the CPU."""
    x, bad = new(5, 4), tdt.tensor([[0, 4], [1, 2]])
    if x.is_cuda:
        bad = bad.to(x.device)
        wrong_calls = (
            lambda: x.gather(1, bad),
            lambda: F.one_hot(bad, 4),
            lambda: x[bad + 1],
            lambda: x.index_select(0, bad[0] + 1),
            lambda: x.index_select(1, bad[0]),
        )
        for wrong in wrong_calls:
            try:
                wrong()
                x.detach().sum().item()
            except IndexError:
                continue
            raise ValueError("an index out of range was not reported")
    return (x.gather(1, bad % 4),)


def _drawn(new: Callable[..., tdt.Tensor]) -> tuple[tdt.Tensor, ...]:
    """Random numbers; on the CPU those of the portable form of a GPU's generator."""
    scale, count = new(1), 100_000
    if scale.is_cuda:
        tdt.manual_seed(5)
        found = [
            tdt.rand(count, device=scale.device),
            tdt.randn(count, device=scale.device, dtype=tdt.float64),
            tdt.randint(0, 1 << 40, (count,), device=scale.device),
        ]
    else:
        generator = _random.Generator()
        generator.engine = Philox(5, np)
        arrays = [
            _random.uniform(generator, (count,), np.float32),
            _normal_blocks(generator, count, np.dtype(np.float64), 0.0, 1.0),
            _random.integers(generator, (count,), np.int64, 0, 1 << 40),
        ]
        found = [tdt.from_numpy(each) for each in arrays]
    return tuple(each.to(scale.dtype) * scale for each in found)


CASES: dict[str, Case] = {
    "products of matrices": _product,
    "linear": lambda new: (F.linear(new(257, 300), new(130, 300), new(130)),),
    "convolution": lambda new: (F.conv2d(new(8, 16, 33, 31), new(32, 16, 3, 3), new(32), padding=1),),
    "convolution, strided and grouped": lambda new: (F.conv2d(new(8, 16, 33, 31), new(32, 4, 5, 5), stride=2, groups=4),),
    "max pooling": lambda new: (F.max_pool2d(new(8, 16, 66, 62), 3, 2, 1),),
    "batch norm": _batch_norm,
    "group norm": _group_norm,
    "layer norm": lambda new: (F.layer_norm(new(5000, 300), (300,), new(300), new(300)),),
    "cross-entropy": _losses,
    "attention": _attention,
    "embedding": _lookup,
    "LSTM": _lstm,
    "GRU": _gru,
    "formulas": lambda new: (F.gelu(new(1 << 20)), new(1000, 999).tanh(), new(3, 1 << 18).sigmoid()),
    "sums": lambda new: (new(1 << 22).sum(), new(2000, 2000).mean(0), new(2000, 2000).var(1)),
    "extremes": _extremes,
    "sorting": lambda new: (
        new(300, 700).sort(1).values, new(700, 60).topk(20, 0).values, new(3, 4096).sort(1, descending=True).values,
    ),
    "sorting and moves of all types": _ordered,
    "long strides": _long_strides,
    "indices out of range": _misplaced,
    "moves": _moves,
    "running sums": _running,
    "random numbers": _drawn,
    "softmax": lambda new: (new(3000, 1000).softmax(1), new(3000, 1000).log_softmax(0)),
}  # fmt: skip

IN_HALF = "batch norm", "group norm"  # whose kernels read half precision


def _computed(case: Case, device: str, dtype: Any, of: Any = tdt.float32) -> list[np.ndarray]:
    """The results of a case and the gradients of its operands, in float64. All numbers are of a dtype `of`, or narrower."""
    rng, leaves = np.random.default_rng(11), []

    def new(*size: int) -> tdt.Tensor:
        value = tdt.from_numpy(rng.standard_normal(size, np.float32)).to(of)
        leaves.append(value.to(device=device, dtype=dtype).requires_grad_())
        return leaves[-1]

    results = case(new)
    grads = [tdt.from_numpy(rng.standard_normal(tuple(out.shape), np.float32)).to(of) for out in results]
    tdt.autograd.backward(results, [g.to(device=device, dtype=dtype) for g in grads])
    values = [*(out.detach() for out in results), *(leaf.grad for leaf in leaves)]
    return [value.cpu().double().numpy() for value in values if value is not None]


def check_kernels(target: str, done: Container[str] = ()) -> Iterator[tuple[str, str | None]]:
    """For each case what is wrong in float32 or float64, of `IN_HALF` also in half precision; or None.

    Convolutions are tdt's own: `check_cudnn` is for the others. done: names that are left out.
    """
    for name, case in CASES.items():
        if name in done:
            continue
        try:
            exact, here = _computed(case, "cpu", tdt.float64), _computed(case, "cpu", tdt.float32)
            with tdt.backends.cudnn.flags(enabled=False):
                there = [_computed(case, target, dtype) for dtype in (tdt.float32, tdt.float64)]
            in_half = _wrong_in_half(case, target) if name in IN_HALF else None
            yield name, _too_far(exact, here, there[0]) or _too_far(exact, exact, there[1], 1e-12) or in_half
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            yield name, f"{type(error).__name__}: {error}".partition("\n")[0]


def _wrong_in_half(case: Case, target: str) -> str | None:
    for dtype in (tdt.float16, tdt.bfloat16):
        exact, there = (
            _computed(case, device, kind, dtype) for device, kind in (("cpu", tdt.float64), (target, dtype))
        )
        if wrong := _too_far(exact, exact, there, LEAST_OF[dtype]):
            return f"{dtype}: {wrong}"
    return None


def _too_far(exact: list, here: list, there: list, least: float = LEAST) -> str | None:
    for k, (right, cpu, gpu) in enumerate(zip(exact, here, there, strict=True)):
        scale = max(float(np.abs(right).max()), 1e-30)
        of_cpu, of_gpu = (float(np.abs(found - right).max()) / scale for found in (cpu, gpu))
        if not of_gpu <= max(TIMES * of_cpu, least):
            return f"result or gradient {k} is {of_gpu:.1e} from float64, the CPU's {of_cpu:.1e}"
    return None


CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "lines": ((8, 16, 500), (32, 16, 5), {}),
    "3 x 3": ((8, 16, 33, 31), (32, 16, 3, 3), {"padding": 1}),
    "1 x 1": ((8, 64, 20, 20), (32, 64, 1, 1), {}),
    "one channel": ((8, 1, 28, 28), (6, 1, 5, 5), {}),
    "strided and dilated": ((8, 16, 33, 31), (32, 16, 3, 3), {"stride": 2, "dilation": 2, "padding": 2}),
    "in groups": ((8, 16, 33, 31), (32, 4, 5, 5), {"groups": 4}),
    "depthwise": ((8, 32, 28, 28), (32, 1, 3, 3), {"groups": 32, "padding": 1}),
    "volumes": ((2, 8, 12, 14, 16), (16, 8, 3, 3, 3), {"padding": 1}),
}
# N, H, L, S, E
ATTENTION: dict[str, tuple[int, int, int, int, int]] = {
    "attention of 65": (2, 3, 65, 65, 40), "attention of 197": (4, 6, 197, 197, 64), "attention of 256": (4, 8, 256, 256, 64),
    "attention of 1024": (1, 4, 1024, 1024, 128), "attention of 4096": (1, 2, 4096, 4096, 64),
    "attention to others": (2, 4, 100, 333, 64),
}  # fmt: skip
LEAST_OF = {tdt.float32: LEAST, tdt.float16: 2e-3, tdt.bfloat16: 1.6e-2}


def check_cudnn(target: str, done: Container[str] = ()) -> Iterator[tuple[str, str | None]]:
    """Convolutions, attention and their gradients by cuDNN, and by tdt's own kernels, both held to float64 on the CPU."""
    if not tdt.backends.cudnn.is_available():
        yield "cuDNN is not installed", None
        return
    for (name, (x, w, how)), dtype, last in itertools.product(CONVOLUTIONS.items(), LEAST_OF, (False, True)):
        if last and len(x) == 3:
            continue
        title = f"{name}, {dtype}, {'channels-last' if last else 'contiguous'}"
        yield from _by_both(title, _convolution(x, w, how, last), _left_by_cudnn, target, dtype, done)
    for (name, sizes), dtype, causal in itertools.product(
        ATTENTION.items(), (tdt.float16, tdt.bfloat16), (False, True)
    ):
        title = f"{name}, {dtype}, {'causal' if causal else 'to all'}"
        yield from _by_both(title, _heads(sizes, causal), _attention_left_by_cudnn, target, dtype, done)


def _by_both(
    title: str, case: Case, left: Callable[[], str], target: str, dtype: Any, done: Container[str]
) -> Iterator[tuple[str, str | None]]:
    # No engine computes bfloat16 on GPUs before Ampere.
    without = dtype is tdt.bfloat16 and tdt.cuda.get_device_capability(target) < (8, 0)
    for enabled in (False,) if without else (True, False):
        name = f"{title}, by {'cuDNN' if enabled else 'tdt'}"
        if name in done:
            continue
        try:
            with tdt.backends.cudnn.flags(enabled=enabled, allow_tf32=False):
                yield name, _wrong_by(case, left, target, dtype)
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            yield name, f"{type(error).__name__}: {error}".partition("\n")[0]


def _convolution(x: tuple[int, ...], w: tuple[int, ...], how: dict[str, Any], last: bool) -> Case:
    kind = (F.conv1d, F.conv2d, F.conv3d)[len(x) - 3]
    format = (tdt.channels_last if len(x) == 4 else tdt.channels_last_3d) if last else tdt.contiguous_format
    return lambda new: (
        kind(new(*x).contiguous(memory_format=format), new(*w).contiguous(memory_format=format), new(w[0]), **how),
    )


def _heads(sizes: tuple[int, int, int, int, int], causal: bool) -> Case:
    n, h, queries, keys, e = sizes
    return lambda new: (
        F.scaled_dot_product_attention(
            *(new(n, length, h, e).transpose(1, 2) for length in (queries, keys, keys)), is_causal=causal
        ),
    )


def _wrong_by(case: Case, left_by_cudnn: Callable[[], str], target: str, dtype: Any) -> str | None:
    cudnn_gpu._plans.clear()
    cudnn_attention_gpu._plans.clear()
    exact, here = _computed(case, "cpu", tdt.float64, dtype), _computed(case, "cpu", dtype, dtype)
    there = _computed(case, target, dtype, dtype)
    if tdt.backends.cudnn.enabled and (left := left_by_cudnn()):
        return f"cuDNN has not computed {left}"
    return _too_far(exact, here, there, LEAST_OF[dtype])


def _left_by_cudnn() -> str:
    """Which of a convolution's result and gradients cuDNN has not computed, though they are its work."""
    plans = [*cudnn_gpu._plans.items()]
    left = [number for number, (_, (plan, _, _)) in enumerate(plans) if plan is None]
    if left == [2]:  # the gradient of the weights
        (key, (_, weights, last)), (_, size, _) = plans[2], plans[0][1]
        cut = conv_gpu.cut(weights, math.prod(size) // size[1], dict(key[8:])["groups"], key[4])[2] > 1
        left = [] if cut and key[4] == np.float32 and not last and len(size) < 5 else left
    return ", ".join(("the result", "the gradient of the images", "the gradient of the weights")[k] for k in left)


def _attention_left_by_cudnn() -> str:
    passes = {key[0] for key, plan in cudnn_attention_gpu._plans.items() if plan is not None}
    return ", ".join(
        name for name, backward in (("the result", False), ("the gradients", True)) if backward not in passes
    )


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "MLP": (lambda: nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 10)), (64, 8)),
    "convolutions": (
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10)),
        (16, 3, 8, 8),
    ),
    "transformer": (
        lambda: nn.Sequential(
            nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), nn.Flatten(), nn.Linear(128, 10)
        ),
        (16, 8, 16),
    ),
}


def check_graphs(target: str, done: Container[str] = ()) -> Iterator[tuple[str, str | None]]:
    """Whether steps of networks that are replayed from CUDA graphs have the bits of steps that are not."""
    yield from _compared(target, ("graph",), done)


def check_compiled(target: str, done: Container[str] = ()) -> Iterator[tuple[str, str | None]]:
    """The same for whole steps, and for losses with their gradients, that `tdt.compile` captures."""
    yield from _compared(target, ("step", "loss"), done)


def check_chains(target: str, done: Container[str] = ()) -> Iterator[tuple[str, str | None]]:
    """Whether chains of elementwise kernels, which are one launch in a CUDA graph, have the bits of single ones."""
    for (name, make), backward in itertools.product(CHAINS.items(), (False, True)):
        title = f"{name}, with gradients" if backward else name
        if title in done:
            continue
        try:
            step = make(backward, 64)
            expected = [t.cpu().numpy() for t in step()]
            captured = Captured(lambda places, step=step: step(), [], 0)
            captured.graph.launch()
            found = [t.cpu().numpy() for t in captured.result]
            agree = all(map(np.array_equal, found, expected))
            yield (
                title,
                None
                if agree
                else f"differ by {max(np.abs(a - b).max() for a, b in zip(found, expected, strict=True))}",
            )
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            yield title, f"{type(error).__name__}: {error}".partition("\n")[0]


def _compared(target: str, ways: tuple[str, ...], done: Container[str]) -> Iterator[tuple[str, str | None]]:
    for (name, (make, size)), way in itertools.product(NETWORKS.items(), ways):
        title = name if len(ways) == 1 else f"{name}, {way}"
        if title in done:
            continue
        try:
            plain, replayed = (_steps(make, size, target, each) for each in ("", way))
            agree = plain[0] == replayed[0] and all(map(np.array_equal, plain[1], replayed[1]))
            yield title, None if agree else f"losses {replayed[0]} by graphs, {plain[0]} without"
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            yield title, f"{type(error).__name__}: {error}".partition("\n")[0]


def _steps(
    make: Callable[[], nn.Module], size: tuple[int, ...], target: str, way: str
) -> tuple[list[float], list[np.ndarray]]:
    """The losses of some steps, and the parameters after them. way: "graph", what is compiled, or "" for neither."""
    tdt.manual_seed(5)
    model = make().to(target)
    update = tdt.optim.AdamW(model.parameters(), lr=1e-2)
    x = tdt.from_numpy(np.random.default_rng(1).standard_normal(size, np.float32)).to(target)
    y = tdt.from_numpy(_indices(size[0], below=10)).to(target)

    def loss_of(x: tdt.Tensor, y: tdt.Tensor) -> tdt.Tensor:
        return F.cross_entropy(model(x), y)

    if way == "loss":
        loss_of = tdt.compile(loss_of, fullgraph=True)

    def step(x: tdt.Tensor, y: tdt.Tensor) -> tdt.Tensor:
        update.zero_grad()
        loss = loss_of(x, y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        update.step()
        return loss

    if way == "step":
        step = tdt.compile(step, fullgraph=True)
    losses = [step(x, y) for _ in range(3)]
    if way == "graph":
        graph = tdt.cuda.CUDAGraph()
        with tdt.cuda.graph(graph):
            loss = step(x, y)
    for _ in range(5):
        if way == "graph":
            graph.replay()
            losses.append(loss.clone())
        else:
            losses.append(step(x, y))
    return [each.item() for each in losses], [p.detach().cpu().numpy() for p in model.parameters()]


def check_checkpoints(target: str, done: Container[str] = ()) -> Iterator[tuple[str, str | None]]:
    """Whether runs of each device are scored alike on both, and go on on the other."""
    with tempfile.TemporaryDirectory() as folder:
        for first, second in (("cpu", target), (target, "cpu")):
            name = f"{first} to {second}"
            if name in done:
                continue
            begun = _tdt(folder, "train", "digits-mlp", "--run-dir", first, f"device={first}", "train.epochs=1")
            scores = [_tdt(folder, "eval", first, "--device", device, "--json") for device in (first, second)]
            resumed = _tdt(folder, "train", "--resume", first, f"device={second}", "train.epochs=2")
            failed = next((done for done in (begun, *scores, resumed) if done.returncode), None)
            if failed is not None:
                yield name, failed.stderr.strip().rpartition("\n")[2] or "it failed without a message"
                continue
            here, there = (float(json.loads(done.stdout)["loss"]) for done in scores)  # a text where it is not finite
            yield (
                name,
                None if abs(here - there) <= 1e-4 * abs(here) else f"losses {here} and {there} of one checkpoint",
            )


def _tdt(folder: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    command, environment = [sys.executable, "-m", "tdt", *arguments], {**os.environ, "PYTHONPATH": paths}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


def sanitizer_program() -> str | None:
    """NVIDIA's compute-sanitizer, a part of CUDA's toolkit; None if there is none."""
    named = filter(None, map(os.environ.get, ("CUDA_HOME", "CUDA_PATH")))
    toolkits = *named, *sorted(glob.glob("/usr/local/cuda*"), reverse=True)
    folders = [
        os.environ.get("PATH", ""),
        *(os.path.join(t, part) for t in toolkits for part in ("bin", "compute-sanitizer")),
    ]
    return shutil.which("compute-sanitizer", path=os.pathsep.join(folders))


def sanitized(program: str, tool: str, target: str, seconds: float) -> tuple[str | None, str]:
    """(What compute-sanitizer finds in the kernels of `CASES`, or None; its last lines).

    Args:
        tool: memcheck, racecheck, synccheck or initcheck.
        seconds: that it may take.
    """
    command = [program, "--tool", tool, "--error-exitcode", "7", sys.executable, str(ROOT / "scripts/gpu_check"),
               "--only", "kernels", "--device", target, "--results", tempfile.gettempdir()]  # fmt: skip
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=max(seconds, 1))
    except subprocess.TimeoutExpired:
        return f"not done in {seconds:.0f} seconds", ""
    lines = [line for line in done.stdout.splitlines() if line.startswith("=========")]
    return (None if done.returncode == 0 else f"exit code {done.returncode}"), "\n".join(lines[-40:])
