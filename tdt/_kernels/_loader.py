"""Load a kernel's object file into this process: lay its sections out in memory, relocate them, make them executable.

llvmlite can do this too, but to import it takes longer (50 to 100 ms) than most small programs run. An object file of a
kernel is simple: it refers to its own constants and to a few functions of the C library, always by absolute addresses,
since it is compiled for the "large" code model. Any other object file (another processor's, Mach-O, COFF) goes to llvmlite.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tdt._kernels._compilable import RELEASE

MAGIC = b"\x7fELF\x02\x01\x01"  # 64 bits, little-endian
X86_64 = 62
NOBITS, RELOCATIONS, UNWIND = 8, 4, 0x70000001  # types of sections
WRITE, ALLOCATE = 1, 2  # flags of sections
UNDEFINED, COMMON = 0, 0xFFF2  # instead of a symbol's section
ABSOLUTE = 1  # R_X86_64_64: the symbol's address plus a number, as 8 bytes


class UnsupportedObject(Exception):
    """The object file needs a full linker."""


class Section(NamedTuple):
    """A row of the section table of an ELF file (System V ABI, chapter 4)."""

    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry: int


class Symbol(NamedTuple):
    """A row of the symbol table."""

    name: int
    info: int
    other: int
    section: int
    value: int
    size: int


def load(code: bytes, names: Sequence[str]) -> tuple[list[int], Any]:
    """The addresses of the functions `names` of an object file, and what keeps the memory they lie in.

    Raises:
        RuntimeError: no such function, or a symbol that this process does not have.
        OSError: the system refuses executable memory.
    """
    try:
        return _load(code, names)
    except UnsupportedObject:
        return _load_by_llvm(code, names)


def _load(code: bytes, names: Sequence[str]) -> tuple[list[int], Any]:
    if code[:7] != MAGIC or struct.unpack_from("<H", code, 18)[0] != X86_64:
        raise UnsupportedObject("no ELF file for x86-64")
    table, (width, count) = struct.unpack_from("<Q", code, 40)[0], struct.unpack_from("<HH", code, 58)
    sections = [Section(*struct.unpack_from("<IIQQQQIIQQ", code, table + width * k)) for k in range(count)]
    symbol_table = next(s for s in sections if s.type == 2)
    strings = sections[symbol_table.link].offset
    symbols = [Symbol(*row) for row in struct.iter_unpack("<IBBHQQ", code[symbol_table.offset :][: symbol_table.size])]
    places: dict[int, int] = {}  # offsets in memory, by section
    size = 0
    for k, section in enumerate(sections):
        if section.flags & ALLOCATE and section.size and section.type != UNWIND:
            if section.flags & WRITE or section.type == NOBITS:
                raise UnsupportedObject("variables")
            size = -(-size // section.align) * section.align
            places[k] = size
            size += section.size
    common: dict[int, int] = {}
    for k, symbol in enumerate(symbols):
        if symbol.section == COMMON:
            size = -(-size // symbol.value) * symbol.value  # its alignment
            common[k] = size
            size += symbol.size
    memory = mmap.mmap(-1, max(size, 1), prot=mmap.PROT_READ | mmap.PROT_WRITE)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for k, place in places.items():
        memory[place : place + sections[k].size] = code[sections[k].offset :][: sections[k].size]

    def name_of(symbol: Symbol) -> str:
        start = strings + symbol.name
        return code[start : code.index(0, start)].decode()

    def address_of(k: int) -> int:
        symbol = symbols[k]
        if symbol.section == UNDEFINED:
            return _of_process(name_of(symbol))
        if symbol.section == COMMON:
            return base + common[k]
        if symbol.section not in places:
            raise UnsupportedObject(f"a symbol of section {symbol.section}")
        return base + places[symbol.section] + symbol.value

    for section in sections:
        if section.type == RELOCATIONS and section.info in places:
            for offset, info, addend in struct.iter_unpack("<QQq", code[section.offset :][: section.size]):
                if info & 0xFFFFFFFF != ABSOLUTE:
                    raise UnsupportedObject(f"relocation {info & 0xFFFFFFFF}")
                struct.pack_into("<Q", memory, places[section.info] + offset, address_of(info >> 32) + addend)
    found = {name_of(symbol): k for k, symbol in enumerate(symbols) if symbol.section in places and symbol.name}
    missing = [name for name in names if name not in found]
    if missing:
        raise RuntimeError(f"the object file has no function {missing[0]}")
    _make_executable(base, len(memory))
    return [address_of(found[name]) for name in names], memory


def _of_process(name: str) -> int:
    """The address of a function of the C library."""
    process = ctypes.CDLL(None)
    function = getattr(process, "abort" if name == RELEASE else name, None)
    if function is None:
        raise RuntimeError(f"the object file refers to {name}, which this process does not have")
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _make_executable(address: int, size: int) -> None:
    protect: Callable[..., int] = ctypes.CDLL(None, use_errno=True).mprotect
    if protect(ctypes.c_void_p(address), ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_EXEC) != 0:
        number = ctypes.get_errno()
        raise OSError(
            number, "this system refuses executable memory, which kernels need; TDT_KERNELS=reference does without"
        )


def _load_by_llvm(code: bytes, names: Sequence[str]) -> tuple[list[int], Any]:
    """The same by llvmlite's linker."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    if llvm.address_of_symbol(RELEASE) is None:
        llvm.add_symbol(RELEASE, _of_process(RELEASE))
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return [engine.get_function_address(name) for name in names], engine
