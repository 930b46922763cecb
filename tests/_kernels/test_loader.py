"""Object files linked into the process without llvmlite, and by it where they need more."""

from __future__ import annotations

import ctypes
import sys

import llvmlite.binding as llvm
import pytest

from tdt._kernels import _loader

ON_X86_LINUX = sys.platform == "linux" and llvm.get_process_triple().startswith("x86_64")

ADD = "define i64 @add(i64 %a, i64 %b) { %s = add i64 %a, %b ret i64 %s }"
CONSTANTS = """
@table = private constant [3 x double] [double 1.5, double 2.5, double 3.5]
declare double @fma(double, double, double)
define double @third(double %x) {
  %p = getelementptr [3 x double], ptr @table, i64 0, i64 2
  %v = load volatile double, ptr %p
  %r = call double @fma(double %v, double %x, double 1.0)
  ret double %r
}
"""
COUNTER = """
@count = internal global i64 40
define i64 @more() { %v = load i64, ptr @count %w = add i64 %v, 1 store i64 %w, ptr @count ret i64 %w }
"""
FOREIGN = (
    "declare i64 @no_such_function_anywhere() define i64 @f() { %v = call i64 @no_such_function_anywhere() ret i64 %v }"
)


def assemble(text: str) -> bytes:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(codemodel="large", reloc="static")
    return machine.emit_object(llvm.parse_assembly(f'target triple = "{llvm.get_process_triple()}"\n{text}'))


def function(code: bytes, name: str, result: type, *args: type) -> ctypes._CFuncPtr:
    (address,), memory = _loader.load(code, [name])
    call = ctypes.CFUNCTYPE(result, *args)(address)
    call.memory = memory
    return call


def test_functions_compute():
    assert function(assemble(ADD), "add", ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(40, 2) == 42


def test_constants_and_functions_of_the_c_library_are_found():
    assert function(assemble(CONSTANTS), "third", ctypes.c_double, ctypes.c_double)(2.0) == 8.0


@pytest.mark.skipif(not ON_X86_LINUX, reason="other object files go to llvmlite")
def test_a_kernel_needs_no_llvmlite(monkeypatch):
    monkeypatch.setattr(_loader, "_load_by_llvm", None)
    assert function(assemble(ADD), "add", ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(1, 2) == 3


def test_an_object_with_variables_goes_to_llvmlite():
    call = function(assemble(COUNTER), "more", ctypes.c_int64)
    assert [call(), call()] == [41, 42]


def test_a_missing_function_is_named():
    with pytest.raises(RuntimeError, match="no function nothing"):
        _loader.load(assemble(ADD), ["nothing"])


def test_a_symbol_that_the_process_does_not_have_is_named():
    with pytest.raises(RuntimeError, match="no_such_function_anywhere"):
        _loader.load(assemble(FOREIGN), ["f"])


@pytest.mark.skipif(not ON_X86_LINUX, reason="mprotect is this loader's")
def test_a_system_that_refuses_executable_memory_is_reported(monkeypatch):
    code = assemble(ADD)
    monkeypatch.setattr(_loader.mmap, "PROT_EXEC", 1 << 20)  # no such right: the call fails
    with pytest.raises(OSError, match="executable memory.*TDT_KERNELS=reference"):
        _loader.load(code, ["add"])
