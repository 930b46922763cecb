"""What `scripts/gpu_check speed` and `reserve` measure: training steps of four models, against PyTorch on the same GPU."""

from __future__ import annotations

import cProfile
import pstats
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks import workloads

Step = Callable[[], Any]
BLOCKS = 5  # alternating blocks of steps of each contestant; the median of each counts

IMAGES = {"small": 16, "medium": 128, "large": 1024}


def mlp(library: Any) -> Any:
    """784 → 512 → 256 → 10."""
    nn = library.nn
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))


# name → (model of a library, shape of a sample or the length of a text, classes, batch by size)
WORKLOADS: dict[str, tuple[Callable[[Any], Any], Any, int, dict[str, int]]] = {
    "mlp": (mlp, (784,), 10, IMAGES),
    "lenet": (workloads.lenet, (1, 28, 28), 10, IMAGES),
    "resnet20": (workloads.resnet20, (3, 32, 32), 10, {"small": 8, "medium": 64, "large": 512}),
    "gpt": (lambda library: workloads.gpt_model(library, 4, 4, 128, 64, 65), 64, 65,
            {"small": 2, "medium": 16, "large": 128}),
}  # fmt: skip


def step_of(library: Any, name: str, size: str, device: str, how: str = "", exact: bool = False) -> Step:
    """A step of training that leaves its loss on the device.

    Args:
        how: "compiled": the model is; "compiled step": the whole step; "graph": the step is replayed from a CUDA graph.
        exact: in float64 and without dropout, so that two libraries have one loss.
    """
    build, sample, classes, batches = WORKLOADS[name]
    rng, batch = np.random.default_rng(0), batches[size]
    library.manual_seed(0)
    model = build(library).to(device)
    if isinstance(sample, int):
        x = rng.integers(0, classes, (batch, sample))
        y = rng.integers(0, classes, batch * sample)
    else:
        x, y = rng.standard_normal((batch, *sample), np.float32), rng.integers(0, classes, batch)
    x, y = library.from_numpy(x).to(device), library.from_numpy(y).to(device)
    if exact:
        model.double()
        x = x.double() if x.is_floating_point() else x
        for layer in model.modules():
            if isinstance(layer, library.nn.Dropout):
                layer.p = 0.0
    optimizer = library.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    called, loss_of = library.compile(model) if how == "compiled" else model, library.nn.CrossEntropyLoss()

    def step() -> Any:
        optimizer.zero_grad()
        loss = loss_of(called(x), y)
        loss.backward()
        optimizer.step()
        return loss

    if how == "compiled step":
        return library.compile(step)
    return _graphed(library, step) if how == "graph" else step


def _graphed(library: Any, step: Step) -> Step:
    """A captured step, after some in the stream of the capture, as PyTorch requires."""
    cuda = library.cuda
    side, graph = cuda.Stream(), cuda.CUDAGraph()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        for _ in range(3):
            step()
    cuda.current_stream().wait_stream(side)
    with cuda.graph(graph, stream=side):
        loss = step()

    def replay(held: Step = step) -> Any:  # the graph reads and writes the memory of its model, and of its batch
        graph.replay()
        return loss

    return replay


def measure(name: str, size: str, device: str, contestants: dict[str, tuple[Any, str]], steps: int) -> dict[str, Any]:
    """Milliseconds a step, the last loss and the peak of memory, by contestant; an error's text where one fails.

    contestants: name → (library, "", or "compiled" or another, as of `step_of`).
    """
    ready: dict[str, tuple[Any, Step]] = {}
    found: dict[str, Any] = {}
    for who, (library, how) in contestants.items():
        try:
            before = _peak(library, device, reset=True)
            step = step_of(library, name, size, device, how)
            for _ in range(6 if how.startswith("compiled") else 3):  # the fourth is captured, and a fifth backward pass
                step()
            _peak(library, device, reset=True)
            loss = step().detach().item()
            found[who] = {"loss": loss, "peak_bytes": _peak(library, device) - before, "ms": []}
            ready[who] = library, step
            if not how and size == "small":
                found[who]["exact loss"] = _exact_loss(library, name, device)
        except Exception as error:  # noqa: BLE001 - one contestant must not end the others' measurement
            found[who] = {"error": f"{type(error).__name__}: {str(error).splitlines()[:1]}"}
    for _ in range(BLOCKS):
        for who, (library, step) in list(ready.items()):
            try:
                found[who]["ms"].append(_block(library, step, device, steps))
            except Exception as error:  # noqa: BLE001 - likewise
                found[who] = {"error": f"{type(error).__name__}: {str(error).splitlines()[:1]}"}
                del ready[who]
    for who in ready:
        found[who]["ms"] = statistics.median(found[who]["ms"])
    return found


def _exact_loss(library: Any, name: str, device: str, steps: int = 10) -> float:
    """The loss after some steps in float64: in float32 rounding alone sets those of a network with batch norm apart."""
    step = step_of(library, name, "small", device, exact=True)
    return [step() for _ in range(steps)][-1].detach().item()


def _block(library: Any, step: Step, device: str, steps: int) -> float:
    _wait(library, device)
    began = time.perf_counter()
    for _ in range(steps):
        step()
    _wait(library, device)
    return (time.perf_counter() - began) / steps * 1000


def _wait(library: Any, device: str) -> None:
    if device.startswith("cuda"):
        library.cuda.synchronize()


def _peak(library: Any, device: str, reset: bool = False) -> int:
    if not device.startswith("cuda"):
        return 0
    if reset:
        library.cuda.reset_peak_memory_stats()
    return int(library.cuda.max_memory_allocated())


def ratios(found: dict[str, Any]) -> dict[str, float]:
    """How many times as fast the first contestant is as each other one that ran."""
    (_, first), *others = found.items()
    ours = first.get("ms")
    return {who: each["ms"] / ours for who, each in others if ours and "ms" in each}


def apart(found: dict[str, Any]) -> bool:
    """Whether tdt and PyTorch have other losses after the same steps in float64, by more than 1e-6 of them."""
    ours, theirs = (found.get(who, {}).get("exact loss") for who in ("tdt", "torch"))
    return ours is not None and theirs is not None and abs(ours - theirs) > 1e-6 * max(1.0, abs(theirs))


LEAST, LEAST_OF_SMALL = 1.0, 3.0  # times PyTorch's eager speed: of eager steps, and at best, where batches are small
MOST_MEMORY = 1.1  # times PyTorch's


def behind(found: dict[str, Any], size: str, on_gpu: bool) -> list[str]:
    """What of tdt's steps failed, has another loss than PyTorch's, is slower, or takes more memory than it may."""
    wrong = [f"{who} failed" for who, each in found.items() if who.startswith("tdt") and "error" in each]
    ours, theirs = (found.get(who, {}) for who in ("tdt", "torch"))
    if apart(found):
        wrong.append(f"loss {ours['exact loss']:.9f}, PyTorch's {theirs['exact loss']:.9f}")
    if "ms" not in ours or "ms" not in theirs:
        return wrong
    if (ratio := theirs["ms"] / ours["ms"]) < LEAST:
        wrong.append(f"{ratio:.2f} times as fast as PyTorch's eager steps")
    best = theirs["ms"] / min(each["ms"] for who, each in found.items() if who.startswith("tdt") and "ms" in each)
    if on_gpu and size == "small" and best < LEAST_OF_SMALL:
        wrong.append(f"at best {best:.2f} times as fast as PyTorch's eager steps")
    if on_gpu and size == "large" and ours["peak_bytes"] > MOST_MEMORY * theirs["peak_bytes"]:
        wrong.append(f"{ours['peak_bytes'] / theirs['peak_bytes']:.2f} times PyTorch's memory")
    return wrong


def profile(library: Any, name: str, size: str, device: str, steps: int) -> Iterator[str]:
    """The functions that take most of the host's time in steps of a workload."""
    step = step_of(library, name, size, device)
    step()
    _wait(library, device)
    profiler = cProfile.Profile()
    profiler.enable()
    for _ in range(steps):
        step()
    _wait(library, device)
    profiler.disable()
    times: Any = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    total = sum(row[2] for row in times.values()) or 1.0
    for (file, line, function), row in sorted(times.items(), key=lambda item: -item[1][2])[:25]:
        yield f"{row[2] / total:6.1%} {row[2] / steps * 1e6:9.1f} µs a step {row[0] / steps:8.1f} calls  {function} {file}:{line}"
