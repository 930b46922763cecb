"""What `scripts/gpu_check` checks: every op sample and every bundled config on a GPU, held to the CPU."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import itertools
import math
import pkgutil
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tdt
import tdt._ops
from tdt._backend import to_device
from tdt._backend.device import CPU, device
from tdt._core.tensor import wrap
from tdt.autograd._op_table import OPS
from tests.configs.small_data import OVERRIDES, write_all
from tests.samples import TABLE, Call

DTYPES = ("float64", "float32", "bfloat16", "float16")
# Of the largest expected magnitude: a GPU adds up in another order and has its own exp and sin.
TOLERANCE = {"float64": 1e-8, "float32": 1e-4, "bfloat16": 3e-2, "float16": 4e-3}
# Dropout draws other numbers on a GPU: without it the losses of both devices are those of one computation.
NO_DROPOUT = {
    "char-gpt": ["model.blocks=Repeat(4, transformer(128, 4, 512, 0))"],
    "digits-cnn": ['model.classifier=[LazyLinear(128), ReLU, "Linear(128, 10)"]'],
    "mlp": ['model=[Flatten, "dense(784, 512, 0)", "dense(512, 256, 0)", "Linear(256, 10)"]'],
}
SLOW = {"char-gpt", "char-lstm", "resnet20", "vgg11"}  # on a CPU
COMPLEX = {"float64": "complex128", "float32": "complex64"}
ROOT = Path(__file__).resolve().parents[1]


@dataclasses.dataclass
class Check:
    """One op in one dtype, forward or backward: how many calls agreed, seconds on the GPU, and what went wrong."""

    name: str
    dtype: str
    agreed: int = 0
    seconds: float = 0.0
    wrong: list[str] = dataclasses.field(default_factory=list)


@functools.cache
def sampled_ops() -> list[str]:
    """The names of all ops that have samples; their modules are imported."""
    for module in pkgutil.walk_packages(tdt._ops.__path__, "tdt._ops."):
        importlib.import_module(module.name)
    return sorted(set(OPS) & set(TABLE))


def check_ops(target: device, names: Iterable[str], dtypes: Iterable[str], values: bool = True) -> Iterator[Check]:
    """For each op and dtype a forward and a backward check; a call that the CPU refuses in that dtype is left out.

    In float32 also with operands that are parts of larger tensors. values: compare values too, not only dtypes and shapes.
    """
    sampled_ops()
    for name in names:
        for dtype, parts, backward in itertools.product(dtypes, (False, True), (False, True)):
            if parts and dtype != "float32":
                continue
            check = Check(name + " of parts" * parts + " backward" * backward, dtype)
            for call in TABLE[name].calls:
                _check_call(check, name, call, target, backward, parts, values)
            if check.agreed or check.wrong:
                yield check


def _check_call(check: Check, name: str, call: Call, target: device, backward: bool, parts: bool, values: bool) -> None:
    if backward and not call.grad:
        return
    try:
        expected = _results(name, call, CPU, check.dtype, backward, parts)
    except (TypeError, ValueError, RuntimeError, NotImplementedError):  # the CPU refuses this dtype
        return
    if not expected:
        return
    began = time.perf_counter()
    try:
        got = _results(name, call, target, check.dtype, backward, parts)
        problem = _difference(name, got, expected, check.dtype, target, backward, values)
    except Exception as error:  # noqa: BLE001 - that is what is looked for
        problem = f"{type(error).__name__}: {_first_line(error)} ({_place(error)})"
    check.seconds += time.perf_counter() - began
    if problem:
        check.wrong.append(problem)
    else:
        check.agreed += 1


def _results(
    name: str, call: Call, target: device, dtype: str, backward: bool, parts: bool = False
) -> list[tdt.Tensor | None]:
    """The outputs, or the gradients of their distances from a number by all operands that can have one."""
    tdt.manual_seed(3)
    inputs = [_operand(a, target, dtype, backward, parts) for a in call.operands]
    out = OPS[name](*inputs, **call.attributes)
    if TABLE[name].unique is not None:  # eigenvectors have a free sign or phase; the samples take that out on the CPU
        out = TABLE[name].unique(*[t.cpu().to(tdt.complex128 if t.is_complex() else tdt.float64) for t in out])
    outs = list(out) if isinstance(out, tuple | list) else [out]
    if not backward:
        return list(outs)
    ways = [t for t in outs if t.requires_grad and (t.is_floating_point() or t.is_complex())]
    leaves = [t for t in inputs if isinstance(t, tdt.Tensor) and t.requires_grad]
    if not ways or not leaves:
        return []
    # Where a sum is about 0, its sign, the gradient of abs, depends on rounding.
    return list(tdt.autograd.grad([(t - 0.2345).abs().sum() for t in ways], leaves, allow_unused=True))


def _operand(value: Any, target: device, dtype: str, requires_grad: bool, parts: bool) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype == np.float64:
        value = value.astype(getattr(tdt, dtype).np)
    elif value.dtype == np.complex128:
        if dtype not in COMPLEX:
            raise TypeError(f"there are no complex numbers of {dtype}")
        value = value.astype(COMPLEX[dtype])
    x = wrap(to_device(value.copy(order="K"), target))
    if parts and x.ndim:  # every second entry of a tensor twice as large
        whole = tdt.full([2 * n + 1 for n in x.shape], 77, dtype=x.dtype, device=x.device)
        x = whole[(slice(1, None, 2),) * x.ndim].copy_(x).detach()
    return x.requires_grad_() if requires_grad and (x.is_floating_point() or x.is_complex()) else x


def _difference(
    name: str, got: list, expected: list, dtype: str, target: device, backward: bool, values: bool
) -> str | None:
    """What is wrong with `got`, or None."""
    if name == "to_device" or (not backward and TABLE[name].unique is not None):  # on the CPU in any case
        target = device("cpu")
    for k, (g, e) in enumerate(zip(got, expected, strict=True)):
        if (g is None) != (e is None):
            return f"result {k} is {'missing' if g is None else 'there, but not on the CPU'}"
        if g is None:
            continue
        if g.device.type != target.type or target.index not in (None, g.device.index):
            return f"result {k} is on {g.device}"
        if g.dtype != e.dtype or g.shape != e.shape:
            return f"result {k} is {g.dtype} {tuple(g.shape)}, on the CPU {e.dtype} {tuple(e.shape)}"
    if not values or OPS[name].random:
        return None
    pairs = [(_dense(g), _dense(e)) for g, e in zip(got, expected, strict=True) if e is not None]
    return next((apart for g, e in pairs if (apart := _apart(g, e, dtype))), None)


def _dense(x: tdt.Tensor) -> np.ndarray:
    x = (x.to_dense() if x.is_sparse else x).detach().cpu()
    return x.double().numpy() if x.dtype in (tdt.bfloat16, tdt.float16) else x.numpy()


def _apart(got: np.ndarray, expected: np.ndarray, dtype: str) -> str | None:
    if expected.dtype.kind not in "fc":
        return None if np.array_equal(got, expected) else f"{np.sum(got != expected)} of {expected.size} values differ"
    finite = np.abs(expected[np.isfinite(expected)])
    limit = TOLERANCE[dtype] * max(1.0, float(finite.max(initial=0.0)))
    if np.allclose(got, expected, rtol=0, atol=limit, equal_nan=True):
        return None
    with np.errstate(invalid="ignore"):
        return f"differs by {np.nanmax(np.abs(got - expected)):.1e}, allowed {limit:.1e}"


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0].partition("array(")[0][:160]


def _place(error: BaseException) -> str:
    """The last line of tdt that the error went through, of an op where there is one."""
    lines = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(str(ROOT / "tdt"))]
    inside = [f for f in lines if "/_ops/" in f.filename] or lines
    return f"{Path(inside[-1].filename).relative_to(ROOT)}:{inside[-1].lineno}" if inside else "outside of tdt"


@dataclasses.dataclass
class Training:
    """A bundled config after some steps: the training losses, seconds a step after the first, and what went wrong."""

    name: str
    losses: list[float] = dataclasses.field(default_factory=list)
    seconds: float = math.nan
    wrong: str | None = None


def compare_config(name: str, target: str) -> str | None:
    """How the first losses of a bundled config differ from those on the CPU; None where they agree within 1e-4."""
    steps = 2 if name in SLOW else 5
    here, there = (check_config(name, device, steps, NO_DROPOUT.get(name, ())) for device in ("cpu", target))
    if (wrong := here.wrong or there.wrong) is not None:
        return wrong
    apart = max(abs(a - b) / max(abs(a), 1e-30) for a, b in zip(here.losses, there.losses, strict=True))
    return None if apart <= 1e-4 else f"losses {there.losses} differ from the CPU's {here.losses}"


def check_config(name: str, target: str, steps: int, overrides: Iterable[str] = ()) -> Training:
    """Train a bundled config for `steps` steps, on small made-up data where its own must be downloaded.

    overrides: changes of the config, as on the command line.
    """
    from tdt.train.config import load
    from tdt.train.logging.events import Event, StepDone
    from tdt.train.session import Session

    done = Training(name)
    times: list[float] = []

    def on_event(event: Event) -> None:
        if isinstance(event, StepDone):
            times.append(time.perf_counter())
            done.losses += [value for key, value in event.scalars.items() if key == "train/loss"]

    with tempfile.TemporaryDirectory() as folder, write_all(Path(folder)) as data:
        changes = [f"device={target}", f"train.steps={steps}", f"train.epochs={steps}", *overrides]
        changes += [f"log.every={max(1, steps // 10)} steps", "data.loader.drop_last=false"]
        try:
            config = load(name, [*changes, *OVERRIDES.get(name, lambda data: [])(data)])
            with Session.start(config, root=Path(folder) / "runs") as session:
                session.train(on_event)
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            done.wrong = f"{type(error).__name__}: {_first_line(error)} ({_place(error)})"
    if len(times) > 1:
        done.seconds = (times[-1] - times[0]) / (len(times) - 1)
    if done.wrong is None and not (done.losses and all(map(math.isfinite, done.losses))):
        done.wrong = f"losses are not finite: {done.losses[-3:]}"
    return done
