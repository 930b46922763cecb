"""PyTorch's op database run on tdt: which ops are present, their samples, and one report per op and question.

A case is one call in both libraries: (op, check, dtype, sample), always with the same numbers.
"""

from __future__ import annotations

import functools
import itertools
import random
import types
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.testing._internal import common_utils
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo import core
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

import tdt
from tests.parity.attempts import attempt, quiet
from tests.parity.compare import error_difference
from tests.parity.convert import Unconvertible, cloned, tensors_in, to_tdt
from tests.parity.listing import call_code
from tests.parity.rebind import lookup, over_tdt

DTYPES = (torch.bool, torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32,
          torch.float64, torch.complex64, torch.complex128)  # fmt: skip
# PyTorch lacks most kernels of uint16, uint32 and uint64; NumPy has them all, and refusing what works serves no user.
REFUSED = (*DTYPES, torch.int8, torch.int16)
# Of max_pool and logspace the database makes up to 1,440 samples a dtype, a third of the time of all others together: of
# such long lists all are run in float64, and this many, drawn once and for all, in the other dtypes.
MANY = 200
# grid_sampler_3d has samples of up to five million numbers, 20 s of work, each beside a small one of the same modes.
LARGE = 100_000

# For each sample the database looks through the stack, source files and all, for the unittest.TestCase that calls it.
core.extract_test_fn = common_utils.extract_test_fn = lambda: None
# Without those devices, PyTorch's manual_seed notes for each what is to be done once there is one, with a stack trace.
torch.cuda.manual_seed_all = torch.xpu.manual_seed_all = torch.mtia.manual_seed_all = lambda seed: None


@dataclass
class Failure:
    """One call on which the libraries differ: what differs, how large the call is, and code that shows it."""

    check: str
    dtype: str
    problem: str
    size: int
    code: str


@dataclass
class Report:
    """The outcome of the cases of one op.

    again: asks tdt alone for each case again, and compares with PyTorch's answer.
    """

    name: str
    passed: Counter = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    unasked: Counter = field(default_factory=Counter)
    same_clause: int = 0
    raised: int = 0
    again: list[Callable[[], None]] = field(default_factory=list)

    def ask_portable_code(self) -> None:
        """Ask each case again, of the portable code: after all of them, as kernels that calls have found are forgotten."""
        with quiet(), tdt.backends.kernels(False):
            for ask_again in self.again:
                ask_again()

    def note(self, check: str, problem: str | None, dtype: Any, function: str, arguments: tuple[tuple, dict]) -> None:
        """Count a case, a call of `function` with the arguments `given`; `problem` is None where it passed."""
        if problem is None:
            self.passed[check] += 1
        else:
            kind, code = str(dtype).removeprefix("torch."), call_code(function, *arguments)
            self.failures.append(Failure(check, kind, problem, size_of(arguments), code))

    def text(self) -> str:
        """The smallest failing call of each check, as code that runs in both libraries."""
        parts = []
        for check, group in itertools.groupby(sorted(self.failures, key=lambda f: f.check), lambda f: f.check):
            found = list(group)
            first = min(found, key=lambda f: f.size)
            dtypes = ", ".join(dict.fromkeys(f.dtype for f in found))
            parts.append(
                f"{self.name}, {check}: {len(found)} calls differ ({dtypes})\n{first.problem}\n\n"
                f"{first.code}\nimport torch, tdt; show(torch); show(tdt)\n"
            )
        return "\n".join(parts)


def full_name(info: OpInfo) -> str:
    """The op's name with its variant: `div/floor_rounding`."""
    return info.name + (f"/{info.variant_test_name}" if info.variant_test_name else "")


def is_lambda(info: OpInfo) -> bool:
    """Whether the database calls the op through a lambda of its own, as for methods without a function."""
    return isinstance(info.op, types.FunctionType) and info.op.__module__.startswith("torch.testing")


RENAMED = {"_segment_reduce": "segment_reduce"}  # names of the database that are not the public ones


@functools.cache
def our_function(name: str, variant: str) -> Callable | None:
    """The tdt function that answers for an entry of the database; None where tdt does not have it."""
    info = next(i for i in op_db if i.name == name and i.variant_test_name == variant)
    if is_lambda(info):
        known = hasattr(tdt.Tensor, name) or hasattr(tdt.Tensor, name + "_")
        found = lookup(name)
        known = known or (callable(found) and not isinstance(found, type))
        return over_tdt(info.op) if known else None
    found = lookup(RENAMED.get(name, name))
    if callable(found) and not isinstance(found, type):
        return None if found.__module__.startswith("tdt.compat.") else found  # which only libraries look up
    is_method = name.startswith("__") or isinstance(info.op, types.MethodDescriptorType)
    return getattr(tdt.Tensor, name, None) if is_method else None


def ours(info: OpInfo) -> Callable | None:
    """`our_function` of an entry."""
    return our_function(info.name, info.variant_test_name)


@functools.cache
def present() -> tuple[OpInfo, ...]:
    """The entries of the database whose op exists in tdt."""
    return tuple(info for info in op_db if ours(info) is not None)


def dtypes_of(info: OpInfo) -> list[torch.dtype]:
    """The dtypes among the ten tested here that PyTorch supports for the op on the CPU."""
    return [d for d in DTYPES if d in info.dtypes]


@functools.lru_cache(maxsize=32)
def _listed(name: str, variant: str, dtype: torch.dtype, requires_grad: bool) -> tuple[SampleInput, ...]:
    info = next(i for i in present() if i.name == name and i.variant_test_name == variant)
    seed_all()
    listed = tuple(
        s for s in info.sample_inputs("cpu", dtype, requires_grad=requires_grad, set_seed=False) if _is_small(s)
    )
    return listed if dtype is torch.float64 else some(listed)


def some(listed: tuple[SampleInput, ...], most: int = MANY) -> tuple[SampleInput, ...]:
    """At most so many of the samples: the same ones on every run."""
    return listed if len(listed) <= most else tuple(random.Random(7).sample(listed, most))


def _is_small(s: SampleInput) -> bool:
    return not isinstance(s.input, torch.Tensor) or s.input.numel() <= LARGE


def seed_all() -> None:
    """Start every generator that the database draws from; it would do so before each sample, at 1 ms a time."""
    random.seed(7)
    np.random.seed(7)
    torch.default_generator.manual_seed(7)


def samples(info: OpInfo, dtype: torch.dtype, requires_grad: bool = False) -> tuple[SampleInput, ...]:
    """The samples of an op and dtype: the same ones on every run."""
    return _listed(info.name, info.variant_test_name, dtype, requires_grad)


def samples_refused(info: OpInfo, dtype: torch.dtype) -> tuple[SampleInput, ...]:
    """Samples of a dtype that the op does not support: made by the database, or by exchanging a dtype it supports."""
    seed_all()
    supported, error = attempt(
        lambda: tuple(s for s in info.sample_inputs("cpu", dtype, set_seed=False) if _is_small(s))
    )
    if error is None:
        return some(supported)
    known = next(d for d in (torch.float32, torch.int64, *DTYPES) if d in info.dtypes)
    converted = [cloned((s.input, s.args, s.kwargs), {known: dtype}) for s in some(samples(info, known))]
    return tuple(SampleInput(first, args=args, kwargs=kwargs) for first, args, kwargs in converted)


def ask(report: Report, check: str, dtype: Any, function: str, theirs: Callable, our: Callable,
        arguments: tuple[tuple, dict], agree: Callable[..., str | None], copies: tuple | None = None) -> None:  # fmt: skip
    """One case: the same call in both libraries, on copies of the arguments `given`; `agree` says what differs.

    agree(our result, their result, our arguments, their arguments). copies: (their arguments, ours), if they are there.
    """

    def answer(our_arguments: tuple[tuple, dict]) -> None:
        result, our_error = attempt(our, *our_arguments[0], **our_arguments[1])
        problem = error_difference(our_error, their_error)
        if problem is None and their_error is None:
            problem = agree(result, expected, our_arguments, their_arguments)
        report.note(check, problem, dtype, function, arguments)

    try:
        their_arguments, our_arguments = copies or (cloned(arguments), to_tdt(arguments))
        expected, their_error = attempt(theirs, *their_arguments[0], **their_arguments[1])
        answer(our_arguments)
    except Unconvertible as reason:
        report.unasked[str(reason)] += 1
    else:
        report.again.append(lambda: answer(to_tdt(arguments)))


def size_of(arguments: Any) -> int:
    """How large a call is to a reader: numbers in its tensors, plus a little for every argument."""
    return sum(t.numel() for t in tensors_in(arguments, torch.Tensor)) + 2 * len(arguments[0]) + 2 * len(arguments[1])


def written_name(info: OpInfo) -> str:
    """How a listing calls the op: `torch.add`, or `{}.expand_as` for what exists as a method alone."""
    if not callable(lookup_torch(info.name)):
        return "{}." + info.name.rpartition(".")[2]
    return f"torch.{info.name}"


def lookup_torch(path: str) -> Any:
    """`torch.<path>`, or None."""
    return functools.reduce(lambda found, part: getattr(found, part, None), path.split("."), torch)
