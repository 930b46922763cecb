"""PyTorch's module database run on tdt: every layer that both have, built, run and differentiated side by side.

A layer is made twice from the same seed and arguments. Compared are its signature, `repr`, state, initial values,
results, gradients, buffers afterwards, a deep copy, and what it refuses.
"""

from __future__ import annotations

import copy
import functools
import inspect
import re
import typing
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.testing._internal.common_modules import (
    ErrorModuleInput,
    ModuleErrorEnum,
    ModuleInfo,
    ModuleInput,
    module_db,
)

import tdt
from tests.parity.compare import as_accurate
from tests.parity.convert import array_of, cloned, tensors_in, to_tdt
from tests.parity.module_samples import BEYOND
from tests.parity.opdb import seed_all

# Error in units of the largest value: sums are taken in other orders, and a layer is several of them.
TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-5}
# Initial values are PyTorch's to the bit where they are uniform; a normal one may differ in its last places.
ULPS = 4
# Their contents are compared; there is nothing to run.
WITHOUT_FORWARD = ("Module", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict", "Container", "RNNBase",
                   "RNNCellBase")  # fmt: skip


@dataclass
class Report:
    """What differs for one layer, what was compared, and the largest relative errors by dtype."""

    name: str
    problems: list[str] = field(default_factory=list)
    cases: int = 0
    errors: int = 0
    largest: dict[str, float] = field(default_factory=dict)

    def need(self, same: bool, text: str) -> None:
        """Note `text` as a difference unless `same`."""
        if not same:
            self.problems.append(text)


def public_layers() -> list[str]:
    """The module classes that `torch.nn` exports."""
    values = ((name, getattr(torch.nn, name)) for name in dir(torch.nn))
    return sorted(name for name, v in values if inspect.isclass(v) and issubclass(v, torch.nn.Module))


INFO: dict[str, list[ModuleInfo]] = {}
for _info in module_db:
    INFO.setdefault(_info.module_cls.__name__, []).append(_info)


def samples(name: str, dtype: torch.dtype, training: bool) -> list[ModuleInput]:
    """Arguments for the constructor and for a call."""
    seed_all()
    how = {"device": "cpu", "dtype": dtype, "requires_grad": True, "training": training}
    collected = [s for info in INFO.get(name, ()) for s in info.module_inputs_func(info, **how)]
    return collected + (BEYOND[name](dtype) if name in BEYOND else [])


def differs_in_training(name: str) -> bool:
    """Whether a layer may compute something else in training mode: where not, one sample asks for evaluation mode."""
    return any(info.train_and_eval_differ for info in INFO.get(name, ())) or name in BEYOND


def error_samples(name: str) -> Iterator[ErrorModuleInput]:
    """Arguments that a layer refuses."""
    for info in INFO.get(name, ()):
        if info.module_error_inputs_func:
            seed_all()
            yield from info.module_error_inputs_func(
                info, device="cpu", dtype=torch.float64, requires_grad=True, training=True
            )


def check(name: str) -> Report:
    """All checks of one layer."""
    report = Report(name)
    _signature(report)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dtype in TOLERANCE:
            for training in (True, False):
                every = samples(name, dtype, training)
                for number, sample in enumerate(every if training or differs_in_training(name) else every[:1]):
                    where = f"sample {number} ({sample.desc}), {dtype}, {'train' if training else 'eval'}: "
                    _compare(report, sample, dtype, training, where, number == 0)
        for sample in error_samples(name):
            _refused(report, sample)
    return report


def _signature(report: Report) -> None:
    ours, theirs = (_parameters(getattr(lib.nn, report.name)) for lib in (tdt, torch))
    report.need(ours == theirs, f"signature: tdt {ours}, PyTorch {theirs}")


def _parameters(cls: type) -> list[tuple[str, str]]:
    """Names, with their kind where it is not the usual one, and defaults of a constructor's parameters."""
    if cls.__init__ is torch.nn.Module.__init__:  # type: ignore[misc]  # says (*args, **kwargs) and takes none
        return []
    overloads = typing.get_overloads(cls.__init__)  # type: ignore[misc]  # recurrent layers say there what they take
    listed = list(inspect.signature(overloads[0] if overloads else cls.__init__).parameters.values())[1:]  # type: ignore[misc]
    usual = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return [(p.name if p.kind is usual else f"{p.kind.description} {p.name}", _written(p.default)) for p in listed]


def _written(default: Any) -> str:
    if default is inspect.Parameter.empty:
        return "needed"
    text = getattr(default, "__name__", None) or repr(default)
    return text.removeprefix("torch.").removeprefix("tdt.")


def build(name: str, sample: ModuleInput, dtype: torch.dtype, training: bool) -> tuple[Any, Any]:
    """The layer in tdt and in PyTorch, from one seed."""
    constructor_input = sample.constructor_input
    takes_dtype = "dtype" in inspect.signature(getattr(torch.nn, name).__init__).parameters
    layers = []
    for lib in (tdt, torch):
        lib.manual_seed(3)
        args, kwargs = (
            cloned((constructor_input.args, constructor_input.kwargs))
            if lib is torch
            else to_tdt((constructor_input.args, constructor_input.kwargs))
        )
        own_dtype = to_tdt(dtype) if lib is tdt else dtype
        if takes_dtype:
            kwargs.setdefault("dtype", own_dtype)
        layer = getattr(lib.nn, name)(*args, **kwargs)
        layers.append((layer if takes_dtype else layer.to(own_dtype)).train(training))
    return layers[0], layers[1]


def _compare(report: Report, sample: ModuleInput, dtype: torch.dtype, training: bool, where: str, first: bool) -> None:
    ours, theirs = build(report.name, sample, dtype, training)
    report.need(_normal(repr(ours)) == _normal(repr(theirs)), f"{where}repr:\n{ours!r}\nPyTorch:\n{theirs!r}")
    if not _is_lazy(theirs):
        _same_state(report, where + "initial ", ours, theirs)
    if report.name in WITHOUT_FORWARD or sample.forward_input is None:
        report.cases += 1
        return
    copied = copy.deepcopy(ours) if first else None
    args, kwargs = cloned((sample.forward_input.args, sample.forward_input.kwargs))
    our_args, our_kwargs = to_tdt((args, kwargs))
    results = []
    for lib, layer, a, k in ((tdt, ours, our_args, our_kwargs), (torch, theirs, args, kwargs)):
        lib.manual_seed(5)
        results.append(layer(*a, **k))
    outputs = [tensors_in(_plain(r), lib.Tensor) for lib, r in zip((tdt, torch), results, strict=True)]
    _near(report, where + "result", dtype, *outputs)
    inputs = tensors_in((our_args, our_kwargs), tdt.Tensor), tensors_in((args, kwargs), torch.Tensor)
    doubles = functools.partial(_doubles, report.name, sample, training)
    _gradients(report, where, dtype, outputs, (ours, theirs), inputs, doubles)
    _near(report, where + "buffers", dtype, list(ours.buffers()), list(theirs.buffers()))
    if copied is not None:
        tdt.manual_seed(5)
        again = tensors_in(_plain(copied(*our_args, **our_kwargs)), tdt.Tensor)
        same = [np.array_equal(a.numpy(force=True), b.numpy(force=True), equal_nan=True)
                for a, b in zip(again, outputs[0], strict=True)]  # fmt: skip
        report.need(all(same) or training, where + "a deep copy gives other numbers")
    report.cases += 1


def _is_lazy(layer: Any) -> bool:
    return isinstance(layer, torch.nn.modules.lazy.LazyModuleMixin)


def _plain(result: Any) -> Any:
    """Packed sequences and other named tuples as plain ones."""
    return tuple(_plain(r) for r in result) if isinstance(result, tuple | list) else result


def _same_state(report: Report, where: str, ours: Any, theirs: Any) -> None:
    our_state, their_state = ours.state_dict(), theirs.state_dict()
    report.need(
        list(our_state) == list(their_state), f"{where}state: tdt {list(our_state)}, PyTorch {list(their_state)}"
    )
    report.need([n for n, _ in ours.named_modules()] == [n for n, _ in theirs.named_modules()], where + "named_modules")
    for key, value in their_state.items():
        if key not in our_state or not isinstance(value, torch.Tensor):
            continue
        a, b = our_state[key].detach()._a, array_of(value)
        same = a.shape == b.shape and a.dtype == b.dtype
        if same and a.dtype.kind in "fc":
            unit = ULPS * np.spacing(np.abs(b)) if a.dtype.kind == "f" else 1e-6 * np.abs(b)
            same = bool(((a == b) | (np.abs(a - b) <= unit) | ((a != a) & (b != b))).all())
        elif same:
            same = bool((a == b).all())
        report.need(same, f"{where}{key}: tdt {a.dtype} {a.shape}, PyTorch {b.dtype} {b.shape}, or other values")


def _doubles(name: str, sample: ModuleInput, training: bool, seeds: dict[int, torch.Tensor], what: str) -> list:
    """PyTorch's gradients of what `build` makes in float32, computed in float64; seeds: those of the results by place."""
    layer = build(name, sample, torch.float32, training)[1].double()
    arguments = cloned((sample.forward_input.args, sample.forward_input.kwargs), {torch.float32: torch.float64})
    torch.manual_seed(5)
    outputs = tensors_in(_plain(layer(*arguments[0], **arguments[1])), torch.Tensor)
    torch.autograd.backward([outputs[i] for i in seeds], [g.double() for g in seeds.values()])
    group = tensors_in(arguments, torch.Tensor) if what == "input" else layer.parameters()
    return [t.grad for t in group if t.grad is not None]


def _gradients(
    report: Report, where: str, dtype: torch.dtype, outputs: list[list], layers: tuple, inputs: tuple, doubles: Callable
) -> None:
    ours, theirs = outputs
    differentiable = [i for i, r in enumerate(theirs) if r.requires_grad]
    report.need(
        [r.requires_grad for r in ours] == [r.requires_grad for r in theirs], where + "requires_grad of results"
    )
    random = np.random.default_rng(0)
    seeds = [torch.from_numpy(random.standard_normal(theirs[i].shape)).to(theirs[i].dtype) for i in differentiable]
    if not differentiable or report.problems:
        return
    torch.autograd.backward([theirs[i] for i in differentiable], seeds)
    tdt.autograd.backward([ours[i] for i in differentiable], to_tdt(seeds))
    for what, our_tensors, their_tensors in (
        ("input", inputs[0], inputs[1]),
        ("parameter", list(layers[0].parameters()), list(layers[1].parameters())),
    ):
        grads = [[t.grad for t in group] for group in (our_tensors, their_tensors)]
        have = [[g is not None for g in group] for group in grads]
        report.need(have[0] == have[1], f"{where}{what}s with a gradient: tdt {have[0]}, PyTorch {have[1]}")
        dense = [[g.to_dense() if g.is_sparse else g for g in group if g is not None] for group in grads]
        exact = functools.partial(doubles, dict(zip(differentiable, seeds, strict=True)), what)
        _near(report, f"{where}gradient of {what}", dtype, *dense, exact if dtype is torch.float32 else None)


def _near(
    report: Report, what: str, dtype: torch.dtype, ours: list, theirs: list, exact: Callable[[], list] | None = None
) -> None:
    """Compare lists of tensors. exact: gives the truth for sums so long that PyTorch's too is beyond the tolerance."""
    report.need(len(ours) == len(theirs), f"{what}: {len(ours)} tensors, PyTorch {len(theirs)}")
    for i, (actual, expected) in enumerate(zip(ours, theirs, strict=False)):
        a, b = actual.detach()._a, array_of(expected)
        if a.shape != b.shape or a.dtype != b.dtype:
            report.need(False, f"{what} {i}: tdt {a.dtype} {a.shape}, PyTorch {b.dtype} {b.shape}")
            continue
        if a.dtype.kind not in "fc":
            report.need(bool((a == b).all()), f"{what} {i} differs: tdt {a}, PyTorch {b}")
            continue
        sure = np.isfinite(b)
        same = bool(((a == b) | ((a != a) & (b != b)))[~sure].all())
        scale = max(float(np.abs(b[sure]).max(initial=0)), 1e-30)
        worst = float(np.abs(a[sure] - b[sure]).max(initial=0)) / scale
        kind = str(dtype).removeprefix("torch.")
        report.largest[kind] = max(report.largest.get(kind, 0.0), worst)
        close = worst <= TOLERANCE[dtype] or (exact is not None and as_accurate(actual, expected, exact()[i]))
        report.need(same and close, f"{what} {i}: relative error {worst:.2g}, non-finite alike: {same}")


def _refused(report: Report, sample: ErrorModuleInput) -> None:
    error_input = sample.module_error_input
    ours, theirs = (_attempt(report.name, lib, error_input, sample.error_on) for lib in (tdt, torch))
    if theirs is None:  # the database is wrong about this one
        return
    report.errors += 1
    report.need(type(ours) is type(theirs), f"refusal of {error_input.desc!r}: tdt {ours!r}, PyTorch {theirs!r}")
    message = str(ours).replace("tdt.", "torch.")
    report.need(bool(re.search(sample.error_regex, message)), f"refusal: tdt says {ours}, PyTorch {theirs}")


def _attempt(name: str, lib: Any, module_input: ModuleInput, stage: ModuleErrorEnum) -> Exception | None:
    convert: Callable[[Any], Any] = to_tdt if lib is tdt else cloned
    args, kwargs = convert((module_input.constructor_input.args, module_input.constructor_input.kwargs))
    inputs = (
        convert((module_input.forward_input.args, module_input.forward_input.kwargs))
        if module_input.forward_input
        else ((), {})
    )
    try:
        layer = getattr(lib.nn, name)(*args, **kwargs)
        if stage is ModuleErrorEnum.FORWARD_ERROR:
            layer.double()(*inputs[0], **inputs[1])
    except Exception as error:  # noqa: BLE001  (the error is the answer that is compared)
        return error
    return None


def _normal(text: str) -> str:
    """A repr without the libraries' own names."""
    return text.replace("torch.", "").replace("tdt.", "")
