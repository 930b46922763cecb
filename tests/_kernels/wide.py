"""Run tests of kernels with vectors of sixteen numbers, and assemble all code that they make for a processor with AVX-512.

    python -m tests._kernels.wide tests/_kernels/test_attention_cpu.py …

Where vectors have eight numbers, LLVM splits these in two: what is computed is seen, registers and instructions of AVX-512 are
only assembled. LLVM ends the process where it cannot assemble.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from tdt._kernels import _native

PROCESSOR = "sapphirerapids"
assembled: list[int] = []


class OnlyAssembled(Exception):
    """Raised in place of linking."""


def assemble(module: Any) -> None:
    """The object code of a module, or of a list of them, for `PROCESSOR`."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(cpu=PROCESSOR, features="", opt=2, codemodel="large", reloc="static")
    first, *others = [llvm.parse_assembly(str(each)) for each in (module if isinstance(module, list) else [module])]
    for other in others:
        first.link_in(other)
    first.verify()
    assembled.append(len(machine.emit_object(first)))


def widen() -> None:
    """Make vectors of sixteen numbers from here on. Imports kernels, which ask for the width by name, only after that."""
    compiled = _native.compiled

    def both(module: Any, **how: Any) -> bytes:
        assemble(module)
        return compiled(module, **how)

    _native.vector_width = lambda: 16  # type: ignore[assignment]
    _native.compiled = both


def assemble_planes() -> None:
    """Assemble grouped convolutions, whose order of instructions is fixed by an assembly that only AVX-512 can read."""
    from tdt._backend.windows import output_sizes
    from tdt._kernels import _pixels, _planes, _planes_emit
    from tests._kernels import test_pixels, test_planes

    def only_assembled(name: str, symbols: list[str], write: Callable[[], Any]) -> list[int]:
        assemble(write())
        raise OnlyAssembled

    linked = _planes.linked
    _planes.linked = _pixels.linked = only_assembled  # type: ignore[assignment]
    cases = [(_planes, case) for case in test_planes.CASES] + [(_pixels, case) for case in test_pixels.CASES]
    for kernels, case in cases:
        x, w, b, how = test_planes.problem(case)
        size = output_sizes(x.shape[2:], w.shape[2:], how["stride"], how["padding"], how["dilation"])
        y = np.zeros((len(x), len(w), *size), np.float32)
        for compute in (
            lambda k=kernels, x=x, w=w, b=b, how=how: k.result(x, w, b, **how),
            lambda k=kernels, y=y, w=w, x=x, how=how: k.input_grad(y, w, None, size=x.shape[2:], **how),
            lambda k=kernels, y=y, w=w, x=x, how=how: k.weight_grad(y, x, kernel=w.shape[2:], **how),
        ):
            with contextlib.suppress(OnlyAssembled):
                compute()
    _planes.linked = _pixels.linked = linked
    assert len(assembled) > 2 * len(cases)
    _planes_emit.vector_width = lambda: 8  # the others are run


if __name__ == "__main__":
    widen()
    assemble_planes()
    ended = pytest.main(["-q", "--no-budget", "-p", "no:cacheprovider", *sys.argv[1:]])
    print(f"{len(assembled)} modules assembled for {PROCESSOR}")
    sys.exit(ended)
