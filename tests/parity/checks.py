"""The checks of every op in PyTorch's op database; each returns a Report of its cases."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

import tdt
from tests.parity.compare import (
    as_accurate,
    difference,
    error_difference,
    first_clause,
    gradient_difference,
    strides_of,
)
from tests.parity.convert import PRECISE, Unconvertible, cloned, tensors_in, to_tdt
from tests.parity.deviations import ANY_STRIDES, OTHER_NODES, UNIQUE
from tests.parity.opdb import (
    REFUSED,
    Report,
    ask,
    attempt,
    dtypes_of,
    full_name,
    is_lambda,
    lookup_torch,
    ours,
    quiet,
    samples,
    samples_refused,
    seed_all,
    some,
    written_name,
)
from tests.parity.rebind import over_tdt

DIFFERENTIABLE = (torch.float64, torch.complex128)
MOST_WITH_OUT = 24  # samples of a dtype other than float64, each of which is asked with four targets
NODES_UNASKED = {name for names in OTHER_NODES.values() for name in names.split()}


def check_values(info: OpInfo) -> Report:
    """Value, dtype, shape, strides, aliasing and requires_grad of the function, for each dtype; strided inputs too."""
    report = Report(full_name(info))
    our = ours(info)
    assert our is not None
    with quiet():
        for dtype in dtypes_of(info):
            grad = dtype in DIFFERENTIABLE and info.supports_autograd
            chosen = samples(info, dtype, requires_grad=grad)
            if dtype in (torch.float64, torch.int64):
                chosen += tuple(s.noncontiguous() for s in chosen[:2] if _all_strided(s))
            for s in chosen:
                arguments = arguments_of(s)
                ask(report, "value", dtype, written_name(info), info.op, our, arguments, _values_agree(info, arguments))
    return report


def arguments_of(s: SampleInput) -> tuple[tuple, dict]:
    """The arguments of a sample: positional ones, and by name."""
    return (s.input, *s.args), s.kwargs


def _all_strided(s: SampleInput) -> bool:
    return all(t.layout is torch.strided for t in tensors_in((s.input, s.args, s.kwargs), torch.Tensor))


def _values_agree(info: OpInfo, arguments: tuple[tuple, dict]) -> Callable[..., str | None]:
    def agree(result: Any, expected: Any, our_arguments: Any, their_arguments: Any) -> str | None:
        problem = _result_difference(info, arguments, result, expected)
        problem = problem or _memory_difference(
            result, expected, our_arguments, their_arguments, info.name not in ANY_STRIDES
        )
        return problem or (None if full_name(info) in NODES_UNASKED else _node_difference(result, expected))

    return agree


def _result_difference(info: OpInfo, arguments: tuple[tuple, dict], result: Any, expected: Any) -> str | None:
    """What differs in value, shape and dtype, where PyTorch itself is not just as far from the precise result."""
    a, b = _unique_parts(info, *arguments, result, expected)
    problem = difference(a, b, values=not info.has_nondeterministic_output)
    if problem and "value at" in problem and _rounds_alike(info, arguments, a, b):
        return None
    return problem


def _node_difference(result: Any, expected: Any) -> str | None:
    """The names of the nodes that made the results."""
    for a, b in zip(tensors_in(result, tdt.Tensor), tensors_in(expected, torch.Tensor), strict=True):
        our_name, their_name = (t.grad_fn.name() if t.grad_fn is not None else None for t in (a, b))
        if our_name is not None and their_name is not None and our_name != their_name:
            return f"grad_fn: tdt {our_name}, PyTorch {their_name}"
    return None


def _unique_parts(info: OpInfo, args: tuple, kwargs: dict, result: Any, expected: Any) -> tuple[Any, Any]:
    """What of the two results must be equal: all of them, or for the ops in UNIQUE what they determine."""
    unique = UNIQUE.get(full_name(info))
    if unique is None:
        return result, expected
    our_args, our_kwargs = to_tdt((args, kwargs))
    return over_tdt(unique)(our_args, our_kwargs, result), unique(args, kwargs, expected)


def _memory_difference(result: Any, expected: Any, arguments: Any, their_arguments: Any, strides: bool) -> str | None:
    """Strides, sharing of memory with the arguments, and requires_grad, of each tensor in the result."""
    inputs, their_inputs = tensors_in(arguments, tdt.Tensor), tensors_in(their_arguments, torch.Tensor)
    for a, b in zip(tensors_in(result, tdt.Tensor), tensors_in(expected, torch.Tensor), strict=True):
        if a.requires_grad != b.requires_grad:
            return f"requires_grad: tdt {a.requires_grad}, PyTorch {b.requires_grad}"
        # tdt has no lazy conjugation: conj() copies, and PyTorch's strides under a lazy bit are the argument's.
        if b.is_conj() or b.is_neg():
            continue
        if b.numel() and b.layout is torch.strided:
            start = b.untyped_storage().data_ptr()
            theirs = any(t.layout is torch.strided and t.untyped_storage().data_ptr() == start for t in their_inputs)
            ours_too = any(a._st is t._st for t in inputs)
            if theirs != ours_too:
                return f"memory shared with an argument: tdt {ours_too}, PyTorch {theirs}"
        if strides and b.layout is torch.strided and strides_of(a) != strides_of(b):
            return f"strides: tdt {a.stride()}, PyTorch {b.stride()} of shape {tuple(b.shape)}"
    return None


def check_variants(info: OpInfo) -> Report:
    """The method, the in-place method and `out=`, where PyTorch has them."""
    report = Report(full_name(info))
    our = ours(info)
    assert our is not None
    with quiet():
        for dtype in dtypes_of(info):
            for s in samples(info, dtype):
                if isinstance(s.input, torch.Tensor):
                    _ask_method(report, info, dtype, s, "method", info.method_variant)
                    _ask_method(report, info, dtype, s, "inplace", info.inplace_variant)
            if info.supports_out and not info.has_nondeterministic_output:
                listed = samples(info, dtype)
                for s in listed if dtype is torch.float64 else some(listed, MOST_WITH_OUT):
                    try:
                        _ask_out(report, info, dtype, s, our)
                    except Unconvertible as reason:
                        report.unasked[str(reason)] += 1
    return report


def _ask_method(report: Report, info: OpInfo, dtype: torch.dtype, s: SampleInput, check: str, method: Any) -> None:
    name = getattr(method, "__name__", None)
    if name is None or name == "<lambda>" or not hasattr(torch.Tensor, name):
        return
    code, arguments = "{}." + name, arguments_of(s)
    our = getattr(tdt.Tensor, name, None)
    if our is None:
        report.note(check, f"tdt.Tensor has no {name}", dtype, code, arguments)
        return

    def agree(result: Any, expected: Any, our_arguments: Any, their_arguments: Any) -> str | None:
        itself, theirs_too = result is our_arguments[0][0], expected is their_arguments[0][0]
        if check == "inplace" and itself != theirs_too:
            return f"returns the tensor itself: tdt {itself}, PyTorch {theirs_too}"
        return _result_difference(info, arguments, result, expected)

    ask(report, check, dtype, code, method, our, arguments, agree)


def _rounds_alike(info: OpInfo, arguments: tuple[tuple, dict], result: Any, expected: Any) -> bool:
    """Whether `result`, or what of it must be equal, is as close to double precision's as `expected`."""
    args, kwargs = cloned(arguments, PRECISE)
    exact, error = attempt(info.op, *args, **kwargs)
    if error is not None:
        return False
    unique = UNIQUE.get(full_name(info))
    return as_accurate(result, expected, exact if unique is None else unique(args, kwargs, exact))


def _ask_out(report: Report, info: OpInfo, dtype: torch.dtype, s: SampleInput, our: Callable) -> None:
    arguments = args, kwargs = arguments_of(s)
    theirs = cloned(arguments)
    expected, error = attempt(info.op, *theirs[0], **theirs[1])
    if error is not None or not tensors_in(expected, torch.Tensor) or isinstance(expected, list):
        return
    ours = to_tdt(arguments)
    for kind in ("resized", "strided", "other dtype", "needs grad"):
        target = _map_tensors(expected, lambda t, kind=kind: _target(t, kind))
        if any(t is None for t in (target if isinstance(target, tuple) else (target,))):
            continue
        by_triangles = info.name in ("tril", "triu", "linalg.lu", "lu_unpack")
        if kind == "strided" and by_triangles and any(t.dim() > 3 for t in tensors_in(expected, torch.Tensor)):
            continue  # PyTorch 2.13 writes outside of the memory of such a target
        copies = (theirs[0], {**theirs[1], "out": cloned(target)}), (ours[0], {**ours[1], "out": to_tdt(target)})
        ask(report, f"out= {kind}", dtype, written_name(info), info.op, our, (args, {**kwargs, "out": target}),
            functools.partial(_out_agrees, info, arguments), copies)  # fmt: skip


def _out_agrees(
    info: OpInfo, arguments: tuple, result: Any, expected: Any, our_arguments: Any, their_arguments: Any
) -> str | None:
    """`given`: the arguments without `out=`."""
    out, their_out = our_arguments[1]["out"], their_arguments[1]["out"]
    ours, theirs = tensors_in(out, tdt.Tensor), tensors_in(their_out, torch.Tensor)
    same, their_same = _same_tensors(result, ours), _same_tensors(expected, theirs)
    if same != their_same:
        return f"results that are the tensors given as out=: tdt {same}, PyTorch {their_same}"
    problem = _result_difference(info, arguments, out, their_out)
    return problem or (None if info.name in ANY_STRIDES else _stride_problem(ours, theirs))


def _stride_problem(ours: list, theirs: list) -> str | None:
    for a, b in zip(ours, theirs, strict=True):
        if strides_of(a) != strides_of(b):
            return f"strides of the target: tdt {a.stride()}, PyTorch {b.stride()}"
    return None


def _same_tensors(results: Any, targets: list) -> list[bool]:
    return [r is t for r, t in zip(tensors_in(results, type(targets[0])), targets)]  # noqa: B905 (a result may be None)


def _map_tensors(value: Any, function: Callable) -> Any:
    return tuple(function(v) for v in value) if isinstance(value, tuple) else function(value)


def _target(t: Any, kind: str) -> torch.Tensor | None:
    """A tensor to write into: empty, laid out backwards, of a narrower dtype, or one that needs a gradient."""
    if not isinstance(t, torch.Tensor):
        return None
    if kind == "resized":
        return torch.empty(0, dtype=t.dtype)
    if kind == "strided":
        return torch.zeros(tuple(t.shape)[::-1], dtype=t.dtype).permute(tuple(range(t.dim()))[::-1])
    if kind == "other dtype":
        return torch.zeros(t.shape, dtype=torch.int64 if t.dtype.is_floating_point else torch.float32)
    return torch.zeros(t.shape, dtype=t.dtype, requires_grad=True) if t.dtype in DIFFERENTIABLE else None


def check_errors(info: OpInfo) -> Report:
    """The class of the error for each error input; how many messages begin with PyTorch's words is counted."""
    report = Report(full_name(info))
    our = ours(info)
    assert our is not None
    if info.error_inputs_func is None:
        return report
    with quiet():
        seed_all()
        for e in info.error_inputs("cpu", set_seed=False):
            arguments = arguments_of(e.sample_input)
            args, kwargs = cloned(arguments)
            try:
                our_args, our_kwargs = to_tdt((args, kwargs))
            except Unconvertible as reason:
                report.unasked[str(reason)] += 1
                continue
            _, theirs = attempt(info.op, *args, **kwargs)
            _, error = attempt(our, *our_args, **our_kwargs)
            report.note("error", error_difference(error, theirs), "error input", written_name(info), arguments)
            report.raised += theirs is not None
            report.same_clause += None not in (error, theirs) and first_clause(error) == first_clause(theirs)  # type: ignore[arg-type]
    return report


WRONG_VALUES = ("a", None)
NAMED = re.compile(r"(\w+)\(\): argument '(\w+)' (?:\(position (\d+)\) )?must be")


def check_argument_names(info: OpInfo) -> Report:
    """Where a call with a value of the wrong kind names function, argument and position, they are PyTorch's.

    Asked of the function, the method and both in-place forms, for each argument of the sample with the most tensors.
    """
    report = Report(full_name(info))
    dtype = torch.float32 if torch.float32 in info.dtypes else next(iter(dtypes_of(info)), None)
    chosen = samples(info, dtype) if dtype is not None and not is_lambda(info) else ()
    if not chosen:
        return report
    args, kwargs = arguments_of(max(chosen, key=lambda s: sum(isinstance(a, torch.Tensor) for a in s.args)))
    with quiet():
        for code, theirs, our, method in _forms(info):
            places = [*range(method, len(args)), *kwargs]
            for place, wrong in itertools.product(places, WRONG_VALUES):
                changed = list(args)
                if isinstance(place, int):
                    changed[place] = wrong
                arguments = tuple(changed), kwargs if isinstance(place, int) else {**kwargs, place: wrong}
                try:
                    (their_args, their_kwargs), (our_args, our_kwargs) = cloned(arguments), to_tdt(arguments)
                except Unconvertible:
                    continue
                expected, found = (
                    NAMED.match(str(attempt(f, *a, **k)[1]))
                    for f, a, k in ((theirs, their_args, their_kwargs), (our, our_args, our_kwargs))
                )
                # PyTorch's functions that are made of others let these complain.
                if expected and found and code.replace(".", "_").endswith(("_" + expected[1], "}_" + expected[1])):
                    problem = (
                        None if found.groups() == expected.groups() else f"tdt: {found[0]}; PyTorch: {expected[0]}"
                    )
                    report.note("argument names", problem, dtype, code, arguments)
    return report


def _forms(info: OpInfo) -> Iterator[tuple[str, Any, Any, bool]]:
    """The function, the method, the in-place method and function: (how a listing calls it, theirs, ours, a method?)."""
    first = info.name
    for name in (first, f"{first}_"):
        for code, home, our_home in ((f"torch.{name}", torch, tdt), ("{}." + name, torch.Tensor, tdt.Tensor)):
            theirs, our = (
                lookup_torch(name) if home is torch else getattr(home, name, None),
                getattr(our_home, name, None),
            )
            if code == f"torch.{first}":
                our = ours(info)
            if callable(theirs) and callable(our):
                yield code, theirs, our, home is torch.Tensor


def check_gradients(info: OpInfo) -> Report:
    """First and second gradients against PyTorch's, in float64 and complex128.

    Where PyTorch allows it they are asked in place, too, and after a write to what the op returned.
    """
    report = Report(full_name(info))
    our = ours(info)
    assert our is not None
    if not info.supports_autograd:
        return report
    with quiet():
        for dtype in DIFFERENTIABLE:
            if dtype not in info.supported_backward_dtypes("cpu"):
                continue
            for i, s in enumerate(samples(info, dtype, requires_grad=True)):
                _ask_gradients(report, info, dtype, s, info.op, our)
                if i < 4 and dtype is torch.float64:
                    written = _written_to(torch, info.op), _written_to(tdt, our)
                    _ask_gradients(report, info, dtype, s, *written, "gradient after a write")
                method = info.inplace_variant
                name = getattr(method, "__name__", "<lambda>")
                if info.supports_inplace_autograd and i < 2 and not s.broadcasts_input and hasattr(tdt.Tensor, name):
                    their_call, our_call = _on_a_clone(method), _on_a_clone(getattr(tdt.Tensor, name))
                    _ask_gradients(report, info, dtype, s, their_call, our_call, "inplace gradient")
    return report


def _on_a_clone(method: Callable) -> Callable:
    return lambda x, *args, **kwargs: method(x.clone(), *args, **kwargs)


def _written_to(lib: Any, function: Callable) -> Callable:
    """The same results, whose memory has other values by the time of backward."""

    def called(*args: Any, **kwargs: Any) -> list:
        results = [t for t in tensors_in(function(*args, **kwargs), lib.Tensor) if t.requires_grad]
        copies = [t * 1 for t in results]
        with lib.no_grad():
            for t in results:
                t.mul_(1.5).add_(0.25)
        return copies

    return called


def _ask_gradients(report: Report, info: OpInfo, dtype: torch.dtype, s: SampleInput, theirs: Callable, ours: Callable,
                   check: str = "gradient") -> None:  # fmt: skip
    arguments = arguments_of(s)
    args, kwargs = cloned(arguments)
    try:
        our_args, our_kwargs = to_tdt(arguments)
    except Unconvertible as reason:
        report.unasked[str(reason)] += 1
        return
    order = 2 if info.supports_gradgrad else 1
    wrap, process = info.gradcheck_wrapper, s.output_process_fn_grad
    expected: list[tuple] = []
    run = functools.partial(wrap, theirs, *args, **kwargs)
    _, error = attempt(_gradients, torch, lambda: process(run()), (args, kwargs), order, expected)
    if error is not None:
        report.unasked[f"PyTorch has no gradient: {str(error)[:60]}"] += 1
        return

    def answer(our_args: tuple, our_kwargs: dict) -> None:
        found: list[tuple] = []
        our_run, our_process = functools.partial(over_tdt(wrap), ours, *our_args, **our_kwargs), over_tdt(process)
        _, error = attempt(_gradients, tdt, lambda: our_process(our_run()), (our_args, our_kwargs), order, found)
        for number, which in enumerate((check, f"second {check}")[: len(expected)]):
            if number < len(found):
                problem = gradient_difference(found[number], expected[number])
            else:
                problem = error_difference(error, None) or "tdt gives no gradient, PyTorch does"
            report.note(which, problem, dtype, written_name(info), arguments)
            if number >= len(found):
                return

    answer(our_args, our_kwargs)
    report.again.append(lambda: answer(*to_tdt(arguments)))


def _gradients(lib: Any, run: Callable, arguments: Any, order: int, found: list[tuple]) -> None:
    """Append to `found` the gradients of what `run()` returns in library `lib`, then the gradients of those."""
    leaves = [t for t in tensors_in(arguments, lib.Tensor) if t.requires_grad]
    outs = [t for t in tensors_in(run(), lib.Tensor) if t.requires_grad]
    if not outs:
        return
    vs = [lib.tensor(w, dtype=o.dtype, requires_grad=True) for w, o in zip(_weights(outs, 0), outs, strict=True)]
    first = lib.autograd.grad(outs, leaves, vs, allow_unused=True, create_graph=order > 1)
    found.append(tuple(first))
    again = [g for g in first if g is not None and g.requires_grad]
    if order > 1 and again:
        ws = [lib.tensor(w, dtype=g.dtype) for w, g in zip(_weights(again, 1), again, strict=True)]
        found.append(tuple(lib.autograd.grad(again, leaves + vs, ws, allow_unused=True)))


def _weights(outputs: list, seed: int) -> list[np.ndarray]:
    """Numbers in the shape of each output, drawn once for all calls."""
    start, weights = 0, []
    for t in outputs:
        parts = [np.resize(_draws(seed)[start + k :], tuple(t.shape)) for k in range(1 + t.is_complex())]
        weights.append(parts[0] if len(parts) == 1 else parts[0] + 1j * parts[1])
        start = (start + t.numel()) % 5_000
    return weights


@functools.cache
def _draws(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(10_000)


def check_refused(info: OpInfo) -> Report:
    """Dtypes that the entry does not name: the class of the error, or the result where PyTorch takes the call after all."""
    report = Report(full_name(info))
    our = ours(info)
    assert our is not None
    with quiet():
        for dtype in REFUSED:
            for s in samples_refused(info, dtype) if dtype not in info.dtypes else ():
                arguments = arguments_of(s)
                if _is_trivial(info, *arguments):
                    report.unasked["nothing to compute, which PyTorch does in any dtype"] += 1
                    continue
                ask(
                    report,
                    "refused",
                    dtype,
                    written_name(info),
                    info.op,
                    our,
                    arguments,
                    _values_agree(info, arguments),
                )
    return report


def _is_trivial(info: OpInfo, args: tuple, kwargs: dict) -> bool:
    """Whether PyTorch takes a call on empty tensors or single elements: kernels, where it checks dtypes, do not see it."""
    result, error = attempt(info.op, *args, **kwargs)
    sizes = {t.numel() for t in tensors_in((result, args, kwargs), torch.Tensor)}
    return error is None and (0 in sizes or sizes == {1})


CHECKS = {"values": check_values, "variants": check_variants, "gradients": check_gradients, "errors": check_errors,
          "refused": check_refused, "argument names": check_argument_names}  # fmt: skip
